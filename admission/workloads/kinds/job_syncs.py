"""Whether the job controller may still make pods of a Job that is suspended. Pure.

One sync of the job controller makes up to 500 pods (``MaxPodCreateDeletePerSync``) and reads ``spec.suspend`` at its
beginning only: it goes on when the Job is suspended meanwhile. Until its end ``status.active`` is what it was before,
0 at a first start. At the end it writes the whole status at once, also the condition Suspended, with a new
``lastTransitionTime`` if that changed; the write is refused if the Job was changed meanwhile. Syncs of one Job follow
each other, so a sync that read that the Job is suspended proves that no earlier one makes pods any more.

Source: ``syncJob``, ``manageJob`` and ``updateJobStatus`` in pkg/controller/job/job_controller.go, Kubernetes 1.36.
"""

from math import ceil

from admission.facts import WorkloadFact
from admission.workloads.inputs import Timeouts
from queues.admissions import Admission

#: ``MaxPodCreateDeletePerSync``.
MOST_PODS_OF_A_SYNC = 500


def may_make_pods(fact: WorkloadFact, admission: Admission, suspended_before: int = 0) -> bool:
    """Whether a sync may go on that makes pods for the seats of this admission, which is being evicted.

    Only pods of a Job that was resumed with the nodes of the admission count: others come up behind a gate. It was
    suspended when the admission was opened, so a later transition to True says that a sync found it resumed, and
    another one suspended again. The first sync of a new Job may come as late as after the opening, so the transition
    must not be from before the eviction either. Times are whole seconds; a gang that is evicted in the second of its
    opening counts as suspended by a transition in that second, which its controller mostly writes then: unless that is
    ``suspended_before``, the transition that the Job told when it was last seen resumed (0: none, or not known).
    True may be the answer for good: syncs that found the Job resumed could not write, because it was suspended again.
    """
    if fact.directed != admission.id:
        return False
    if suspended_before and fact.suspended_at == suspended_before:
        return True
    return fact.suspended_at < max(admission.opened_at, admission.evicted_at)


def longest_sync(fact: WorkloadFact, admission: Admission, timeouts: Timeouts) -> int:
    """Seconds after which no sync that found the Job resumed goes on, whatever its status says. The Job may have been
    made smaller since, so the seats that it had count too."""
    pods = min(max(fact.parallelism, len(admission.seats)), MOST_PODS_OF_A_SYNC)
    return timeouts.job_sync + ceil(timeouts.job_sync_per_pod * pods)
