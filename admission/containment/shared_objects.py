"""Values handed to another process again and again: what it was handed before is only named.

The plain form is ``pickle``, of the whole value each time. Here objects of some types are numbered: the first time
their content goes along, afterwards the number alone. So what stayed the same object here stays the same one there, and
what is remembered by identity is remembered there too.
"""

import copyreg
import pickle
from io import BytesIO
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from admission.engine.nodes.table import Layout
from queues.admissions import Admission, Claim
from queues.quota.queue import Queue
from queues.resources import Resources
from queues.versioned_map import MapVersion, VersionedMap
from queues.workload import NodeFilter, PodSet, Workload

#: Types of large or frequent values that do not change.
_SHARED: Final = frozenset(
    (Admission, Claim, Layout, NodeFilter, PodSet, Queue, Resources, Workload, np.ndarray)
)


def _unchanging(mapping: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(mapping)


def _version(rows: dict[Any, Any]) -> MapVersion[Any, Any]:
    return VersionedMap(rows).freeze()


# Some values hold mappings that cannot change, which pickle does not know.
copyreg.pickle(MappingProxyType, lambda mapping: (_unchanging, (dict(mapping),)))
# What a version shares with others of its map means nothing to another process.
copyreg.pickle(MapVersion, lambda version: (_version, (dict(version),)))


class Sender:
    """The side that hands out."""

    def __init__(self) -> None:
        #: By identity: number and object, which stays alive so that its identity is no other object's.
        self._known: dict[int, tuple[int, object]] = {}
        self._next = 0

    def dump(self, value: object) -> bytes:
        """A value, for the other side. Objects that are not in it any more are forgotten on both sides."""
        used: dict[int, tuple[int, object]] = {}
        body = self._dumped(value, used)
        kept = {number for number, _ in used.values()}
        gone = [number for number, _ in self._known.values() if number not in kept]
        self._known = used
        return pickle.dumps((body, gone), pickle.HIGHEST_PROTOCOL)

    def _dumped(self, value: object, used: dict[int, tuple[int, object]], whole: object = None) -> bytes:
        buffer = BytesIO()
        pickler = pickle.Pickler(buffer, pickle.HIGHEST_PROTOCOL)

        def named(found: object) -> object:
            if type(found) not in _SHARED or found is whole:
                return None
            known = used.get(id(found))
            if known is None and (known := self._known.get(id(found))) is not None:
                used[id(found)] = known
            if known is not None:
                return known[0], None
            self._next += 1
            number = self._next
            content = self._dumped(found, used, whole=found)
            used[id(found)] = (number, found)
            return number, content

        pickler.persistent_id = named  # type: ignore[method-assign]
        pickler.dump(value)
        return buffer.getvalue()


class _Unpickler(pickle.Unpickler):
    def __init__(self, body: bytes, known: dict[int, object]) -> None:
        super().__init__(BytesIO(body))
        self._known = known

    def persistent_load(self, pid: tuple[int, bytes | None]) -> object:
        number, content = pid
        if content is not None:
            self._known[number] = _Unpickler(content, self._known).load()
        return self._known[number]


class Receiver:
    """The side that is handed values."""

    def __init__(self) -> None:
        self._known: dict[int, object] = {}

    def load(self, dumped: bytes) -> Any:
        """The value. Only what a ``Sender`` of this program has made."""
        body, gone = pickle.loads(dumped)
        value = _Unpickler(body, self._known).load()
        for number in gone:
            self._known.pop(number, None)
        return value
