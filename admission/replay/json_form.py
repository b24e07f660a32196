"""Values of the domain as JSON and back, by the types of their fields.

Dataclasses are objects with a key per field, tuples and sets lists, enums their values, workload keys
``kind/uid``, amounts the integers of ``queues.resources``. No field is listed here, so a field that is added to a
value is written and read at once. (``msgspec.convert`` reads no ``kind/uid`` as the key of a mapping, passes over
unknown fields of a dataclass, and does not say at which key of a mapping it failed.)

``where`` is always the place of the form in its document, for errors.
"""

from collections.abc import Callable, Mapping, Set
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import lru_cache
from sys import intern
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from queues.errors import InvalidDocument
from queues.kind_names import KindName
from queues.resources import Resources
from queues.workload import WorkloadKey

#: The largest whole number: what arrays of the engine hold.
_LARGEST: Final = 2**62

#: No field has a form of its own.
_NONE: Final[Mapping[str, Callable[[Any], Any]]] = {}

_EXPECTED: Final = {
    dict: "an object",
    list: "a list",
    int: "a whole number",
    str: "text",
    bool: "true or false",
    NoneType: "null",
}


def written(value: Any) -> Any:
    """The JSON form of a value."""
    match value:
        case WorkloadKey():
            form: Any = str(value)
        case Enum():
            form = value.value
        case Mapping():
            form = in_order(dict(sorted(value.items(), key=lambda item: str(item[0]))))
        case Set():
            form = sorted(written(each) for each in value)
        case tuple() | list():
            form = [written(each) for each in value]
        case _ if is_dataclass(value):
            form = written_fields(value)
        case _:
            form = value
    return form


def written_fields(value: Any, own: Mapping[str, Callable[[Any], Any]] = _NONE) -> dict[str, Any]:
    """The JSON form of a dataclass, fields by name. ``own``: how some fields are written, by name."""
    return {name: own.get(name, written)(getattr(value, name)) for name in sorted(_fields(value.__class__))}


def in_order(value: Mapping[Any, Any]) -> dict[str, Any]:
    """The JSON form of a mapping with its keys in their own order, where that order means something."""
    return {str(key): written(each) for key, each in value.items()}


def read(kind: Any, form: Any, where: str) -> Any:
    """The value of a type that has this JSON form. Raises InvalidDocument, with the place."""
    while hasattr(kind, "__supertype__"):  # a NewType
        kind = kind.__supertype__
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Union or origin is UnionType:
        (given,) = (each for each in arguments if each is not NoneType)
        value: Any = None if form is None else read(given, form, where)
    elif origin is tuple:
        value = _tuple(arguments, form, where)
    elif origin is frozenset:
        value = frozenset(_tuple((*arguments, ...), form, where))
    elif origin is Mapping:
        value = {
            _key(arguments[0], key, f"{where}.{key}"): read(arguments[1], each, f"{where}.{key}")
            for key, each in expect(dict, form, where).items()
        }
    elif kind is Resources:
        value = Resources(read(Mapping[str, int], form, where))
    elif kind is WorkloadKey:
        value = _workload_key(form, where)
    elif isinstance(kind, type) and is_dataclass(kind):
        value = kind(**read_fields(kind, form, where))
    elif issubclass(kind, tuple):  # a NamedTuple
        value = kind(*_tuple(tuple(_hints(kind).values()), form, where))
    elif issubclass(kind, Enum):
        value = _attempt(kind, form, where, f"one of {', '.join(str(each.value) for each in kind)}")
    else:
        value = expect(kind, form, where)
    return value


def read_fields(
    kind: Any, form: Any, where: str, own: Mapping[str, Callable[[Any], Any]] = _NONE
) -> dict[str, Any]:
    """The fields of a dataclass that its JSON form states. ``own``: how some fields are read, by name."""
    known = _fields(kind)
    unknown = sorted(expect(dict, form, where).keys() - known.keys())
    if unknown:
        found = f"{', '.join(unknown)} in a {kind.__name__}"
        raise InvalidDocument(where=where, found=found, expected="known fields only")
    absent = [field for name, field in known.items() if name not in form]
    missing = [each.name for each in absent if each.default is MISSING and each.default_factory is MISSING]
    if missing:
        found = f"a {kind.__name__} without {', '.join(missing)}"
        raise InvalidDocument(where=where, found=found, expected="all of it")
    hints = _hints(kind)
    return {
        name: own[name](each) if name in own else read(hints[name], each, f"{where}.{name}")
        for name, each in form.items()
    }


def expect(kind: Any, form: Any, where: str) -> Any:
    """The form itself, if it has this type of JSON. Raises InvalidDocument."""
    if type(form) is kind and (kind is not int or abs(form) <= _LARGEST):
        return form
    raise InvalidDocument(where=where, found=repr(form)[:80], expected=_EXPECTED[kind])


def _tuple(kinds: tuple[Any, ...], form: Any, where: str) -> tuple[Any, ...]:
    items = expect(list, form, where)
    if kinds[-1] is ...:
        kinds = kinds[:1] * len(items)
    if len(kinds) != len(items):
        raise InvalidDocument(where=where, found=f"{len(items)} values", expected=f"{len(kinds)} of them")
    pairs = zip(kinds, items, strict=True)
    return tuple(read(kind, each, f"{where}[{index}]") for index, (kind, each) in enumerate(pairs))


def _key(kind: Any, key: str, where: str) -> Any:
    """A key of a mapping: as the text of a number or of a workload key, or as it is."""
    if getattr(kind, "__supertype__", kind) is int:
        return _attempt(int, key, where, "a whole number")
    return _workload_key(key, where) if kind is WorkloadKey else key


def _workload_key(form: Any, where: str) -> WorkloadKey:
    kind, _, uid = expect(str, form, where).partition("/")
    if not kind or not uid:
        raise InvalidDocument(where=where, found=repr(form)[:80], expected="kind/uid")
    return WorkloadKey(KindName(intern(kind)), uid)


def _attempt(make: Callable[[Any], Any], form: Any, where: str, expected: str) -> Any:
    try:
        return make(form)
    except ValueError as error:
        raise InvalidDocument(where=where, found=repr(form)[:80], expected=expected) from error


@lru_cache(maxsize=256)
def _fields(kind: Any) -> dict[str, Field[Any]]:
    """Public fields of a dataclass, by name."""
    return {field.name: field for field in fields(kind) if not field.name.startswith("_")}


@lru_cache(maxsize=256)
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)
