"""When a leader saw things happen that no object tells the time of. Not stored: a new leader begins anew."""

from admission.workloads.state import WorkloadState
from queues.workload import WorkloadKey


class SeenTimes:
    """Seconds since the epoch, by workload."""

    def __init__(self) -> None:
        #: When a bound pod of a workload was last seen to go.
        self.pod_left: dict[WorkloadKey, int] = {}
        #: Since when a Job that leaves its seats is seen suspended, while its controller may still make pods.
        self.stopping: dict[WorkloadKey, int] = {}
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

    def forget(self, key: WorkloadKey) -> None:
        """A workload is gone."""
        self.pod_left.pop(key, None)
        self.stopping.pop(key, None)
