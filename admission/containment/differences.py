"""Values handed to another process again and again: after the first time only what has changed of them.

The plain form is ``pickle``, of the whole value each time. Here what is the same object as in the value before stays
the same object on the other side as well, so that what is remembered by identity is remembered there too.
"""

import copyreg
import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from admission.engine.memo import QueueBooks
from admission.engine.nodes.table import NodeTable
from admission.engine.pending.classes import ClassAnswer, ClassAnswers
from admission.engine.snapshot import Snapshot
from queues.order.policies import LineEntry
from queues.plan import Plan, Reason
from queues.quota.decayed_usage import PastUse
from queues.quota.effective_limits import EffectiveLimits
from queues.quota.tree import QueueTree
from queues.versioned_map import MapVersion, VersionedMap, differing
from queues.workload import WorkloadKey


class _Mark(Enum):
    SAME = "same"
    GONE = "gone"


class _ChangedFields(NamedTuple):
    by_name: Mapping[str, Any]


class _ChangedRows(NamedTuple):
    by_key: Mapping[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A decision that was made in another process."""

    #: Without its reasons.
    _plan: Plan
    #: By a number that stands for the class.
    _classes: Mapping[Any, ClassAnswer]
    _own_reasons: Mapping[WorkloadKey, Reason]
    _overlap: int
    #: The plan holds until this second, if nothing changes (for ever if None).
    until: int | None
    books: QueueBooks | None

    @classmethod
    def of(cls, plan: Plan, until: int | None, books: QueueBooks | None) -> "Outcome":
        """In the process that has decided."""
        reasons = plan.reasons if isinstance(plan.reasons, ClassAnswers) else ClassAnswers({}, plan.reasons)
        return cls(
            _plan=replace(plan, reasons={}),
            _classes={id(each): answer for each, answer in reasons.classes.items()},
            _own_reasons=reasons.own_reasons,
            _overlap=reasons.overlap,
            until=until,
            books=None if books is None else replace(books, usage=None),
        )

    @property
    def plan(self) -> Plan:
        """The plan with its reasons."""
        return replace(self._plan, reasons=ClassAnswers(self._classes, self._own_reasons, self._overlap))


def _names_of(*types: type) -> dict[type, tuple[str, ...]]:
    return {each: tuple(field.name for field in fields(each)) for each in types}


#: Types of large values whose fields are compared one by one, with the names of these. None of the values changes.
_FIELDS: Final[dict[type, tuple[str, ...]]] = {
    **_names_of(Snapshot, NodeTable, PastUse, QueueBooks, Outcome),
    ClassAnswer: ClassAnswer.__struct_fields__,
}
#: Mappings whose rows are compared one by one.
_ROWS: Final = frozenset((dict, MappingProxyType, MapVersion))


class Sender:
    """The side that hands out."""

    def __init__(self) -> None:
        self._last: object = None

    def dump(self, value: object) -> bytes:
        """A value, for the other side, which has loaded all that were dumped before."""
        dumped = pickle.dumps(_difference(self._last, value), pickle.HIGHEST_PROTOCOL)
        self._last = value
        return dumped


class Receiver:
    """The side that is handed values."""

    def __init__(self) -> None:
        self._last: object = None

    def load(self, dumped: bytes) -> Any:
        """The value. Only what a ``Sender`` of this program has made."""
        self._last = _changed(self._last, pickle.loads(dumped))
        return self._last


def _difference(before: Any, after: Any) -> Any:
    """What makes ``after`` of ``before``; where that says nothing shorter, ``after`` itself."""
    if after is before:
        return _Mark.SAME
    kind = type(after)
    if type(before) is not kind:
        return after
    if kind in _FIELDS:
        found = {name: _difference(getattr(before, name), getattr(after, name)) for name in _FIELDS[kind]}
        return _ChangedFields({name: each for name, each in found.items() if each is not _Mark.SAME})
    if kind in _ROWS:
        return _ChangedRows(
            {
                key: _difference(before.get(key), after[key]) if key in after else _Mark.GONE
                for key in differing(before, after)
            }
        )
    return after


def _changed(before: Any, change: Any) -> Any:
    if change is _Mark.SAME:
        return before
    if isinstance(change, _ChangedFields):
        kind, changes = type(before), change.by_name
        return kind(
            **{name: _changed(getattr(before, name), changes.get(name, _Mark.SAME)) for name in _FIELDS[kind]}
        )
    if isinstance(change, _ChangedRows):
        gone = [key for key, each in change.by_key.items() if each is _Mark.GONE]
        rows = {
            key: _changed(before.get(key), each)
            for key, each in change.by_key.items()
            if each is not _Mark.GONE
        }
        return _with_rows(before, rows, gone)
    return change


def _with_rows(before: Mapping[Any, Any], rows: Mapping[Any, Any], gone: Iterable[Any]) -> Mapping[Any, Any]:
    if not (rows or gone):
        return before
    if isinstance(before, MapVersion):
        going_on = VersionedMap.after(before)
        going_on.update(rows)
        for key in gone:
            going_on.pop(key)
        return going_on.freeze()
    whole = {**before, **rows}
    for key in gone:
        del whole[key]
    return whole if isinstance(before, dict) else MappingProxyType(whole)


# ── what pickle does not know, or need not carry ───────────────────────────────────────────────────────────────


class _WaitingWorkload(NamedTuple):
    key: WorkloadKey


class _Waiting(NamedTuple):
    """A ``LineEntry`` outside the engine."""

    workload: _WaitingWorkload


def _version(rows: dict[Any, Any]) -> MapVersion[Any, Any]:
    return VersionedMap(rows).freeze()


def _proxy(rows: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(rows)


def _waiting(key: WorkloadKey) -> Any:
    return _Waiting(_WaitingWorkload(key))


def _tree(limits: dict[str, Any]) -> QueueTree:
    return QueueTree(**limits)


_LIMITS: Final = tuple(field.name for field in fields(EffectiveLimits))

copyreg.pickle(MappingProxyType, lambda mapping: (_proxy, (dict(mapping),)))
# What a version shares with others of its map means nothing to another process.
copyreg.pickle(MapVersion, lambda version: (_version, (dict(version),)))
copyreg.pickle(LineEntry, lambda entry: (_waiting, (entry.workload.key,)))
# What a tree remembers is found again; objects of plug-ins are among it, and not every one can be handed over.
copyreg.pickle(QueueTree, lambda tree: (_tree, ({name: getattr(tree, name) for name in _LIMITS},)))
