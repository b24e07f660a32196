"""World → gangs that wait for nodes only, in queues that ask cluster autoscalers. Reads memory, and changes nothing."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from admission.provisioning.request_progress import is_for_nodes
from admission.provisioning.wishes import NodeWish, owner_label, pod_wishes
from admission.workloads.kinds import object_ref
from admission.world.world import World
from queues.quota.queue import ProvisioningRules, Queue, path_upwards, provisioning_rules
from queues.reason_codes import ReasonCode
from queues.workload import QueueName, Workload, WorkloadKey, WorkloadKind

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
    #: Owners of requests (``NodeWish.owner``) for which this is about to be known.
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
    """The gangs with requests, and of the others in each queue and namespace as many as may get one, the earliest.

    ``owners``: of the requests that there are (``NodeWish.owner``).
    """
    found = WaitingGangs()
    with_request = set(owners)
    # By namespace too: gangs of one never hide those of another one.
    others: defaultdict[tuple[QueueName, str], list[Workload]] = defaultdict(list)
    for workload in _for_nodes(world, asking):
        if owner_label(workload.key) in with_request:
            found.wishes += _wish_of(world, asking, workload)
        else:
            others[workload.queue, workload.namespace].append(workload)
    for (queue, _), workloads in others.items():
        in_order = sorted(workloads, key=lambda each: each.arrival)
        wishes = (wish for each in in_order for wish in _wish_of(world, asking, each))
        found.wishes += islice(wishes, asking[queue].max_open)
    found.undecided = {owner for owner in with_request if _is_undecided(world, asking, owner)}
    return found


def _wish_of(
    world: World, asking: Mapping[QueueName, ProvisioningRules], workload: Workload
) -> Iterator[NodeWish]:
    """What the gang asks for; nothing: nodes can not be asked for, or would not let it start."""
    if (pods := pod_wishes(workload)) and _within_limits(world, workload):
        _, *above = (each.name for each in path_upwards(workload.queue, _queue_of(world)))
        yield NodeWish(
            key=workload.key,
            ref=object_ref(workload.key, workload.namespace, workload.name),
            queue=workload.queue,
            arrival=workload.arrival,
            rules=asking[workload.queue],
            pods=pods,
            above=tuple(reversed(above)),
        )


def _queue_of(world: World) -> Callable[[QueueName], Queue | None]:
    """Queues by name, as ``path_upwards`` asks for them."""

    def queue_of(name: QueueName) -> Queue | None:
        found = world.queues.get(name)
        return None if found is None else found.queue

    return queue_of


def _for_nodes(world: World, asking: Collection[QueueName]) -> Iterator[Workload]:
    for key, reason in world.ledger.reasons.items():
        if reason.code is not ReasonCode.PROVISIONING and not is_for_nodes(reason):
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
    state, reason = world.states.get(key), world.ledger.reasons.get(key)
    waits = state is not None and state.needs_seats and state.workload.queue in asking and not state.seat_maps
    return waits and (reason is None or reason.code in _UNDECIDED)
