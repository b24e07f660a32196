"""What a refusal by the stock scheduler says about a place, and how often a gang is tried after refusals. Pure.

Muster pins each pod to the node of its seat, so the scheduler's words are about that node: of all others it says that
they are not the one. A refusal counts until its cause can have changed.
"""

import re
from collections.abc import Iterable
from typing import Final

from admission.workloads.inputs import Timeouts, WorkloadInputs, revision_of
from admission.workloads.pod_sets import SetOnNode
from admission.workloads.seats import SeatMap
from queues.api import names
from queues.reason_codes import ReasonCode
from queues.text_format import counted, span
from queues.workload import Obstacle

#: Words of the scheduler about pods that are on the node, or near it: they can have changed when a pod goes there.
_ABOUT_OTHER_PODS: Final = re.compile(
    r"insufficient|too many pods|free ports|affinity rules|existing pods anti-affinity|topology spread|max volume count"
    r"|ReadWriteOncePod|in use",
    re.IGNORECASE,
)
#: Words about one node alone: no other node near it is the less good for them.
_ABOUT_ONE_NODE: Final = re.compile(r"insufficient|too many pods|free ports|max volume count", re.IGNORECASE)
#: Words about pods that have to be near and are not (yet).
_LACKS_NEIGHBOUR: Final = re.compile(r"didn't match pod affinity rules", re.IGNORECASE)
#: Words about volumes that are being detached, with whose pods Muster does not count them any more.
_PASSES: Final = re.compile(r"max volume count", re.IGNORECASE)
#: A node that refused a workload is left out for so long (seconds), unless the cause can have changed before …
REFUSAL_MEMORY: Final = 6 * 3600
#: … or passes by itself.
_PASSING_MEMORY: Final = 300
#: After so many refusals in a row a workload is tried again only once a cause can have changed …
REFUSAL_LIMIT: Final = 20
#: … and so long (seconds) after the last one.
_REST: Final = 3600


def goes_with_pods(words: str) -> bool:
    """Whether the cause of a refusal can have gone when a pod has gone from that node or from one near it."""
    return bool(_ABOUT_OTHER_PODS.search(words))


def memory_of(words: str) -> int:
    """For how long (seconds) a refusal counts at most."""
    return _PASSING_MEMORY if _PASSES.search(words) else REFUSAL_MEMORY


def is_of_a_domain(words: str) -> bool:
    """Whether nodes near this one may be refused for the same cause: its rack, its zone."""
    return not _ABOUT_ONE_NODE.search(words)


def refusals_of(
    places: Iterable[SeatMap], inputs: WorkloadInputs, now: int, timeouts: Timeouts
) -> dict[SetOnNode, str]:
    """Nodes for which the scheduler refuses pods of a workload now, by pod set, with its words.

    A gang goes back as soon as the time of its first pod is over; pods that have been refused for half as long count. A
    pod that lacks a neighbour counts only where nothing else is refused: the neighbour may be what is refused.
    """
    found: dict[SetOnNode, str] = {}
    for place in places:
        on_nodes = [SetOnNode(seat.pod_set, seat.node) for seat in place.admission.seats]
        refused = {
            on_nodes[index]: pod.refused
            for index, pod in place.seated.items()
            if pod.refused and not pod.node
        }
        for pod in place.unseated:
            if pod.refused and not pod.node:
                # Pods of a directed Job may use any vacant seat.
                refused |= {on_nodes[index]: pod.refused for index in place.vacant()}
        since = max(inputs.pod_left_at, last_bound(place))
        found |= {
            on_node: words
            for on_node, (at, words) in refused.items()
            if now - max(at, since) >= timeouts.refusal_grace // 2
        }
    sure = {on_node: words for on_node, words in found.items() if not _LACKS_NEIGHBOUR.search(words)}
    return sure or found


def last_bound(place: SeatMap) -> int:
    """When (seconds) the last pod of an admission was bound: pods that need it near them are tried again then."""
    return max((pod.bound_at for pod in place.seated.values()), default=0)


def refusal_revision(inputs: WorkloadInputs) -> str:
    """The revision for which refusals are counted; no count of pods that were not ready is for the same."""
    return f"refused {revision_of(inputs.fact, inputs.pods)}"


def next_try_after_refusal(inputs: WorkloadInputs, now: int, timeouts: Timeouts) -> int:
    """When a gang is tried again that the scheduler refuses now."""
    usual = timeouts.next_try(inputs.setbacks.rollbacks, now)
    return usual if _refusals_in_a_row(inputs) + 1 < REFUSAL_LIMIT else max(usual, now + _REST)


def held_back_by_refusals(inputs: WorkloadInputs) -> Obstacle | None:
    """The obstacle of a workload that was refused too often; None if it may be tried."""
    times, unready, refused = _refusals_in_a_row(inputs), inputs.setbacks.unready, inputs.refused
    if times < REFUSAL_LIMIT or unready is None or refused.may_differ or not refused.words:
        return None
    message = (
        f"not tried again after {counted(times, 'refusal')} in a row by the stock scheduler, on "
        f"{refused.named()}, the last time: {unready.message}. Correct the cause, then change the object, or "
        f"give its annotation {names.RETRY} another value; it is tried again by itself when one of these nodes or its "
        f"volumes change, at the latest {span(REFUSAL_MEMORY)} after the last refusal"
    )
    return Obstacle(ReasonCode.BACKOFF_LIMIT_EXCEEDED, message)


def _refusals_in_a_row(inputs: WorkloadInputs) -> int:
    unready = inputs.setbacks.unready
    return unready.times if unready is not None and unready.revision == refusal_revision(inputs) else 0
