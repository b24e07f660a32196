"""Parts of JSON data that may have any form, as users write it: what is absent or of another type is nothing. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any


def value_at(value: Any, *path: str) -> Any:
    """The value at a path of keys; None if there is none."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def mapping_at(value: Any, *path: str) -> Mapping[str, Any]:
    """The mapping at a path of keys; empty: there is none."""
    found = value_at(value, *path)
    return found if isinstance(found, Mapping) else {}


def list_at(value: Any, *path: str) -> Sequence[Any]:
    """The entries of the list at a path of keys; empty: there is none."""
    found = value_at(value, *path)
    return found if isinstance(found, list | tuple) else ()


def text_at(value: Any, *path: str) -> str:
    """The text at a path of keys; "": there is none."""
    found = value_at(value, *path)
    return found if isinstance(found, str) else ""


def without_nulls(value: Any) -> Any:
    """A value as the API server stores it: a field that is null is absent."""
    if isinstance(value, Mapping):
        return {key: without_nulls(part) for key, part in value.items() if part is not None}
    return [without_nulls(part) for part in value] if isinstance(value, list | tuple) else value
