"""The bounds of what is read of objects, as the reference tells them."""

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

PAGE = Path("docs/reference/names.md")
#: Modules and packages that read what users write.
READERS = (
    "queues/api",
    "queues/resources.py",
    "queues/text_format.py",
    "admission/decode",
    "admission/kube/writers/dry_runs.py",
    "admission/kube/watch/store.py",
    "admission/volcano_jobs",
    "admission/workloads",
    "admission/world",
)
_CONSTANT = re.compile(r"^(_?(?:MOST|LARGEST|LONGEST|DEEPEST)(?:_[A-Z_]+)?)\b[^=\n]*= ", re.MULTILINE)


class Row(NamedTuple):
    """The second cell of a row, with a place for each of the constants, which are counted in a unit."""

    cell: str
    constants: list[str]
    unit: int = 1


BOUNDS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
#: By the first cell. A constant is named by its module and its name.
ROWS = {first: Row(**row) for first, row in BOUNDS["rows"].items()}
#: Constants of the same form that bound nothing that a user writes.
OTHERS = set(BOUNDS["others"])


def bounds() -> Iterator[tuple[str, int]]:
    """Constants of the modules that read what users write, with their values."""
    for reader in map(Path, READERS):
        for path in (reader,) if reader.suffix else sorted(reader.rglob("*.py")):
            module = importlib.import_module(".".join(path.with_suffix("").parts))
            for name in _CONSTANT.findall(path.read_text(encoding="utf-8")):
                yield f"{path.stem}.{name}", getattr(module, name)


def test_the_bounds_of_values_are_the_documented_ones() -> None:
    found = dict(bounds())
    told = {constant for row in ROWS.values() for constant in row.constants}
    assert found.keys() == told | OTHERS, "each bound has a row, or is none of what users write"
    section = PAGE.read_text(encoding="utf-8").partition("## How much of an object is read")[2]
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|")][2:]
    assert dict(lines) == {
        first: row.cell.format(*(found[constant] // row.unit for constant in row.constants))
        for first, row in ROWS.items()
    }
