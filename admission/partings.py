"""Pods on their way out: whether they had ended before, and whether they may disappear. Pure."""

from dataclasses import replace

from admission.compose import is_live
from admission.facts import PodFact, PodPhase, WorkloadFact
from admission.jobs.lifecycle import JobState


def following(before: PodFact | None, pod: PodFact) -> PodFact:
    """The pod, with what its earlier fact tells of its end where it cannot tell itself any more."""
    if pod.ended_first is not None:
        return pod
    # Whoever saw it live on after its deletion knows. Else what succeeded does not run twice.
    unseen = before is None or before.ended_first is not False
    return replace(pod, ended_first=unseen and pod.phase is PodPhase.SUCCEEDED)


def is_parting(pod: PodFact) -> bool:
    """Whether it carries our finalizer, and has ended or is being deleted."""
    return pod.kept and (pod.deleting or not is_live(pod))


def may_go(pod: PodFact, fact: WorkloadFact | None, job: JobState | None, *, stored: bool) -> bool:
    """Whether nobody asks any more how it ended. ``fact`` and ``job``: of its Volcano Job, if it is there."""
    if not is_live(pod):
        return stored
    if pod.forced or fact is None or fact.deleting:
        return True
    return pod.version != job.version or job.is_over() if job is not None else pod.version != 0
