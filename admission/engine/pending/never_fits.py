"""Why a gang can never be admitted: the two numbers, of what it asks and of what there is at most."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from admission.engine import reasons
from admission.engine.nodes.host_ports import volumes_by_driver
from admission.engine.nodes.table import Amounts, Mask
from admission.engine.pending.domain_caps import DomainCap
from admission.engine.placement.need import FEW_SETS
from admission.engine.trial import Trial
from queues.flavor_growth import FlavorGrowth, short_of
from queues.plan import NODES_REFUSED, Reason
from queues.quota.usage import LimitHit, UserLimitHit
from queues.resources import in_bytes, show
from queues.text_format import counted, listed
from queues.workload import FlavorName, NodeFilter, PodSet, Requirement

#: Taints, or flavors, that a reason names.
_MOST_NAMES: Final = 3

Sets = Sequence[tuple[PodSet, int]]


def beyond_quota(hit: LimitHit) -> Reason:
    """More than a queue on the path may use, even while it uses nothing."""
    show = hit.account.show
    kept = f" ({show(hit.limit)} without {show(hit.kept)} kept for guarantees)" if hit.kept else ""
    return reasons.never_fits(
        f"{show(hit.asked)} {hit.account} asked, queue {hit.queue} may use "
        f"{show(max(0, hit.limit - hit.kept))}{kept}",
        queue=hit.queue,
        flavor=hit.account.flavor,
        resource=hit.account.resource,
        limit=hit.limit,
        kept=hit.kept,
        asked=hit.asked,
        over=hit.short,
    )


def beyond_all_nodes(hit: LimitHit) -> Reason:
    """More than all nodes have together, for pods that are not known yet."""
    show = hit.account.show
    kept = f" ({show(hit.kept)} kept for guarantees of other queues)" if hit.kept else ""
    return reasons.never_fits(
        f"{show(hit.asked)} {hit.account} asked, all nodes together have {show(hit.limit)}{kept}",
        resource=hit.account.resource,
        limit=hit.limit,
        asked=hit.asked,
    )


def beyond_user_limit(hit: UserLimitHit) -> Reason:
    """More than one user may use in a queue, even while theirs uses nothing."""
    return reasons.never_fits(
        f"{hit.account.show(hit.asked)} {hit.account} asked, one user may use {hit.account.show(hit.limit)} "
        f"in queue {hit.queue}",
        queue=hit.queue,
        resource=hit.account.resource,
        limit=hit.limit,
        asked=hit.asked,
        of_user=True,
    )


def beyond_nodes(
    trial: Trial,
    pods: PodSet,
    count: int,
    *,
    fit: int,
    mask: Mask,
    room: Amounts,
    level: str | None,
    flavors: Sequence[FlavorName] = (),
) -> Reason:
    """More than the nodes take of one pod set: ``fit`` of ``count`` pods.

    ``mask``: (N,) nodes that they may use; ``room``: (N,) pods that each takes; ``level``: all are in one domain of it;
    ``flavors``: of the queue.
    """
    if not mask.any():
        return _no_node(trial, pods.nodes.lasting(), flavors)
    if not room.any():
        return _pod_too_large(trial, pods, mask)
    shape = reasons.shape_text(pods.takes, in_one_island=pods.in_one_island)
    asked = f"{counted(count, 'pod')} of {shape} asked"
    facts = {"asked": count, "fit": fit, "takes": dict(pods.takes)}
    fitting = int(room.sum()) if level is None else trial.layout.most_pods(room, level)
    if fitting >= count and pods.partitions:
        part = pods.partitions[0]
        return reasons.never_fits(
            f"{asked} in parts of {part.size}, each in one {part.level}; {fit} fit, even if all nodes were empty",
            **facts,
            size=part.size,
            level=part.level,
        )
    if level is not None:
        most = f"the largest holds {fit}"
        return reasons.never_fits(f"{asked} in one {level}, {most} even if empty", **facts, level=level)
    if fitting >= count:
        return reasons.never_fits(f"{asked} in one flavor, the largest holds {fit} even if empty", **facts)
    where = "all nodes together hold" if mask.all() else "the nodes that they may use hold"
    return reasons.never_fits(f"{asked} at once, {where} {fit} even if empty", **facts)


def beyond_cap(pods: PodSet | None, count: int, cap: DomainCap, *, fit: int) -> Reason:
    """More than the rules of the pods let onto the nodes: ``fit`` of ``count``. ``pods`` is None for several sets."""
    shape = "" if pods is None else f" of {reasons.shape_text(pods.takes, in_one_island=pods.in_one_island)}"
    message = f"{counted(count, 'pod')}{shape} asked, {cap.text()}; {fit} fit, even if all nodes were empty"
    facts = {"asked": count, "fit": fit, "most": cap.most, "label": cap.key}
    return reasons.never_fits(message, **facts)


def _no_node(trial: Trial, nodes: NodeFilter, flavors: Sequence[FlavorName]) -> Reason:
    layout, total = trial.layout, len(trial.table)
    chosen, tolerated = layout.chosen(nodes), layout.tolerated(nodes)
    facts = {"fit": 0, "nodes": total}
    of_all = f"0 of {total} nodes"
    if not chosen.any():
        message = f"{of_all} are chosen by nodeSelector or affinity ({_wish(trial, nodes)})"
        return reasons.never_fits(message, **facts)
    if not (chosen & tolerated).any():
        taints = dict.fromkeys(
            f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"
            for column in np.flatnonzero(chosen)[:1000].tolist()
            for taint in layout.taints.of(column)
        )
        names = listed(list(taints), _MOST_NAMES)
        return reasons.never_fits(f"{of_all} have no taint that it does not tolerate ({names})", **facts)
    message = f"{of_all} that it may use are of a flavor of its queue ({listed(list(flavors), _MOST_NAMES)})"
    return reasons.never_fits(message, **facts, flavors_wanted=list(flavors))


def _wish(trial: Trial, nodes: NodeFilter) -> str:
    """Labels that no node has; of others, all that is asked for."""
    labels = trial.layout.labels
    wanted = [f"{key}={value}" for key, value in nodes.selector]
    missing = [f"{key}={value}" for key, value in nodes.selector if not labels.has(key, value).any()]
    terms = [" and ".join(map(_requirement, term)) for term in nodes.affinity]
    return listed(missing or [*wanted, *([" or ".join(terms)] if terms else [])])


def _requirement(each: Requirement) -> str:
    values = f" ({', '.join(each.values[:3])}{', …' if len(each.values) > 3 else ''})" if each.values else ""
    return f"{each.key} {each.operator}{values}"


def _pod_too_large(trial: Trial, pods: PodSet, mask: Mask) -> Reason:
    takes, whose = pods.takes, "the largest node" if mask.all() else "the largest node that it may use"
    rows = {name: trial.table.allocatable[row] for row, name in enumerate(trial.table.resources)}
    most = {name: int(rows[name][mask].max()) if name in rows else 0 for name in takes}
    # Devices say more than processors and memory.
    for name in sorted(takes, key=lambda each: ("/" not in each, each)):
        if takes[name] > most[name]:
            message = f"{_amount(name, takes[name])} {name} asked in one pod, {whose} has {_amount(name, most[name])}"
            return reasons.never_fits(message, resource=name, asked=takes[name], limit=most[name])
    for driver, volumes in sorted(volumes_by_driver(pods.attached).items()):
        if volumes > (limit := int(trial.ports.volumes_left(driver)[mask].max())):
            message = f"{counted(volumes, 'volume')} of {driver} asked in one pod, {whose} can attach {limit}"
            return reasons.never_fits(message, driver=driver, asked=volumes, limit=limit)
    shape = reasons.shape_text(takes, in_one_island=pods.in_one_island)
    facts = {"asked": 1, "fit": 0, "takes": dict(takes)}
    if pods.needs_single_devices():
        return reasons.never_fits(
            f"{shape} asked in one pod, no node has such devices even if empty", **facts
        )
    return reasons.never_fits(f"{shape} asked in one pod, no node has all of it even if empty", **facts)


def beyond_growth(reason: Reason, pods: PodSet, growth: Sequence[FlavorGrowth]) -> Reason:
    """The same, where nodes can be added, but none that such a pod has room on."""
    if not growth:
        return reason
    before = reason.facts.get("resource")
    if (short := short_of(growth, pods.takes, before)) is None:
        return replace(reason, message=f"{reason.message}, none that can be added has room for such a pod")
    name, most = short
    of_what = "" if name == before else f" {name}"
    message = f"{reason.message}, the largest that can be added has {_amount(name, most)}{of_what}"
    return replace(reason, message=message, facts={**reason.facts, "mayGrow": most, "mayGrowResource": name})


def nodes_refused(reason: Reason) -> Reason:
    """The same of a gang for which cluster autoscalers add no nodes."""
    message = f"{reason.message}; nodes were asked for and refused"
    return replace(reason, message=message, facts={**reason.facts, NODES_REFUSED: True})


def offered_nowhere(pods: PodSet, resource: str) -> Reason:
    """More of a resource than any node has: none has any."""
    asked = pods.takes.get(resource)
    message = f"{_amount(resource, asked)} {resource} asked in one pod, the largest node has 0"
    return reasons.never_fits(message, resource=resource, asked=asked, limit=0)


def beyond_sums(trial: Trial, sets: Sets, mask: Mask, level: str | None) -> Reason | None:
    """Why several pod sets cannot be on these nodes together, or in one domain of a level, by sums. None if they may.

    Of each resource the nodes need the sum; and of the pods that ask most of it, a node takes no more than of their
    smallest.
    """
    bounds = _Bounds(trial, mask, level)
    for name in sorted(
        {name for pods, _ in sets for name in pods.takes}, key=lambda each: ("/" not in each, each)
    ):
        asked = sum(pods.takes.get(name) * count for pods, count in sets)
        offered = bounds.sums(bounds.amounts(name))
        if (most := int(offered.max(initial=0))) < asked:
            where = f"in one {level}, the largest has" if level else "at once, all nodes together have"
            message = f"{_amount(name, asked)} {name} asked {where} {_amount(name, most)}"
            return reasons.never_fits(message, resource=name, asked=asked, limit=most, level=level)
        bounds.holds &= offered >= asked
        if len(sets) > FEW_SETS:
            continue
        pods_so_far = 0
        for pods, count in sorted(sets, key=lambda each: -each[0].takes.get(name)):
            if not (units := pods.takes.get(name)):
                break
            pods_so_far += count
            room = bounds.sums(bounds.amounts(name) // units)
            if (fit := int(room.max(initial=0))) < pods_so_far:
                where = f"in one {level}, the largest holds" if level else "at once, all nodes together hold"
                message = f"{counted(pods_so_far, 'pod')} of {_amount(name, units)} {name} or more asked {where} {fit}"
                return reasons.never_fits(
                    f"{message} even if empty", resource=name, asked=pods_so_far, fit=fit, level=level
                )
            bounds.holds &= room >= pods_so_far
    if bounds.holds.any():
        return None
    asked_pods = sum(count for _, count in sets)
    message = (
        f"{counted(asked_pods, 'pod')} asked in one {level}, 0 of {len(bounds.holds)} hold them even if empty"
    )
    return reasons.never_fits(message, asked=asked_pods, fit=0, level=level)


class _Bounds:
    """Sums over nodes, or over each domain of a level, and which of the domains are large enough so far."""

    def __init__(self, trial: Trial, mask: Mask, level: str | None) -> None:
        self._table = trial.table
        self._mask = mask
        self._level = None if level is None else trial.layout.level(level)
        self._rows = {name: row for row, name in enumerate(trial.table.resources)}
        self.holds = np.ones(1 if self._level is None else len(self._level.domains), np.bool_)

    def amounts(self, resource: str) -> Amounts:
        """(N,) what each of the nodes offers."""
        row = self._rows.get(resource)
        nothing = np.zeros(len(self._mask), np.int64)
        return nothing if row is None else self._table.allocatable[row] * self._mask

    def sums(self, amounts: Amounts) -> Amounts:
        """(D,) over each domain; one number over all nodes."""
        return np.array([amounts.sum()]) if self._level is None else self._level.sums(amounts)


def too_few_members(asked: int, fit: int) -> Reason:
    """Of a gang that may start with members of any of its pod sets."""
    message = f"{counted(asked, 'pod')} asked at once, all nodes together hold {fit} even if empty"
    return reasons.never_fits(message, asked=asked, fit=fit)


def _amount(resource: str, units: int) -> str:
    """An amount to compare with another one: of bytes in Gi or Mi, rounded down to a tenth."""
    if not in_bytes(resource) or units % 2**30 == 0:
        return show(resource, units)
    size, suffix = (2**30, "Gi") if units >= 2**30 else (2**20, "Mi")
    tenths = units * 10 // size
    return f"{tenths // 10}{suffix}" if tenths % 10 == 0 else f"{tenths / 10}{suffix}"
