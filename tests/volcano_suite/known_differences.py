"""Specs of Volcano's suite that do not pass, and why: by the beginning of their name. All others are to pass."""

from typing import Final

NO_PODS: Final = (
    "a Job that waits has no pods here: they are made when it is admitted, on the nodes of its seats"
)
NO_GROUP: Final = "pods without a PodGroup get none: each is a workload of its own"
SCORE: Final = "of several domains that fit Volcano takes the fullest, Muster the one with the fewest places"
VOLCANOS: Final = "about Volcano's own Deployments, or its scheduler's configuration"

KNOWN: Final[dict[str, str]] = {
    # cronjob: none, all nine pass
    # jobp
    "Scale down to zero and scale up": (
        "pods that stop still count as ready to the suite: hosts are written with the next ones"
    ),
    "Create volcano rc, pg controller process": NO_GROUP,
    # jobseq
    "job level LifecyclePolicy, Event: PodFailed, Action: RestartPod": (
        "a failed pod is gone at once: the phase Restarting is shown among the conditions only"
    ),
    "Test SSh Plugin with Pod Affinity": "the Secret of the plugin ssh has the Job's uid in its name",
    "Check Functionality of all plugins": "the Secret of the plugin ssh has the Job's uid in its name",
    # vcctl
    "Suspend pending job": NO_PODS,
    "delete a job with all nodes taints": NO_PODS,
    # schedulingaction
    "allocate don't work when resource is NOT enough": NO_PODS,
    "Scheduling gates block vcjob": NO_PODS,
    "Scheduling gates block Deployment": NO_GROUP,
    "Scheduling gated task will not consume": NO_PODS,
    "Reclaim Case 6": NO_PODS,
    "Reclaim Case 7": "a template that names a node is refused",
    "Reclaim Case 8": NO_PODS,
    "Reclaim Case 10": "only what a queue has borrowed is reclaimed, not what a gang has beyond its minimum",
    "Capacity Reclaim Case 11": VOLCANOS,
    "Jobs unschedulable due to scheduling gates": NO_PODS,
    "should preempt low priority pod with anti-affinity": "pods have a class of the same value that never preempts",
    "Hostport": NO_PODS,
    "Taints": NO_PODS,
    # schedulingbase
    "sla permits job to be inqueue": NO_PODS,
    "sla adjusts job order": "the annotation sla-waiting-time has no effect",
    "PodGroup's Count change": NO_GROUP,
    "PodGroup's Phase": NO_GROUP,
    # hypernode
    "deploys exactly one HyperNode controller owner": VOLCANOS,
    "Case 1.2": SCORE,
    "Case 2.1": SCORE,
    "Case 3.1": SCORE,
    "Case 4.2": NO_PODS,
    "Case 4.3": NO_PODS,
    "Case 5.5": NO_PODS,
    "Case 6.3": NO_PODS,
    "Case 9.1": SCORE,
    "Case 9.4": NO_PODS,
    "Case 9.5": SCORE,
    "Case 9.6": NO_PODS,
}


def why_not(spec: str) -> str | None:
    """Why a spec does not pass; None: it should."""
    return next((why for name, why in KNOWN.items() if spec.startswith(name)), None)
