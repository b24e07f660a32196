"""The list of laws in README.md names every law there is, and nothing else."""

import ast
import re
from pathlib import Path

from tests.tables import with_rows

HERE = Path(__file__).parent
LISTED = {
    name for cell in re.findall(r"`([\w.]+)`", (HERE / "README.md").read_text()) for name in cell.split(".")
}


def laws_in(module: str) -> set[str]:
    """Public functions that return nothing: they raise where the law is broken."""
    tree = ast.parse((HERE / "laws" / f"{module}.py").read_text())
    return {
        each.name
        for each in tree.body
        if isinstance(each, ast.FunctionDef)
        and not each.name.startswith("_")
        and isinstance(each.returns, ast.Constant)
        and each.returns.value is None
    }


@with_rows("module")
def test_every_law_is_listed(module: str) -> None:
    assert laws_in(module) - LISTED == set()


def test_every_file_of_laws_is_listed() -> None:
    files = {path.stem for path in HERE.rglob("test_*.py")} - {"test_decision_bugs", Path(__file__).stem}
    assert files - LISTED == set()


def test_everything_that_is_listed_is_there() -> None:
    there = {path.stem for path in HERE.rglob("*.py")} | {"py", "md", "NodeUnderFaults", "RingUnderFaults"}
    for path in HERE.rglob("*.py"):
        there |= {
            each.name
            for each in ast.walk(ast.parse(path.read_text()))
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        }
    assert LISTED - there - {"decide"} == set()
