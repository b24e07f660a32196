"""The page for contributors, and the layout that it promises."""

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/contributing.md").read_text(encoding="utf-8")
LIST = PAGE.partition("## I want to change")[2].partition("\n## ")[0]
PRODUCT = ("queues", "admission", "deploy", "migrations")
MOST_LINES, MOST_LINES_OF_A_FUNCTION, FEWEST_LINES, FEWEST_MODULES = 800, 60, 50, 3
#: Folders of modules that stand for themselves, however small: plug-ins, kinds, versions.
REGISTRIES = {"plugins", "kinds", "operators", "versions"}
#: Folders of fewer modules, with the reason.
SMALL_FOLDERS: dict[str, str] = {}
#: Functions that are longer.
LONG_FUNCTIONS = {
    "admission/engine/decide.py::decide",
}


def modules(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def test_every_path_that_is_named_exists() -> None:
    named = re.findall(rf"`((?:{'|'.join(PRODUCT)}|docs|tests)/[\w./]*)`", LIST)
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_at_least_twenty_five_changes_have_a_place_to_begin() -> None:
    assert len(re.findall(r"^- [^`]+: `[^`]+`", LIST, re.MULTILINE)) >= 25


def test_every_package_of_the_ring_is_drawn() -> None:
    packages = {path.name for path in (ROOT / "admission").iterdir() if (path / "__init__.py").exists()}
    assert {name for name in packages if f"admission/{name}/" not in PAGE} == set()


def test_no_file_is_longer_than_a_topic() -> None:
    every = modules(*PRODUCT, "tests")
    assert [str(path) for path in every if len(path.read_text().splitlines()) > MOST_LINES] == []


def test_no_small_module_serves_a_single_neighbour() -> None:
    importers: dict[str, set[Path]] = defaultdict(set)
    for path in modules(*PRODUCT):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                for name in {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}:
                    importers[name].add(path)
    lonely = [
        str(path.relative_to(ROOT))
        for path in modules("admission", "queues")
        if path.name != "__init__.py"
        and not REGISTRIES & set(path.parts)
        and len(path.read_text().splitlines()) < FEWEST_LINES
        and [
            importer.parent for importer in importers[".".join(path.relative_to(ROOT).with_suffix("").parts)]
        ]
        == [path.parent]
    ]
    assert lonely == [], "a module of a few lines belongs into the one that uses it"


def test_no_folder_holds_one_or_two_modules() -> None:
    counts: dict[str, int] = defaultdict(int)
    for path in modules("admission", "queues"):
        if path.name != "__init__.py" and not REGISTRIES & set(path.parts):
            counts[str(path.parent.relative_to(ROOT))] += 1
    assert {folder for folder, count in counts.items() if count < FEWEST_MODULES} == SMALL_FOLDERS.keys()


def test_no_function_is_longer_than_a_screen() -> None:
    long = {
        f"{path.relative_to(ROOT)}::{node.name}"
        for path in modules("admission", "queues")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno > MOST_LINES_OF_A_FUNCTION
    }
    assert long == LONG_FUNCTIONS


def test_a_public_class_name_exists_once() -> None:
    places = defaultdict(list)
    for path in modules(*PRODUCT):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}
