"""Rolling updates of Deployments that wait for themselves: a new pod waits for room that the old ones have. Pure.

A Deployment that may have a pod more and none less takes an old pod away only when a new one runs. In a full queue that
never comes, and nothing but the Deployment says so.
"""

from collections.abc import Iterable
from typing import Final

from admission.facts.pods import PodFact
from admission.workloads.seats import is_live
from queues.reason_codes import ReasonCode

DEPLOYMENT: Final = "deployment/"
#: What a pod waits for that its predecessor has.
_FOR_ROOM: Final = (
    ReasonCode.QUEUE_LIMIT,
    ReasonCode.USER_LIMIT,
    ReasonCode.NO_FIT,
    ReasonCode.NAMESPACE_QUOTA,
)
#: The two ways out.
WAYS_OUT: Final = "set maxUnavailable of its strategy to 1 or more, or maxSurge to 0"


def own_update_words(code: ReasonCode, waiting: Iterable[PodFact], all_pods: Iterable[PodFact]) -> str:
    """What is said of a workload whose pods wait for older ones of their own Deployment; "": they do not.

    ``code``: why it waits; ``all_pods``: those of the same Deployment.
    """
    new = next((pod for pod in waiting if pod.gated), None)
    if new is None or code not in _FOR_ROOM or not new.controller.startswith(DEPLOYMENT):
        return ""
    revision = _revision(new)
    is_held = any(
        pod.admission is not None and is_live(pod) and not pod.deleting and _revision(pod) != revision
        for pod in all_pods
    )
    name = new.controller.removeprefix(DEPLOYMENT)
    return f"it waits for pods of its own Deployment {name}: {WAYS_OUT}" if is_held else ""


def _revision(pod: PodFact) -> str:
    """The hash of the template that a pod of a Deployment is made from, in its name between two dashes."""
    return pod.name.removeprefix(f"{pod.controller.removeprefix(DEPLOYMENT)}-").partition("-")[0]
