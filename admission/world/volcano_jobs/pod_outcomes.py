"""Pods that have ended or are being deleted: how they ended, and whether they may disappear. Pure."""

from collections.abc import Mapping
from dataclasses import replace

from admission.facts.pods import PodFact, PodPhase
from admission.facts.workloads import WorkloadFact
from admission.volcano_jobs.state import JobState
from admission.volcano_jobs.view import is_stale
from admission.workloads.kinds import Holding, support_of
from admission.workloads.seats import is_live
from admission.world.persistence import Outcomes
from admission.world.pods import PodIndex
from admission.world.volcano_jobs.states import JobStates
from queues.workload import WorkloadKey


class PodOutcomes:
    """Part of the world: how pods of Volcano Jobs ended, and pods that carry our finalizer and are to go."""

    def __init__(
        self,
        pod_index: PodIndex,
        jobs: JobStates,
        outcomes: Mapping[WorkloadKey, Outcomes],
        unsaved: dict[str, tuple[WorkloadKey, PodFact]],
    ) -> None:
        self._pod_index = pod_index
        self._jobs = jobs
        self.outcomes: dict[WorkloadKey, Outcomes] = {key: dict(value) for key, value in outcomes.items()}
        self._unsaved = unsaved
        self._ending: dict[str, None] = {}

    def update(self, uid: str, pod: PodFact | None) -> None:
        """A pod appeared, changed, or (None) is gone."""
        self._ending.pop(uid, None)
        if pod is not None and is_ending(pod):
            self._ending[uid] = None

    def note_outcome(self, owner: WorkloadKey, pod: PodFact) -> None:
        """A pod has ended. Of each seat of a version the first one counts."""
        # A pod that was being deleted did not end by itself, whatever its last phase says.
        if not _is_run_by_muster(owner) or pod.index is None or not pod.ended_first:
            return
        if is_stale(pod, self._jobs.of(owner)):
            return
        outcomes = self.outcomes.setdefault(owner, {})
        if (pod.task, pod.index) not in outcomes:
            outcomes[pod.task, pod.index] = pod.phase
            self._unsaved[pod.uid] = (owner, pod)

    def restart(self, owner: WorkloadKey, before: JobState, after: JobState) -> None:
        """Ends of pods that were restarted do not count any more."""
        outcomes = self.outcomes.get(owner)
        if outcomes is None:
            return
        if before.version != after.version:
            del self.outcomes[owner]
            return
        for uid in after.restarted - before.restarted:
            pod = self._pod_index.pods.get(uid)
            if pod is not None and pod.index is not None:
                outcomes.pop((pod.task, pod.index), None)

    def forget(self, owner: WorkloadKey) -> None:
        """The workload is gone: how its pods ended no longer matters, and is not stored any more."""
        if self.outcomes.pop(owner, None) is not None:
            for pod in self._pod_index.of(owner):
                self._unsaved.pop(pod.uid, None)

    def may_disappear(self) -> list[PodFact]:
        """Pods that may disappear: how they ended is stored, or does not matter. Pods being deleted come first."""
        found = [pod for uid in self._ending if self._is_dismissible(pod := self._pod_index.pods[uid])]
        return sorted(found, key=lambda pod: not pod.deleting)

    def _is_dismissible(self, pod: PodFact) -> bool:
        owner = self._pod_index.owner_of(pod.uid)
        if owner is None or not _is_run_by_muster(owner):
            return True
        stored = pod.uid not in self._unsaved
        return may_go(pod, self._pod_index.facts.get(owner), self._jobs.of(owner), stored=stored)


def _is_run_by_muster(key: WorkloadKey) -> bool:
    return support_of(key).holding is Holding.NO_PODS


def following(before: PodFact | None, pod: PodFact) -> PodFact:
    """The pod, with what its earlier fact says of its end where its object no longer shows it."""
    if pod.ended_first is not None:
        return pod
    if before is not None and not is_live(before):
        return replace(pod, ended_first=before.ended_first)
    # Seen alive after its deletion, it had not ended before. Else success counts: it must not run twice.
    unseen = before is None or before.ended_first is not False
    return replace(pod, ended_first=unseen and pod.phase is PodPhase.SUCCEEDED)


def is_ending(pod: PodFact) -> bool:
    """Whether it carries our finalizer, and has ended or is being deleted."""
    return pod.kept and (pod.deleting or not is_live(pod))


def may_go(pod: PodFact, fact: WorkloadFact | None, job: JobState, *, stored: bool) -> bool:
    """Whether it no longer matters how a pod ended. ``fact`` and ``job``: of its Volcano Job; None if it is gone."""
    if not is_live(pod):
        return stored
    if pod.forced or fact is None or fact.deleting:
        return True
    return is_stale(pod, job) or job.is_over()
