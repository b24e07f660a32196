"""JSON patches (RFC 6902) of objects at the API server: what a merge patch says, on conditions that it cannot state."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

Step = dict[str, Any]


def escaped(key: str) -> str:
    """A key as a token of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


def expect(path: str, value: Any) -> Step:
    """A step that fails, and the whole patch with it, unless the object has this value there."""
    return {"op": "test", "path": path, "value": value}


def steps_of(changes: Mapping[str, Any], existing: Collection[str], at: str = "") -> Iterator[Step]:
    """The steps that do what a merge patch (RFC 7386) would.

    ``existing``: JSON pointers of objects that are there, so that the patch may go into them, and of values that are
    there, so that they can be removed. What is not among them is taken to be absent.
    """
    for key, value in changes.items():
        path = f"{at}/{escaped(key)}"
        if isinstance(value, Mapping):
            if path in existing:
                yield from steps_of(value, existing, path)
            elif filled := _filled(value):
                yield {"op": "add", "path": path, "value": filled}
        elif value is not None:
            yield {"op": "add", "path": path, "value": value}
        elif path in existing:
            yield {"op": "remove", "path": path}


def _filled(changes: Mapping[str, Any]) -> dict[str, Any]:
    """A new object: what is to be removed from it, and what would be empty, is left out."""
    filled = {
        key: _filled(value) if isinstance(value, Mapping) else value
        for key, value in changes.items()
        if value is not None
    }
    return {key: value for key, value in filled.items() if value != {}}
