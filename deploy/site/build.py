"""One version of the site: its menu follows from the documents themselves, and each link leads somewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import yaml

REPOSITORY: Final = Path(__file__).parents[2]
DOCS: Final = REPOSITORY / "docs"
_CONFIGURATION: Final = Path(__file__).with_name("mkdocs.yml")
#: Folders of ``docs`` in the order of the menu, with their titles.
SECTIONS: Final = {
    "tutorial": "Tutorial",
    "how-to": "How-to",
    "runbooks": "Runbooks",
    "explanation": "Explanation",
    "reference": "Reference",
    "decisions": "Decisions",
}


class BrokenSite(Exception):
    """What the documents have that a site cannot: a link that leads nowhere, or a page that is not in the menu."""


def build(folder: Path) -> None:
    """Write the site into ``folder``. Raises BrokenSite."""
    own = {
        "INHERIT": os.path.relpath(_CONFIGURATION, folder.parent),
        "nav": menu_of(DOCS),
        "docs_dir": str(DOCS),
        "site_dir": str(folder.resolve()),
        "hooks": [str(Path(__file__).with_name("outside_links.py"))],
    }
    folder.parent.mkdir(parents=True, exist_ok=True)
    configuration = folder.parent / f".mkdocs-{folder.name}.yml"
    configuration.write_text(yaml.safe_dump(own, sort_keys=False))
    try:
        done = subprocess.run(
            # Not --quiet: then no warning counts, and --strict lets broken links pass.
            [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", configuration],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        )
    finally:
        configuration.unlink()
    if done.returncode != 0:
        told = [line for line in done.stderr.splitlines() if line.startswith(("WARNING", "ERROR"))]
        raise BrokenSite("\n".join(told) or done.stderr.strip())


def menu_of(docs: Path) -> list[Any]:
    """The menu: pages in the order in which the first page names them, then the others by name."""
    named = re.findall(r"\]\(([a-z0-9/_-]+\.md)[)#]", (docs / "README.md").read_text())
    places = {path: place for place, path in reversed(list(enumerate(named)))}
    pages = sorted(
        (str(page.relative_to(docs)) for page in docs.rglob("*.md")),
        key=lambda path: (places.get(path, len(named)), path),
    )
    menu: list[Any] = [{"Muster": "README.md"}]
    menu += [{title: found} for folder, title in SECTIONS.items() if (found := _below(folder, pages))]
    return menu + [path for path in pages if "/" not in path and path != "README.md"]


def _below(folder: str, pages: list[str]) -> list[str]:
    return [path for path in pages if path.startswith(f"{folder}/")]
