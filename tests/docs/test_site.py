"""The documentation is a site in which each page is found and each link leads somewhere."""

import re
import shutil
from pathlib import Path

import pytest

from deploy.site import build as site
from deploy.site.__main__ import main


def flat(menu: list[object]) -> list[str]:
    pages: list[str] = []
    for entry in menu:
        found = next(iter(entry.values())) if isinstance(entry, dict) else entry
        pages += flat(found) if isinstance(found, list) else [str(found)]
    return pages


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    main(folder)
    return folder


def test_every_page_is_in_the_menu_once() -> None:
    pages = flat(site.menu_of(site.DOCS))
    assert sorted(pages) == sorted(str(page.relative_to(site.DOCS)) for page in site.DOCS.rglob("*.md"))
    assert {Path(page).parts[0] for page in pages if "/" in page} <= site.SECTIONS.keys()


def test_the_site_asks_nobody_else_for_anything(built: Path) -> None:
    """No font, script or picture comes from outside: it is read in networks that reach nothing else."""
    fetched = re.compile(r"<(?:script|img|link|iframe)[^>]+(?:src|href)=\"?(https?://[^\" >]+)")
    found = {match for page in built.rglob("*.html") for match in fetched.findall(page.read_text())}
    assert found == set()


def test_a_version_is_a_folder_beside_others_and_is_found_by_its_words(built: Path, tmp_path: Path) -> None:
    (version,) = [path for path in built.iterdir() if path.is_dir()]
    assert "how-to/tenants/" in (version / "search" / "search_index.json").read_text()
    versions = (built / "versions.json").read_text()
    assert f'"version": "{version.name}"' in versions
    assert f"url={version.name}/" in (built / "index.html").read_text()


def test_a_link_that_leads_nowhere_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    shutil.copy(site.DOCS / "glossary.md", docs)
    for link, said in (("nothing.md", "nothing.md"), ("glossary.md#no-such-word", "no-such-word")):
        (docs / "README.md").write_text(f"# First\n\n[elsewhere]({link})\n")
        (docs / "glossary.md").write_text("# Words\n")
        monkeypatch.setattr(site, "DOCS", docs)
        with pytest.raises(site.BrokenSite, match=said):
            site.build(tmp_path / "site" / "1.0")
