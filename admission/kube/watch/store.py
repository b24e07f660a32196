"""The store of one kind of object: a value per object, and changes of these values.

Only the value that ``translate`` returns for an object is kept, not the object. An object that cannot be read does
not keep others from being read.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from admission.wire import Bare, WireMetadata
from queues.api.api_resources import ApiResource
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
    #: From the decoded object and its bytes (valid only during the call); None: of no interest.
    translate: Callable[[S, msgspec.Raw], V | None]
    #: What is left of an object without the form of its kind; None: what was known before stays.
    unreadable: Callable[[Bare, msgspec.DecodeError], V | None] = lambda bare, error: None
    namespace: str | None = None


@dataclass(slots=True)
class StoredObject(Generic[V]):
    """What is known of one object."""

    uid: str
    resource_version: str
    value: V


@dataclass(frozen=True, slots=True)
class ObjectChange(Generic[V]):
    """One object appeared (``before`` is None), changed, or vanished (``after`` is None)."""

    namespace: str
    name: str
    uid: str
    before: V | None
    after: V | None


BARE: Final = msgspec.json.Decoder(Bare)


class ObjectStore(Generic[S, V]):
    """The objects of one kind."""

    def __init__(self, kind: WatchedKind[S, V]) -> None:
        self.kind = kind
        #: By (namespace, name).
        self.kept: dict[Place, StoredObject[V]] = {}
        #: Objects that could not be read.
        self.unreadable = 0
        self._decoder = msgspec.json.Decoder(kind.struct)

    def put(self, raw: msgspec.Raw, shifts: list[ObjectChange[V]]) -> WireMetadata | None:
        """Take in one object, and add what changed to the shifts. Returns None if not even its metadata can be read."""
        value: V | None
        try:
            thing = self._decoder.decode(raw)
            meta = thing.metadata
        except msgspec.DecodeError as error:
            try:
                bare = BARE.decode(raw)
            except msgspec.DecodeError:
                self._cannot_read("?", "?", error)
                return None
            meta = bare.metadata
            self._cannot_read(meta.namespace, meta.name, error)
            value = self.kind.unreadable(bare, error)
            understood = value is not None
        else:
            try:
                value = self.kind.translate(thing, raw)
                understood = True
            except InvalidDocument as error:
                self._cannot_read(meta.namespace, meta.name, error)
                value, understood = None, True  # what it said before counts no more
            except Exception as error:  # whatever it is, the other objects go on
                self._cannot_read(meta.namespace, meta.name, error)
                value, understood = None, False
        if understood:
            self._keep((meta.namespace, meta.name), meta, value, shifts)
        return meta

    def _keep(self, place: Place, meta: WireMetadata, value: V | None, shifts: list[ObjectChange[V]]) -> None:
        known = self.kept.get(place)
        if known is not None and known.uid != meta.uid:
            # Deleted and made again under the same name, and we saw only the second half.
            self.drop(place, shifts)
            known = None
        if value is None:
            self.drop(place, shifts)
        elif known is None:
            self.kept[place] = StoredObject(meta.uid, meta.resource_version, value)
            shifts.append(ObjectChange(*place, meta.uid, None, value))
        else:
            before = known.value
            known.resource_version = meta.resource_version
            # An equal value is no news, and the old one stays: others hold it already.
            if before != value:
                known.value = value
                shifts.append(ObjectChange(*place, meta.uid, before, value))

    def drop(self, place: Place, shifts: list[ObjectChange[V]], uid: str | None = None) -> None:
        """Whatever is there, or only while it has this uid, is gone."""
        known = self.kept.get(place)
        if known is not None and (uid is None or uid == known.uid):
            del self.kept[place]
            shifts.append(ObjectChange(*place, known.uid, known.value, None))

    def _cannot_read(self, namespace: str, name: str, error: Exception) -> None:
        self.unreadable += 1
        told = {"kind": self.kind.name, "object": f"{namespace}/{name}", "why": str(error)}
        if isinstance(error, (msgspec.DecodeError, InvalidDocument)):
            _log.warning("cannot read an object", extra=told)
        else:
            _log.error("cannot translate an object", extra=told, exc_info=error)
