"""Tables of cases that lie as YAML next to their tests: who changes a row changes data only."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml


def with_rows(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Parametrizes a test with the rows under its name in the YAML file next to it, ``test_x.yaml`` for ``test_x.py``.

    ``names`` are the arguments that a row gives: a list of values for several, the value itself for one. The table
    maps the id of each row to the row; a plain list leaves the ids to pytest.
    """

    def decorated(test: Callable[..., Any]) -> Callable[..., Any]:
        table = _tables(Path(test.__code__.co_filename).with_suffix(".yaml"))[test.__name__]
        rows, ids = (list(table.values()), list(table)) if isinstance(table, dict) else (table, None)
        return pytest.mark.parametrize(names if len(names) > 1 else names[0], rows, ids=ids)(test)

    return decorated


def named_rows(
    names: str | tuple[str, ...], rows: Mapping[str, object]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Parametrizes a test with rows that are values of Python, by the id of each."""
    return pytest.mark.parametrize(names, list(rows.values()), ids=list(rows))


@lru_cache
def _tables(file: Path) -> dict[str, Any]:
    tables: dict[str, Any] = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
    return tables
