"""World → gangs that wait for nodes only, in queues that ask cluster autoscalers. Reads memory, and changes nothing."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Final

from admission.provisioning.request_progress import FOR_NODES
from admission.provisioning.wishes import NodeWish, owner_label, pod_wishes
from admission.workloads.kinds import object_ref
from admission.world.world import World
from queues.quota.queue import ProvisioningRules, Queue, path_upwards, provisioning_rules
from queues.reason_codes import ReasonCode
from queues.workload import QueueName, Workload, WorkloadKey, WorkloadKind

#: With or without a request.
_FOR_NODES: Final = (*FOR_NODES, ReasonCode.PROVISIONING)
#: It is not known whether the gang goes on waiting for nodes: it was not looked at, or victims leave.
_UNDECIDED: Final = (
    ReasonCode.BACKOFF,
    ReasonCode.DRAINING,
    ReasonCode.EVICTING,
    ReasonCode.MAKING_ROOM,
    ReasonCode.TAKES_TURNS,
)


@dataclass(slots=True)
class WaitingGangs:
    """What gangs wait for now, as far as requests depend on it."""

    wishes: list[NodeWish] = field(default_factory=list)
    #: Owners of requests (``NodeWish.owner``) of which this is about to be known.
    undecided: set[str] = field(default_factory=set)


def asking_queues(world: World) -> dict[QueueName, ProvisioningRules]:
    """Queues for which nodes are asked."""
    if not any(each.queue.provisioning for each in world.queues.values()):
        return {}
    found = ((name, provisioning_rules(name, _queue_of(world))) for name in world.queues)
    return {name: rules for name, rules in found if rules is not None}


def waiting_gangs(
    world: World, asking: dict[QueueName, ProvisioningRules], owners: Collection[str]
) -> WaitingGangs:
    """The gangs with requests, and in each queue as many of the others as may get one, in the order of arrival.

    ``owners``: of the requests that there are (``NodeWish.owner``).
    """
    found = WaitingGangs()
    waiting: defaultdict[QueueName, list[Workload]] = defaultdict(list)
    for workload in _for_nodes(world, asking):
        waiting[workload.queue].append(workload)
    with_request = set(owners)
    for queue, workloads in waiting.items():
        rules = asking[queue]
        others = nsmallest(rules.max_open + len(owners), workloads, key=lambda each: each.arrival)
        asked = [each for each in workloads if owner_label(each.key) in with_request]
        for workload in {each.key: each for each in (*asked, *others)}.values():
            if (pods := pod_wishes(workload)) and _within_limits(world, workload):
                ref = object_ref(workload.key, workload.namespace, workload.name)
                found.wishes.append(
                    NodeWish(
                        key=workload.key,
                        ref=ref,
                        queue=queue,
                        arrival=workload.arrival,
                        rules=rules,
                        pods=pods,
                    )
                )
    found.undecided = {owner for owner in with_request if _is_undecided(world, asking, owner)}
    return found


def _queue_of(world: World) -> Callable[[QueueName], Queue | None]:
    """Queues by name, as ``path_upwards`` asks for them."""

    def queue_of(name: QueueName) -> Queue | None:
        found = world.queues.get(name)
        return None if found is None else found.queue

    return queue_of


def _for_nodes(world: World, asking: Collection[QueueName]) -> Iterator[Workload]:
    for key, reason in world.reasons.items():
        if reason.code not in _FOR_NODES:
            continue
        state = world.states.get(key)
        if state is not None and state.needs_seats and state.workload.queue in asking and not state.seat_maps:
            yield state.workload


def _within_limits(world: World, workload: Workload) -> bool:
    """Whether the stated limits allow the workload in an idle cluster.

    What no node offers was not compared with them yet; what fits nowhere was, with all that is used.
    """
    asks = workload.asks()
    return all(
        asks.get(resource, 0) <= most
        for queue in path_upwards(workload.queue, _queue_of(world))
        for resource, most in queue.limits.capability.items()
    )


def _is_undecided(world: World, asking: Collection[QueueName], owner: str) -> bool:
    kind, _, uid = owner.partition(".")
    if kind not in set(WorkloadKind):
        return False
    key = WorkloadKey(WorkloadKind(kind), uid)
    state, reason = world.states.get(key), world.reasons.get(key)
    waits = state is not None and state.needs_seats and state.workload.queue in asking and not state.seat_maps
    return waits and (reason is None or reason.code in _UNDECIDED)
