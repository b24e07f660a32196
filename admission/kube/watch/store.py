"""The store of one kind of object: a value per object, and changes of these values.

Only the value that ``translate`` returns for an object is kept, not the object. An object that cannot be read does
not keep others from being read, and is logged once for each cause, however often it changes.
"""

import logging
import re
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from admission.wire import Bare, WireMetadata
from queues.api.api_resources import ApiResource
from queues.api.reading.user_values import LONGEST_MESSAGE, shortened
from queues.errors import InvalidDocument

_log = logging.getLogger(__name__)

Place = tuple[str, str]


class _HasMetadata(Protocol):
    @property
    def metadata(self) -> WireMetadata: ...


S = TypeVar("S", bound=_HasMetadata)
V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedKind(Generic[S, V]):
    """What to watch and what to make of it."""

    name: str
    resource: ApiResource
    struct: type[S]
    #: From the decoded object and its bytes (valid only during the call). None if it is of no interest.
    translate: Callable[[S, msgspec.Raw], V | None]
    #: What is left of an object without the form of its kind (DecodeError), or that ``translate`` fails for. If None,
    #: what was known before stays.
    unreadable: Callable[[Bare, msgspec.Raw, Exception], V | None] = lambda bare, raw, error: None
    namespace: str | None = None
    #: The cluster may not serve the kind: then there are no objects of it.
    may_be_absent: bool = False


def kind_of(
    resource: ApiResource, struct: Any, translate: Callable[[Any, msgspec.Raw], Any], **more: Any
) -> WatchedKind[Any, Any]:
    """A kind under the name of its resource. ``more``: other fields."""
    return WatchedKind(name=resource.plural, resource=resource, struct=struct, translate=translate, **more)


def decoded(fact: Callable[[Any], Any]) -> Callable[[Any, msgspec.Raw], Any]:
    """What ``fact`` makes of the decoded object."""
    return lambda found, raw: fact(found)


class StoredObject(msgspec.Struct, Generic[V], gc=False):
    """What is known of one object. A struct, because there may be hundreds of thousands."""

    name: str
    uid: str
    value: V


class ObjectsByPlace(Generic[V]):
    """What is known of objects, by namespace and there by name: a pair of both for each would take memory."""

    def __init__(self) -> None:
        self._namespaces: dict[str, dict[str, StoredObject[V]]] = {}

    def get(self, place: Place) -> StoredObject[V] | None:
        """The object of that namespace and name. None if there is none."""
        namespace, name = place
        return self._namespaces.get(namespace, {}).get(name)

    def put(self, place: Place, stored: StoredObject[V]) -> None:
        """An object appeared."""
        self._namespaces.setdefault(place[0], {})[stored.name] = stored

    def pop(self, place: Place) -> StoredObject[V] | None:
        """An object went away. Returns it, if it was there."""
        namespace, name = place
        objects = self._namespaces.get(namespace, {})
        stored = objects.pop(name, None)
        if not objects:
            self._namespaces.pop(namespace, None)
        return stored

    def values(self) -> list[StoredObject[V]]:
        """All objects that are there now."""
        return [stored for objects in self._namespaces.values() for stored in objects.values()]

    def namespaces(self) -> list[str]:
        """Namespaces with objects."""
        return list(self._namespaces)

    def of_namespace(self, namespace: str) -> list[StoredObject[V]]:
        """All objects of a namespace that are there now."""
        return list(self._namespaces.get(namespace, {}).values())

    def places(self) -> Iterator[Place]:
        """Where there are objects."""
        return ((namespace, name) for namespace, objects in self._namespaces.items() for name in objects)

    def __contains__(self, place: Place) -> bool:
        return self.get(place) is not None

    def __len__(self) -> int:
        return sum(map(len, self._namespaces.values()))


@dataclass(frozen=True, slots=True)
class ObjectChange(Generic[V]):
    """One object appeared (``before`` is None), changed, or vanished (``after`` is None)."""

    namespace: str
    name: str
    uid: str
    before: V | None
    after: V | None


BARE: Final = msgspec.json.Decoder(Bare)

#: Levels of nesting, far more than any kind of object has. The decoder follows nesting by recursion, and Python
#: allows a thousand levels of that; the API server stores ten thousand.
_DEEPEST: Final = 200
TOO_DEEP: Final = f"found nesting deeper than {_DEEPEST} levels, expected less"
#: Stands for what lies deeper.
_TOO_DEEP: Final = b'"nested deeper than Muster reads"'
_BRACKETS: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]]', re.DOTALL)


