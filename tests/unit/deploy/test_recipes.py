"""The recipes: each page shows its manifest as it is, and `muster check` accepts it without a warning."""

import re
from pathlib import Path

import pytest

from admission.cli.command_line import finish
from admission.cli.muster import muster

ROOT = Path(__file__).parents[3]
PAGES = sorted(path for path in (ROOT / "docs/how-to/recipes").glob("*.md") if path.name != "README.md")
MANIFESTS = ROOT / "deploy/examples/recipes"


def test_each_manifest_has_a_page_that_the_index_names() -> None:
    assert {path.stem for path in PAGES} == {path.stem for path in MANIFESTS.glob("*.yaml")}
    index = (ROOT / "docs/how-to/recipes/README.md").read_text()
    assert set(re.findall(r"\(([a-z]+)\.md\)", index)) == {path.stem for path in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_shows_its_manifest_and_check_accepts_it(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = MANIFESTS / f"{page.stem}.yaml"
    (shown,) = re.findall(r"^```yaml\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    assert shown == manifest.read_text()
    queues = ROOT / "deploy/examples/queues.yaml"
    assert finish(muster, "muster", ("check", str(queues), str(manifest))) == 0
    assert "2 files: 0 errors, 0 warnings" in capsys.readouterr().err
