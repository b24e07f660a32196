"""Seats for pods of one pod set: the queue's flavors in order, in each the quota first, then nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from admission.engine import reasons
from admission.engine.placement import Ask, Place, best_domain, place
from admission.engine.plan import Reason
from admission.engine.topology import Amounts, Mask
from admission.engine.trial import Trial
from queues.quota import ROOT, Account
from queues.resources import Resources
from queues.usage import LimitHit, accounts
from queues.workload import NO_FLAVOR, FlavorName, NodeName, PodSet, QueueName, Seat


def seat(
    trial: Trial, queue: QueueName, pods: PodSet, ordinals: Sequence[int], beside: Sequence[NodeName]
) -> list[Seat] | Reason:
    """Seats for these ordinals, all of them, taken in the trial; else the reason, with nothing taken.

    ``beside``: nodes on which pods of the set are seated already; topology counts them in. A queue without
    flavors uses any node, and is charged in the flavor of each.
    """
    refusals: list[Reason] = []
    for flavor in trial.tree.flavors(queue) or (None,):
        answer = _in_flavor(trial, queue, pods, ordinals, beside, flavor)
        if not isinstance(answer, Reason):
            return answer
        refusals.append(answer)
    # What comes last on the way in says most: a quota that has room is of no use without nodes.
    placed = [each for each in refusals if each.code != reasons.Code.QUEUE_LIMIT]
    return (placed or refusals)[0]


def quota_hit(trial: Trial, queue: QueueName, amounts: Mapping[Account, int]) -> LimitHit | None:
    """A limit that is broken wherever the pods go.

    That the cluster as a whole is full is not told here: the search for nodes says it better.
    """
    hit = trial.usage.refusal(queue, amounts)
    return None if hit is not None and hit.queue == ROOT and not hit.kept else hit


def _in_flavor(
    trial: Trial,
    queue: QueueName,
    pods: PodSet,
    ordinals: Sequence[int],
    beside: Sequence[NodeName],
    flavor: FlavorName | None,
) -> list[Seat] | Reason:
    layout = trial.layout
    mask = layout.allowed(pods.nodes)
    if flavor is not None:
        hit = quota_hit(trial, queue, accounts({flavor: pods.takes * len(ordinals)}))
        if hit is not None:
            return reasons.queue_limit(hit)
        mask = mask & layout.of_flavor(flavor)
    while True:
        found = _nodes(trial, queue, pods, len(ordinals), beside, mask)
        if isinstance(found, Reason):
            return found
        charged = _charged(trial, found, pods.takes)
        hit = trial.usage.refusal(queue, charged)
        if hit is None:
            break
        if hit.account.flavor == NO_FLAVOR:
            return reasons.queue_limit(hit)
        mask = mask & ~layout.of_flavor(hit.account.flavor)  # that flavor is used up; perhaps another is not
        if not mask.any():
            return reasons.queue_limit(hit)
    trial.take(found.columns, found.counts, pods.takes, queue, charged)
    return [
        Seat(
            pod_set=pods.name,
            ordinal=ordinal,
            node=layout.names[column],
            flavor=layout.flavors[column],
            takes=pods.takes,
        )
        for ordinal, column in zip(ordinals, found.each(), strict=True)
    ]


def _charged(trial: Trial, found: Place, takes: Resources) -> dict[Account, int]:
    counts: dict[FlavorName, int] = {}
    for column, pods in zip(found.columns.tolist(), found.counts.tolist(), strict=True):
        flavor = trial.layout.flavors[column]
        counts[flavor] = counts.get(flavor, 0) + pods
    return accounts({flavor: takes * pods for flavor, pods in counts.items()})


def _nodes(
    trial: Trial, queue: QueueName, pods: PodSet, count: int, beside: Sequence[NodeName], mask: Mask
) -> Place | Reason:
    """Nodes for so many pods among those of the mask."""
    layout = trial.layout
    room = trial.room(pods.takes, mask)
    found = layout.chain(pods.required_topology or pods.preferred_topology)
    if found is None and pods.required_topology is not None:
        known = sorted({level.key for chain in layout.chains for level in chain})
        return reasons.unknown_level(pods.required_topology, known)
    chain, at = found or (layout.chains[0], len(layout.chains[0]) - 1)
    ask = Ask(
        pods=count,
        room=room,
        chain=chain,
        at=at,
        required=pods.required_topology is not None,
        spread=trial.tree.placement(queue) == "spread",
        empty_room=trial.room_when_empty(pods.takes, pods.nodes) if len(chain) > 1 else None,
    )
    columns = [layout.position[node] for node in beside if node in layout.position]
    near: Ask | Reason = ask
    if columns and pods.required_topology is not None:
        near = _with_the_others(ask, columns, pods.required_topology)
    elif columns and pods.preferred_topology is not None:
        near = _near_the_others(ask, columns[0])
    if isinstance(near, Reason):
        return near
    answer = place(near)
    return answer if answer is not None else _refusal(trial, pods, near, mask)


def _with_the_others(ask: Ask, columns: Sequence[int], key: str) -> Ask | Reason:
    """The domain of the required level that the seated pods are in."""
    level = ask.chain[ask.at]
    domains = sorted({int(level.of[column]) for column in columns})
    if len(domains) > 1 or domains[0] < 0:
        return reasons.scattered(key, [level.domains[domain] for domain in domains if domain >= 0])
    return replace(ask, room=_only(ask.room, level.of, domains[0]))


def _near_the_others(ask: Ask, column: int) -> Ask:
    """The lowest domain around a seated pod that holds the new ones too; none: anywhere."""
    for level in reversed(ask.chain[: ask.at + 1]):
        domain = int(level.of[column])
        if domain >= 0:
            room = _only(ask.room, level.of, domain)
            if int(room.sum()) >= ask.pods:
                return replace(ask, room=room)
    return ask


def _only(room: Amounts, of: NDArray[np.intp], domain: int) -> Amounts:
    return room * np.equal(of, domain)


def _refusal(trial: Trial, pods: PodSet, ask: Ask, mask: Mask) -> Reason:
    if ask.required:
        level = ask.chain[ask.at]
        best = best_domain(level, ask.room)
        return reasons.topology_no_fit(
            level=level.key,
            pods=ask.pods,
            takes=pods.takes,
            fit=best[1] if best else 0,
            domain=best[0] if best else None,
            domains=len(level.domains),
        )
    layout = trial.layout
    chosen, tolerated = layout.chosen(pods.nodes), layout.tolerated(pods.nodes)
    usable = layout.usable
    excluded = {
        "not usable": ~usable,
        "not chosen by nodeSelector or affinity": usable & ~chosen,
        "with taints that are not tolerated": usable & chosen & ~tolerated,
        "of other flavors": usable & chosen & tolerated & ~mask,
        "without room": mask & (ask.room == 0),
    }
    return reasons.no_fit(
        pods=ask.pods,
        takes=pods.takes,
        fit=int(ask.room.sum()),
        nodes=len(trial.table),
        excluded={why: int(np.count_nonzero(nodes)) for why, nodes in excluded.items()},
    )
