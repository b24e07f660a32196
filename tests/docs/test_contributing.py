"""The page for contributors, and the layout that it promises."""

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/contributing.md").read_text(encoding="utf-8")
TABLE = PAGE.partition("## I want to change")[2].partition("\n## ")[0]
PRODUCT = ("queues", "admission", "deploy", "migrations")
MOST_LINES, MOST_MODULES = 800, 25
#: Has one more module with each change of the schema, and loses none.
MIGRATIONS = ROOT / "migrations/versions"


def modules(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def test_every_path_that_is_named_exists() -> None:
    named = re.findall(rf"`((?:{'|'.join(PRODUCT)}|docs|tests)/[\w./]*)`", TABLE)
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_at_least_twenty_five_changes_have_a_place_to_begin() -> None:
    assert len(re.findall(r"^\| [^|]+ \| `[^`]+` \|", TABLE, re.MULTILINE)) >= 25


def test_every_package_of_the_ring_is_drawn() -> None:
    packages = {path.name for path in (ROOT / "admission").iterdir() if (path / "__init__.py").exists()}
    assert {name for name in packages if f"admission/{name}/" not in PAGE} == set()


def test_no_module_is_too_long_and_no_folder_too_full() -> None:
    every = modules(*PRODUCT, "tests")
    assert [str(path) for path in every if len(path.read_text().splitlines()) > MOST_LINES] == []
    folders: dict[Path, int] = defaultdict(int)
    for path in every:
        folders[path.parent] += path.name != "__init__.py"
    del folders[MIGRATIONS]
    full = {str(path.relative_to(ROOT)): count for path, count in folders.items() if count > MOST_MODULES}
    assert full == {}


def test_a_public_class_name_exists_once() -> None:
    places = defaultdict(list)
    for path in modules(*PRODUCT):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}
