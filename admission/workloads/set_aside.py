"""Workloads that a step of the turn fails on: they wait with reason ``Defect``, and all others go on. Pure."""

from dataclasses import dataclass
from typing import Final

from queues.workload import WorkloadKey

#: Seconds after which a workload is tried again though nothing of it changed: the cause may be gone.
TRIED_AGAIN_AFTER: Final = 600


@dataclass(frozen=True, slots=True)
class _Entry:
    error: Exception
    #: What was seen of the workload; None: nothing.
    seen: tuple[object, ...] | None
    until: int


class SetAside:
    """The workloads that are set aside now."""

    def __init__(self) -> None:
        self._entries: dict[WorkloadKey, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: WorkloadKey) -> bool:
        return key in self._entries

    def add(self, key: WorkloadKey, error: Exception, seen: tuple[object, ...] | None, now: int) -> None:
        """A step failed on a workload."""
        self._entries[key] = _Entry(error, seen, now + TRIED_AGAIN_AFTER)

    def error_of(self, key: WorkloadKey, seen: tuple[object, ...]) -> Exception | None:
        """Why a workload stays set aside; None: it is not, or no longer, because a decision would see another one."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.seen is not None and entry.seen != seen:
            del self._entries[key]
            return None
        return entry.error

    def forget(self, key: WorkloadKey) -> None:
        """A workload is gone."""
        self._entries.pop(key, None)

    def expire(self, now: int) -> set[WorkloadKey]:
        """Workloads that are tried again from now on."""
        due = {key for key, entry in self._entries.items() if entry.until <= now}
        for key in due:
            del self._entries[key]
        return due
