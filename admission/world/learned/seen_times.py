"""When a leader saw things happen whose time no object has. Not stored: a new leader begins anew."""

from collections.abc import Mapping

from admission.facts.workloads import WorkloadFact
from admission.workloads.inputs import MissingSince
from admission.workloads.state import WorkloadState
from queues.workload import AdmissionId, WorkloadKey


class SeenTimes:
    """Seconds since the epoch, by workload."""

    def __init__(self) -> None:
        #: When a bound pod of a workload was last seen to go.
        self.pod_left: dict[WorkloadKey, int] = {}
        #: Since when a Job that leaves its seats is seen suspended, while its controller may still make pods.
        self.stopping: dict[WorkloadKey, int] = {}
        #: Since when workloads are over that still hold seats.
        self.over: dict[WorkloadKey, int] = {}
        #: When a Job had last been suspended, as its status said when it was seen resumed: no sync of its controller
        #: had reported that by then.
        self.suspended_before: dict[WorkloadKey, int] = {}
        #: Since when admissions of a workload lack pods that they had.
        self.missing: dict[WorkloadKey, Mapping[AdmissionId, MissingSince]] = {}
        self._lost_a_pod: set[WorkloadKey] = set()

    def lose_pod(self, key: WorkloadKey) -> None:
        """A bound pod of a workload is gone; ``tell_time`` says when."""
        self._lost_a_pod.add(key)

    def tell_time(self, now: int) -> None:
        """What was noted since the last time is seen now."""
        self.pod_left.update(dict.fromkeys(self._lost_a_pod, now))
        self._lost_a_pod.clear()

    def note_state(self, key: WorkloadKey, state: WorkloadState) -> None:
        """The state of a workload was derived."""
        if state.stopping_since:
            self.stopping[key] = state.stopping_since
        elif self.stopping:
            self.stopping.pop(key, None)
        if state.over_since:
            self.over[key] = state.over_since
        elif self.over:
            self.over.pop(key, None)
        if state.missing_since:
            self.missing[key] = state.missing_since
        elif self.missing:
            self.missing.pop(key, None)

    def note_object(self, key: WorkloadKey, fact: WorkloadFact | None) -> None:
        """The object of a workload appeared, changed or went away. Call it for each of its versions."""
        if fact is None or not fact.suspended_at:
            self.suspended_before.pop(key, None)
        elif not fact.suspended:
            self.suspended_before[key] = fact.suspended_at

    def forget(self, key: WorkloadKey) -> None:
        """A workload is gone."""
        self.pod_left.pop(key, None)
        self.stopping.pop(key, None)
        self.over.pop(key, None)
        self.missing.pop(key, None)
