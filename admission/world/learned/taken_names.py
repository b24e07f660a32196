"""Names of pods and objects that Volcano Jobs cannot have, and the Jobs that wait for them. Pure.

A gang that cannot have all its names goes back, and waits without seats until the pod with the name is gone, or for a
pause that grows with each try: not everything that may have a name is watched. Not stored: a new leader tries once
more.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from admission.workloads.inputs import HeldBack, Timeouts
from admission.workloads.state import WorkloadState
from admission.world.admissions import KeyIndex
from queues.admissions import NO_SETBACKS, Setbacks
from queues.plan import Reason
from queues.reason_codes import ReasonCode
from queues.workload import Obstacle, WorkloadKey

_NOBODY: Final = frozenset[WorkloadKey]()


@dataclass(frozen=True, slots=True)
class _Entry:
    """A Job that waits."""

    told: HeldBack
    #: Namespace and name of the pod that is in its way; "": another object is.
    pod: tuple[str, str]
    until: int


class TakenNames:
    """Part of the world: Volcano Jobs that wait for names."""

    def __init__(self, timeouts: Timeouts) -> None:
        self._timeouts = timeouts
        self._entries: dict[WorkloadKey, _Entry] = {}
        self._waiting: KeyIndex[tuple[str, str], WorkloadKey] = KeyIndex()

    def obstacle_of(self, key: WorkloadKey) -> HeldBack | None:
        """Why a Job waits; None if it does not wait for a name."""
        entry = self._entries.get(key)
        return None if entry is None else entry.told

    def note_state(
        self,
        key: WorkloadKey,
        state: WorkloadState | None,
        refusal: Reason | None,
        setbacks: Setbacks | None,
        now: int,
    ) -> None:
        """The state of a workload was derived; None if nothing is left of it.

        ``refusal``: what its writer was refused; ``setbacks``: those before it goes back for that.
        """
        if state is None:
            self._forget(key)
        elif refusal is not None and any(
            each.code is ReasonCode.NAME_TAKEN for each in state.evictable.values()
        ):
            workload = state.workload
            told = HeldBack(workload.generation, Obstacle(ReasonCode.NAME_TAKEN, refusal.message))
            pod = (workload.namespace, str(refusal.facts.get("pod", "")))
            self._forget(key)
            self._entries[key] = _Entry(
                told, pod, self._timeouts.next_try((setbacks or NO_SETBACKS).rollbacks, now)
            )
            self._waiting.add(pod, key)

    def free(self, namespace: str, pod: str) -> AbstractSet[WorkloadKey]:
        """A pod is gone; the Jobs that waited for its name."""
        found = frozenset(self._waiting.of((namespace, pod))) if self._entries else _NOBODY
        for key in found:
            self._forget(key)
        return found

    def expire(self, now: int) -> AbstractSet[WorkloadKey]:
        """Jobs that are tried again from now on."""
        due = frozenset(key for key, entry in self._entries.items() if entry.until <= now)
        for key in due:
            self._forget(key)
        return due

    def _forget(self, key: WorkloadKey) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._waiting.discard(entry.pod, key)
