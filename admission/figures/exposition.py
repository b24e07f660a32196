"""Prometheus' text format for metrics with thousands of series, which its client library takes too long to write."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

_ESCAPED: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def labels_text(**labels: str) -> str:
    """``queue="a",flavor=""``: names and values, without braces."""
    return ",".join([f'{name}="{_escaped(value)}"' for name, value in labels.items()])


@lru_cache(maxsize=32_768)
def _escaped(value: str) -> str:
    return value.translate(_ESCAPED)


def head(name: str, kind: str, about: str) -> str:
    """The two lines above the series of a metric. ``about`` has neither a line break nor a backslash."""
    return f"# HELP {name} {about}\n# TYPE {name} {kind}\n"


def family(name: str, kind: str, about: str, lines: Iterable[tuple[str, float]]) -> str:
    """A metric as text; ``lines``: the text of the labels, and the value. Empty: there is no series."""
    body = "".join([f"{name}{{{labels}}} {value}\n" for labels, value in lines])
    return head(name, kind, about) + body if body else ""
