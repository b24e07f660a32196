"""Expressions in CEL as text, for admission policies: values of an object, and JSON patches of it. Pure.

Values in patches are plain maps and strings: a typed list element, such as ``Object.spec.schedulingGates{}``,
crashes the request on 1.36.3.
"""

from collections.abc import Iterable


def text(value: str) -> str:
    """A CEL string literal."""
    inside = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{inside}'"


def texts(values: Iterable[str]) -> str:
    """A CEL list of strings."""
    return "[" + ", ".join(text(value) for value in values) + "]"


def label(key: str, of: str = "object") -> str:
    """A label's value, "" if there is none."""
    return f"{of}.metadata.?labels[?{text(key)}].orValue('')"


def annotation(key: str, of: str = "object") -> str:
    """An annotation's value, "" if there is none."""
    return f"{of}.metadata.?annotations[?{text(key)}].orValue('')"


def has_any(of: str, *, labels: Iterable[str] = (), annotations: Iterable[str] = ()) -> str:
    """Whether metadata has one of these labels or annotations, with whatever value."""
    found = [
        f"{text(key)} in {of}.metadata.?{field}.orValue({{}})"
        for field, keys in (("labels", labels), ("annotations", annotations))
        for key in keys
    ]
    return f"({' || '.join(found)})"


def add(path: str, value: str) -> str:
    """A patch of one step: this expression's value at a path."""
    return f"[JSONPatch{{op: 'add', path: {text(path)}, value: {value}}}]"


def remove(path: str) -> str:
    """A patch of one step: nothing is left at a path, where something has to be."""
    return f"[JSONPatch{{op: 'remove', path: {text(path)}}}]"


def only_if(condition: str, patches: str) -> str:
    """Patches where a condition holds, else none."""
    return f"({condition} ? {patches} : [])"


def map_exists(of: str, at: str, name: str) -> str:
    """Make labels or annotations, which are left out when empty."""
    return only_if(f"!has({of}.metadata.{name})", add(f"{at}/metadata/{name}", "{}"))


def join(*patches: str) -> str:
    """All of these patches, one after the other."""
    return "\n+ ".join(patches)
