"""A mapping with cheap frozen versions: a version costs what changed, and two versions show what differs.

A ``VersionedMap`` is written to; ``freeze`` gives ``MapVersion``, a mapping that never changes. Versions share a base
and differ in a small overlay. All versions of one map also share its log of changed keys, so that ``differing`` need
not compare every row. Other mappings are compared in full.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from operator import is_
from typing import Final, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

#: An overlay is merged into a new base when it has this many rows and a 16th of the base's.
_OVERLAY: Final = 512
#: Number of latest changes that the log keeps at least.
_LOG: Final = 16_384


class _Gone:
    """Marks a row of the base that was removed."""


_GONE: Final = _Gone()


class _Log(Generic[K]):
    """Keys in the order in which they changed; the oldest are dropped."""

    __slots__ = ("first", "keys")

    def __init__(self) -> None:
        self.first = 0
        self.keys: list[K] = []

    def end(self) -> int:
        return self.first + len(self.keys)

    def add(self, key: K) -> None:
        if len(self.keys) >= 2 * _LOG:
            self.first += _LOG
            del self.keys[:_LOG]
        self.keys.append(key)

    def between(self, start: int, end: int) -> set[K] | None:
        """Keys that changed between two positions; None if the log does not reach back so far."""
        if start < self.first:
            return None
        return set(self.keys[start - self.first : end - self.first])


class MapVersion(Mapping[K, V]):
    """A mapping that never changes. Rows come in no particular order, the same one each time."""

    __slots__ = ("_base", "_end", "_length", "_log", "_overlay")

    def __init__(
        self, base: dict[K, V], overlay: dict[K, "V | _Gone"], length: int, log: _Log[K], end: int
    ) -> None:
        self._base = base
        self._overlay = overlay
        self._length = length
        self._log = log
        self._end = end

    def __getitem__(self, key: K) -> V:
        row = self._overlay.get(key)
        if row is None:
            return self._base[key]
        if row is _GONE:
            raise KeyError(key)
        return row  # type: ignore[return-value]

    def get(self, key: K, default: "V | None" = None) -> "V | None":  # type: ignore[override]
        """A row, or the default."""
        row = self._overlay.get(key)
        if row is None:
            return self._base.get(key, default)
        return default if row is _GONE else row  # type: ignore[return-value]

    def __contains__(self, key: object) -> bool:
        row = self._overlay.get(key)  # type: ignore[arg-type]
        return key in self._base if row is None else row is not _GONE

    def __iter__(self) -> Iterator[K]:
        if not self._overlay:
            return iter(self._base)
        return self._merged()

    def _merged(self) -> Iterator[K]:
        overlay = self._overlay
        for key in self._base:
            if key not in overlay:
                yield key
        for key, row in overlay.items():
            if row is not _GONE:
                yield key

    def __len__(self) -> int:
        return self._length

    def rows(self) -> Collection[V]:
        """All rows, in the order of their keys."""
        if not self._overlay:
            return self._base.values()
        rows = [row for key, row in self._base.items() if key not in self._overlay]
        rows += [row for row in self._overlay.values() if row is not _GONE]  # type: ignore[misc]
        return rows

    def changed_since(self, before: "MapVersion[K, V]") -> set[K] | None:
        """Keys that may differ from an earlier version.

        None if the version is of another map, or if the log does not reach back so far.
        """
        if before._log is not self._log:
            return None
        return self._log.between(min(before._end, self._end), max(before._end, self._end))


class VersionedMap(Generic[K, V]):
    """A mapping that is written to and frozen again and again. No row may be None."""

    __slots__ = ("_base", "_frozen", "_length", "_log", "_overlay")

    def __init__(self, rows: Mapping[K, V] | None = None) -> None:
        self._base: dict[K, V] = dict(rows or {})
        self._overlay: dict[K, V | _Gone] = {}
        self._length = len(self._base)
        self._log: _Log[K] = _Log()
        self._frozen: MapVersion[K, V] | None = None

    @classmethod
    def after(cls, version: MapVersion[K, V]) -> "VersionedMap[K, V]":
        """The map that a version is the latest one of."""
        going_on = cls()
        going_on._base, going_on._overlay = version._base, dict(version._overlay)
        going_on._length, going_on._log, going_on._frozen = version._length, version._log, version
        return going_on

    def get(self, key: K) -> V | None:
        """The row of a key; None if absent."""
        row = self._overlay.get(key)
        if row is None:
            return self._base.get(key)
        return None if row is _GONE else row  # type: ignore[return-value]

    def __len__(self) -> int:
        return self._length

    def put(self, key: K, row: V) -> None:
        """Set a row. The same object again is no change."""
        before = self.get(key)
        if before is row:
            return
        self._length += before is None
        self._overlay[key] = row
        self._note(key)

    def pop(self, key: K) -> None:
        """Remove a row, if it is there."""
        if self.get(key) is None:
            return
        self._length -= 1
        if key in self._base:
            self._overlay[key] = _GONE
        else:
            del self._overlay[key]
        self._note(key)

    def update(self, rows: Mapping[K, V]) -> None:
        """Set many rows."""
        for key, row in rows.items():
            self.put(key, row)

    def _note(self, key: K) -> None:
        self._log.add(key)
        self._frozen = None

    def freeze(self) -> MapVersion[K, V]:
        """A version of the present rows; the same object as long as nothing changes."""
        if self._frozen is None:
            if len(self._overlay) >= max(_OVERLAY, len(self._base) // 16):
                self._merge()
            self._frozen = MapVersion(
                self._base, dict(self._overlay), self._length, self._log, self._log.end()
            )
        return self._frozen

    def _merge(self) -> None:
        base = dict(self._base)
        for key, row in self._overlay.items():
            if row is _GONE:
                del base[key]
            else:
                base[key] = row  # type: ignore[assignment]
        self._base, self._overlay = base, {}


def rows_of(rows: Mapping[K, V]) -> Collection[V]:
    """The rows of a mapping, in the order of its keys: of a version in less time than row by row."""
    return rows.rows() if isinstance(rows, MapVersion) else rows.values()


def same_rows(before: Mapping[K, V], after: Mapping[K, V]) -> bool:
    """Whether two mappings hold the same objects under equal keys."""
    if before is after:
        return True
    if len(before) != len(after):
        return False
    if type(before) is dict and type(after) is dict and all(map(is_, before, after)):
        return all(map(is_, before.values(), after.values()))
    return not differing(before, after)


def differing(before: Mapping[K, V], after: Mapping[K, V]) -> list[K]:
    """Keys that do not hold the same object in both, in no particular order."""
    if before is after:
        return []
    keys: Iterable[K] | None = None
    if isinstance(before, MapVersion) and isinstance(after, MapVersion):
        keys = after.changed_since(before)
    if keys is not None:
        return [key for key in keys if before.get(key) is not after.get(key)]
    changed = [key for key, row in after.items() if before.get(key) is not row]
    return changed + [key for key in before if key not in after]
