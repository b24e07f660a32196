"""Values of the domain as JSON and back, by the types of their fields.

Dataclasses are objects with a key per field, tuples and sets lists, enums their values, workload keys
``kind/uid``, amounts the integers of ``queues.resources``. Nothing is listed here field by field, so a field
that is added to a value is written and read without anybody thinking of it.
"""

from collections.abc import Callable, Mapping, Set
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

import numpy as np

from queues.errors import InvalidDocument
from queues.resources import Resources
from queues.workload import WorkloadKey, WorkloadKind

Special = Mapping[Any, Callable[[Any], Any]]

#: What arrays of the engine hold.
_LARGEST: Final = 2**62


def plain(value: Any, special: Special | None = None) -> Any:
    """The JSON form of a value. ``special``: how values of some types are written."""
    write = (special or {}).get(type(value))
    match value:
        case _ if write is not None:
            form: Any = write(value)
        case Enum():
            form = value.value
        case WorkloadKey():
            form = str(value)
        case Mapping():
            form = {_key(key): plain(each, special) for key, each in value.items()}
        case Set():
            form = sorted(plain(each, special) for each in value)
        case tuple() | list():
            form = [plain(each, special) for each in value]
        case np.ndarray():
            form = {"shape": list(value.shape), "values": value.ravel().tolist()}
        case _ if is_dataclass(value) and not isinstance(value, type):
            form = {
                field.name: plain(getattr(value, field.name), special)
                for field in fields(value)
                if not field.name.startswith("_")
            }
        case _:
            form = value
    return form


def _key(key: Any) -> str:
    return "/".join(key) if isinstance(key, tuple) else str(key)


def value(kind: Any, form: Any, where: str = "", special: Special | None = None) -> Any:
    """The value of a type that has this JSON form.

    ``special``: how values of some types are read. Raises InvalidDocument, with the place.
    """
    read = (special or {}).get(kind)
    if read is not None:
        return _tried(read, form, where, "what can be read")
    return _by_type(_bare(kind), form, where, special)


def _by_type(kind: Any, form: Any, where: str, special: Special | None) -> Any:
    origin = get_origin(kind)
    match origin:
        case _ if origin is Union or origin is UnionType:
            read: Any = _one_of(get_args(kind), form, where, special)
        case _ if origin is np.ndarray:
            read = _array(get_args(kind), form, where)
        case type() if issubclass(origin, Mapping):
            read = _mapping(get_args(kind), form, where, special)
        case _ if origin is tuple:
            read = _tuple(get_args(kind), form, where, special)
        case _ if origin is frozenset:
            read = frozenset(_tuple((*get_args(kind), Ellipsis), form, where, special))
        case _:
            read = _single(kind, form, where, special)
    return read


def _single(kind: Any, form: Any, where: str, special: Special | None) -> Any:
    """Of a type without parameters."""
    if kind is Any or kind is object:
        read = form
    elif kind is Resources:
        amounts = _expect(form, dict, where)
        read = Resources({name: _expect(units, int, f"{where}.{name}") for name, units in amounts.items()})
    elif kind is WorkloadKey:
        read = _workload_key(form, where)
    elif issubclass(kind, Enum):
        read = _tried(kind, form, where, f"one of {', '.join(str(each.value) for each in kind)}")
    elif is_dataclass(kind):
        read = _dataclass(kind, form, where, special)
    elif kind in (bool, int, str, NoneType):
        read = _expect(form, kind, where)
    else:
        raise TypeError(f"{where}: no way to read a {kind}")
    return read


def _bare(kind: Any) -> Any:
    """The type behind a NewType."""
    while hasattr(kind, "__supertype__"):
        kind = kind.__supertype__
    return kind


def _one_of(kinds: tuple[Any, ...], form: Any, where: str, special: Special | None) -> Any:
    if form is None and NoneType in kinds:
        return None
    others = [kind for kind in kinds if kind is not NoneType]
    for kind in others[:-1]:
        try:
            return value(kind, form, where, special)
        except InvalidDocument:
            continue
    return value(others[-1], form, where, special)


def _mapping(arguments: tuple[Any, ...], form: Any, where: str, special: Special | None) -> Any:
    key_kind, each_kind = arguments
    return {
        _read_key(_bare(key_kind), key, where): value(each_kind, each, f"{where}.{key}", special)
        for key, each in _expect(form, dict, where).items()
    }


def _read_key(kind: Any, key: str, where: str) -> Any:
    if kind is int:
        return _tried(int, key, f"{where}.{key}", "a whole number")
    if kind is WorkloadKey:
        return _workload_key(key, where)
    return key


def _workload_key(form: Any, where: str) -> WorkloadKey:
    kind, _, uid = _expect(form, str, where).partition("/")
    known = f"kind/uid with a kind of {', '.join(WorkloadKind)}"
    return WorkloadKey(_tried(WorkloadKind, kind, where, known), uid)


def _tuple(arguments: tuple[Any, ...], form: Any, where: str, special: Special | None) -> Any:
    items = _expect(form, list, where)
    if arguments[-1] is Ellipsis:
        arguments = arguments[:1] * len(items)
    if len(arguments) != len(items):
        raise InvalidDocument(where=where, found=f"{len(items)} values", expected=f"{len(arguments)} of them")
    return tuple(
        value(kind, each, f"{where}[{number}]", special)
        for number, (kind, each) in enumerate(zip(arguments, items, strict=True))
    )


def _array(arguments: tuple[Any, ...], form: Any, where: str) -> Any:
    (kind,) = get_args(arguments[1])
    content = _expect(form, dict, where)
    try:
        return np.array(content["values"], dtype=kind).reshape(content["shape"])
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise InvalidDocument(where=where, found=str(error), expected="shape and values") from error


@lru_cache(maxsize=256)
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _dataclass(kind: Any, form: Any, where: str, special: Special | None) -> Any:
    content = _expect(form, dict, where)
    known = {field.name: field for field in fields(kind) if not field.name.startswith("_")}
    unknown = sorted(content.keys() - known.keys())
    if unknown:
        raise InvalidDocument(
            where=where, found=f"{', '.join(unknown)} in a {kind.__name__}", expected="known fields only"
        )
    missing = [
        name
        for name, field in known.items()
        if name not in content and field.default is MISSING and field.default_factory is MISSING
    ]
    if missing:
        raise InvalidDocument(
            where=where, found=f"a {kind.__name__} without {', '.join(missing)}", expected="all of it"
        )
    hints = _hints(kind)
    return kind(
        **{
            name: value(hints[name], each, f"{where}.{name}" if where else name, special)
            for name, each in content.items()
        }
    )


def _expect(form: Any, kind: Any, where: str) -> Any:
    if isinstance(form, kind) and not (
        kind is int and (isinstance(form, bool) or not -_LARGEST <= form <= _LARGEST)
    ):
        return form
    words = {dict: "an object", list: "a list", int: "a whole number", str: "text", bool: "true or false"}
    raise InvalidDocument(where=where, found=repr(form)[:80], expected=words.get(kind, "null"))


def _tried(make: Any, form: Any, where: str, expected: str) -> Any:
    try:
        return make(form)
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidDocument(where=where, found=repr(form)[:80], expected=expected) from error
