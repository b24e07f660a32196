"""Expected values that lie as YAML next to their tests: ``test_x.golden.yaml`` for ``test_x.py``, by the test's name.

``pytest --rewrite-goldens -n 0 PATH`` writes them anew: a change of words is one data file, which is read in its diff.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-goldens", action="store_true", help="take what is found for what is expected")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Any:
    """What the test expects, as plain data; a mapping where it expects several values."""
    file = request.path.with_suffix(".golden.yaml")
    if request.config.getoption("--rewrite-goldens"):
        return _Rewritten(file, (request.node.name,))
    return _stored(file)[request.node.name]


class _Rewritten:
    """Stands for an expected value: takes whatever it is compared with."""

    def __init__(self, file: Path, keys: tuple[str, ...]) -> None:
        self._file, self._keys = file, keys

    def __getitem__(self, key: str) -> "_Rewritten":
        return _Rewritten(self._file, (*self._keys, key))

    def __eq__(self, value: object) -> bool:
        stored = _stored.__wrapped__(self._file) if self._file.exists() else {}
        *above, last = self._keys
        place = stored
        for key in above:
            place = place.setdefault(key, {})
        place[last] = value
        self._file.write_text(dump(stored), encoding="utf-8")
        return True

    __hash__ = None  # type: ignore[assignment]


@lru_cache
def _stored(file: Path) -> Any:
    return yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as such, and no references."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def dump(values: Any) -> str:
    """The content of a file of expected values."""
    text: str = yaml.dump(values, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=110)
    return text