def without_depths(raw: bytes | msgspec.Raw) -> bytes:
    """JSON in which everything that is nested too deeply is replaced by a text. For documents that were refused."""
    content, kept, start, depth = bytes(raw), [], 0, 0
    for found in _BRACKETS.finditer(content):
        sign = found.group()
        if sign in (b"{", b"["):
            depth += 1
            if depth == _DEEPEST + 1:
                kept += [content[start : found.start()], _TOO_DEEP]
        elif sign in (b"}", b"]"):
            depth -= 1
            if depth == _DEEPEST:
                start = found.end()
    return b"".join((*kept, content[start:]))


class ObjectStore(Generic[S, V]):
    """The objects of one kind."""

    def __init__(self, kind: WatchedKind[S, V]) -> None:
        self.kind = kind
        self.kept: ObjectsByPlace[V] = ObjectsByPlace()
        #: Why objects cannot be read, as it was logged last.
        self._told: dict[Place, str] = {}
        self._decoder = msgspec.json.Decoder(kind.struct)

    @property
    def unreadable(self) -> int:
        """Number of objects that cannot be read as they are now."""
        return len(self._told)

    def put(
        self, raw: msgspec.Raw, shifts: list[ObjectChange[V]], *, cut: bool = False
    ) -> WireMetadata | None:
        """Take in one object, and add what changed to the shifts. Returns None if not even its metadata can be read.

        ``cut``: the object has gone through ``without_depths``.
        """
        try:
            if cut and _TOO_DEEP in bytes(raw):
                raise msgspec.DecodeError(TOO_DEEP)
            thing = self._decoder.decode(raw)
            meta = thing.metadata
        except (msgspec.DecodeError, RecursionError) as error:
            if isinstance(error, RecursionError):
                return self.put(msgspec.Raw(without_depths(raw)), shifts, cut=True)
            try:
                meta = BARE.decode(raw).metadata
            except msgspec.DecodeError:
                self._cannot_read(("", "?"), error)
                return None
            self._keep_remains(meta, raw, error, shifts)
            return meta
        place = (meta.namespace, meta.name)
        try:
            value = self.kind.translate(thing, raw)
        except InvalidDocument as error:
            self._keep(place, meta, None, shifts)  # what it said before counts no more
            self._cannot_read(place, error)
        except Exception as error:  # whatever it is, the other objects go on
            self._keep_remains(meta, raw, error, shifts)
        else:
            self._told.pop(place, None)
            self._keep(place, meta, value, shifts)
        return meta

    def _keep_remains(
        self, meta: WireMetadata, raw: msgspec.Raw, error: Exception, shifts: list[ObjectChange[V]]
    ) -> None:
        place = (meta.namespace, meta.name)
        self._cannot_read(place, error)
        try:
            value = self.kind.unreadable(Bare(metadata=meta), raw, error)
        except Exception as second:
            self._cannot_read(place, second)
            return
        if value is not None:
            self._keep(place, meta, value, shifts)

    def _keep(self, place: Place, meta: WireMetadata, value: V | None, shifts: list[ObjectChange[V]]) -> None:
        known = self.kept.get(place)
        if known is not None and known.uid != meta.uid:
            # Deleted and made again under the same name, and we saw only the second half.
            self._drop(place, shifts)
            known = None
        if value is None:
            self._drop(place, shifts)
        elif known is None:
            self.kept.put(place, StoredObject(meta.name, meta.uid, value))
            shifts.append(ObjectChange(*place, meta.uid, None, value))
        else:
            before = known.value
            # An equal value is no news, and the old one stays: others hold it already.
            if before != value:
                known.value = value
                shifts.append(ObjectChange(*place, meta.uid, before, value))

    def drop(self, place: Place, shifts: list[ObjectChange[V]], uid: str | None = None) -> None:
        """Whatever is there, or only while it has this uid, is gone."""
        known = self.kept.get(place)
        if known is None or uid is None or uid == known.uid:
            self._told.pop(place, None)
            self._drop(place, shifts)

    def is_empty(self) -> bool:
        """Whether no object is known, not even one that cannot be read."""
        return not (self.kept or self._told)

    def others(self, seen: Set[Place]) -> list[Place]:
        """Where there are objects that were not seen."""
        return [place for place in {*self.kept.places(), *self._told} if place not in seen]

    def _drop(self, place: Place, shifts: list[ObjectChange[V]]) -> None:
        known = self.kept.pop(place)
        if known is not None:
            shifts.append(ObjectChange(*place, known.uid, known.value, None))

    def _cannot_read(self, place: Place, error: Exception) -> None:
        why = shortened(f"{type(error).__name__}: {error}", LONGEST_MESSAGE)
        if self._told.get(place) == why:
            return
        self._told[place] = why
        told = {"kind": self.kind.name, "object": "/".join(place), "why": why}
        if isinstance(error, (msgspec.DecodeError, InvalidDocument)):
            _log.warning("cannot read an object", extra=told)
        else:
            _log.error("cannot translate an object", extra=told, exc_info=error)
