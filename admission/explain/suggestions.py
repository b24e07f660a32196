"""The smallest changes that would let one pending workload in, each tried before it is suggested.

Each change is made in a copy of the snapshot, and suggested only if ``decide`` then admits the workload or evicts
victims for it. A suggestion holds for the workload alone, in the cluster as it is.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from msgspec import structs

from admission.engine import reasons
from admission.engine.claims import awaits_pods
from admission.engine.nodes.table import NodeTable
from admission.engine.pending.pending import entering_with
from admission.engine.snapshot import Snapshot
from admission.explain.fewest_endings import FOREVER, fewest_endings, time_left
from admission.explain.quota_raises import QuotaRaise, capability_raised, deserved_raised
from admission.explain.what_if import WhatIf, WhatIfOutcome
from queues.api.reading.pod_places import NVLINK
from queues.node_closures import ClosureKind, NodeClosure
from queues.plan import Reason
from queues.quota.accounts import Account
from queues.quota.queue import ROOT, path_upwards
from queues.read_api.bodies import ChangeBody
from queues.read_api.quantities import quantities
from queues.reason_codes import ReasonCode, advice_on
from queues.resources import Resources
from queues.text_format import counted, duration, listed, rfc3339, span
from queues.workload import NO_FLAVOR, AdmissionId, PodSet, QueueName, Workload, WorkloadKey

#: Gang sizes that are tried above the number of pods that fit.
_LARGER_TRIED = 4
#: Elastic parts, as users call them.
_ABOVE_MINIMUM = "pods above the minimum"
#: Moments at which closures end that are tried: each is a decision.
_ENDS_TRIED: Final = 6


class SuggestionKind(StrEnum):
    """What has to change, in the order of the suggestions: changes that come by themselves are first."""

    #: Nothing: the workload is admitted when it is its turn.
    TURN = "turn"
    #: Time has to pass.
    TIME = "time"
    #: A reservation or a drain that keeps nodes has to end, which it does by itself.
    CLOSURE = "closure"
    #: A running workload has to end.
    END = "end"
    #: The workload has to ask for less.
    WORKLOAD = "workload"
    #: The priority of the workload has to be higher.
    PRIORITY = "priority"
    #: A queue has to deserve more.
    DESERVED = "deserved"
    #: A queue has to be allowed more.
    CAPABILITY = "capability"
    #: An administrator has to change something else in a queue.
    QUEUE = "queue"
    #: The cluster has to be larger.
    NODES = "nodes"


def _change(
    kind: SuggestionKind, message: str, facts: Mapping[str, Any] = MappingProxyType({})
) -> ChangeBody:
    """One change that would let a workload in, without any other change. ``message``: without its full stop.

    ``facts``: the numbers of the message; amounts as people write them, times in seconds.
    """
    return ChangeBody(kind=kind.value, message=message, facts=dict(facts))


def suggestions(
    snapshot: Snapshot, workload: Workload, reason: Reason, classes: Mapping[str, int] = MappingProxyType({})
) -> list[ChangeBody]:
    """Changes, the smallest first: one of them is enough to let the workload in. ``classes``: the priority classes that
    users may name."""
    if (only := _untried(snapshot, workload, reason)) is not None:
        return [_among_others(snapshot, workload, reason, only)]
    what_if, now = WhatIf.of(snapshot, workload)
    if now or workload.key in snapshot.claims:
        return [_its_turn(what_if, now)]
    refused = now.reason or reason
    raised = capability_raised(what_if, refused)
    found = [
        *_times(what_if),
        *_endings(what_if),
        *_less(what_if, refused),
        *_priority(what_if, classes),
        *_preempting(what_if),
        *_deserved(what_if),
        *((_capability(raised, raised.outcome),) if raised is not None and raised.outcome else ()),
    ]
    return found or [*_more_than_one(what_if, refused, raised)]


def _among_others(snapshot: Snapshot, workload: Workload, reason: Reason, only: ChangeBody) -> ChangeBody:
    """The suggestion about a limit of users, with what would stop the workload next."""
    facts = reason.facts
    if not (reason.code is ReasonCode.USER_LIMIT or facts.get("of_user")) or workload.obstacle is not None:
        return only
    queue = snapshot.queues[QueueName(facts["queue"])]
    enough = {**queue.max_per_user, facts["resource"]: facts.get("used", 0) + facts["asked"]}
    raised = {**snapshot.queues, queue.name: replace(queue, max_per_user=enough)}
    _, then = WhatIf.of(replace(snapshot, queues=raised), workload)
    if then or then.reason is None:
        return only
    next_one = f"{then.reason.code}, {then.reason.message}"
    return structs.replace(only, message=f"{only.message}, among others: then it waits still ({next_one})")


def _more_than_one(what_if: WhatIf, refused: Reason, raised: QuotaRaise | None) -> Iterator[ChangeBody]:
    """Two changes where no single one is enough: higher limits, and then the ends or nodes that are needed."""
    if raised is None:
        yield from _nodes(what_if, refused)
        return
    raised_what_if, now = WhatIf.of(replace(what_if.snapshot, queues=raised.queues), what_if.workload)
    if now.reason is None:
        return
    for second in (*_endings(raised_what_if), *_nodes(raised_what_if, now.reason)):
        yield structs.replace(
            _capability(raised, now),
            message=f"{raised.text}, and {second.message}",
            facts={**second.facts, **raised.facts},
        )
        return


def _nodes(what_if: WhatIf, refused: Reason) -> Iterator[ChangeBody]:
    """More or other nodes, where none of the existing ones can be enough."""
    workload, table = what_if.workload, what_if.snapshot.nodes
    if refused.code == ReasonCode.QUEUE_LIMIT and refused.facts["queue"] == ROOT:
        account = Account(refused.facts["flavor"], refused.facts["resource"])
        more = account.amount(refused.facts["over"])
        yield _change(SuggestionKind.NODES, f"nodes with {more} more, at the least")
        return
    if refused.code not in (ReasonCode.NO_FIT, ReasonCode.TOPOLOGY_NO_FIT, ReasonCode.NEVER_FITS):
        return
    enters = table.layout.entries(what_if.tree.flavors(workload.queue))
    for pods in entering_with(workload, enters).pod_sets:
        if wanted := _wanted_nodes(table, pods):
            yield _change(SuggestionKind.NODES, wanted, {"takes": quantities(pods.takes)})
            return
    if flavors := refused.facts.get("flavors_wanted"):
        yield _change(SuggestionKind.NODES, f"nodes of flavor {' or '.join(flavors)}", {"flavors": flavors})
    elif rules := refused.facts.get("by_rules"):
        now = ", ".join(f"{counted(count, 'node')} {why}" for why, count in rules.items())
        text = f"room where the rules of its pods about other pods allow it: now {now}"
        yield _change(SuggestionKind.NODES, text, {"rules": dict(rules)})
    else:
        yield _change(SuggestionKind.NODES, "more nodes that its pods may use")


def _wanted_nodes(table: NodeTable, pods: PodSet) -> str:
    """Which nodes the pods lack, whatever state those that exist are in; "": there are such nodes."""
    chosen, tolerated = table.layout.chosen(pods.nodes), table.layout.tolerated(pods.nodes)
    if len(table) and not chosen.any():
        return (
            "nodes that its nodeSelector or affinity chooses, or other choices: now 0 nodes have these labels"
        )
    if len(table) and not (chosen & tolerated).any():
        return "tolerations for the taints of the nodes that it chooses, or nodes without these"
    fits = chosen & tolerated
    for name, units in pods.takes.items():
        offered = table.allocatable[table.resources.index(name)] if name in table.resources else None
        fits = fits & (offered >= units if offered is not None else False)
    if fits.any():
        return ""
    asked = Resources({name: units for name, units in pods.takes.items() if name != "pods"})
    return f"nodes that can hold a pod of {asked}: none of those it may use can, even empty"


def _untried(snapshot: Snapshot, workload: Workload, reason: Reason) -> ChangeBody | None:
    """The only change that helps where a decision is not reached at all. None if changes have to be tried."""
    if workload.obstacle is not None:
        return _change(SuggestionKind.WORKLOAD, _corrected(workload, reason))
    facts = reason.facts
    queue = facts.get("by", facts.get("queue", workload.queue))
    match ReasonCode.USER_LIMIT if facts.get("of_user") else reason.code:
        case ReasonCode.BACKOFF:
            seconds = max(0, workload.not_before - snapshot.now)
            return _change(
                SuggestionKind.TIME, f"in {duration(seconds)} it is tried again", {"seconds": seconds}
            )
        case ReasonCode.DRAINING:
            return _change(SuggestionKind.TIME, f"when the pods of admission {facts['admission']} are gone")
        case (
            ReasonCode.QUEUE_PAUSED
            | ReasonCode.QUEUE_CLOSED
            | ReasonCode.QUEUE_ON_HOLD
            | ReasonCode.BUDGET_SPENT
            | ReasonCode.PLUGIN_NOT_USABLE
        ):
            text = _started_again(snapshot, workload.queue, reason)
        case ReasonCode.NOT_ALLOWED:
            text = f"another queue, or labels of namespace {facts['namespace']} that queue {queue} asks for: "
            text += facts["selector"]
        case ReasonCode.UNKNOWN_QUEUE:
            text = f"another queue: there is none named {queue}"
        case ReasonCode.QUEUE_BROKEN:
            text = f"another queue, or queue {queue} corrected"
        case ReasonCode.QUEUE_NOT_LEAF:
            below = facts.get("children") or ()
            text = f"a queue below {queue}" + (f", such as {below[0]}" if below else "")
        case ReasonCode.GANG_TOO_LARGE | ReasonCode.PENDING_LIMIT | ReasonCode.USER_LIMIT:
            text = _access_limit_text(reason, queue)
        case ReasonCode.RUN_TIME_TOO_LONG:
            most, asked = span(facts["limit"]), span(facts["asked"])
            text = (
                f"a declared run time of at most {most}, or access.maxRunTime {asked} instead of {most} in "
            )
            text += f"queue {queue}"
        case ReasonCode.NOT_ENOUGH_PODS:
            missing = facts["minimum"] - facts["wanted"]
            text = f"{counted(missing, 'pod')} more, or a minimum of {facts['wanted']}"
            return _change(SuggestionKind.WORKLOAD, text, {"pods": missing})
        case _:
            return None
    return _change(SuggestionKind.QUEUE, text, {"queue": queue})


def _started_again(snapshot: Snapshot, queue: QueueName, reason: Reason) -> str:
    """All that stops a queue, here or above, taken back: it may be closed and paused, and each alone is not enough."""
    facts = reason.facts
    if reason.code is ReasonCode.BUDGET_SPENT:
        return f"a larger spec.budget.hours of queue {facts['by']}, another queue, or {facts['day']}, with a new budget"
    if reason.code is ReasonCode.PLUGIN_NOT_USABLE:
        text = f"a plug-in {facts['plugin']} that can be used, another {facts['field']} of queue {facts['by']}, or "
        return f"{text}policy.onPluginFailure: default"
    parts: list[str] = []
    for each in path_upwards(queue, snapshot.queues.get):
        if each.closed:
            parts.append(f"queue {each.name} opened again (kubectl muster queue open {each.name})")
        if each.paused:
            parts.append(f"queue {each.name} resumed (kubectl muster queue resume {each.name})")
        if each.hold is not None:
            parts.append(f"the hold of queue {each.name} ended (kubectl muster queue unhold {each.name})")
    return listed(parts, len(parts))


def _access_limit_text(reason: Reason, queue: str) -> str:
    """What has to become of a limit under ``spec.access``."""
    facts = reason.facts
    if reason.code is ReasonCode.GANG_TOO_LARGE:
        return f"access.maxGang {facts['asked']} instead of {facts['limit']} in queue {queue}"
    if reason.code is ReasonCode.PENDING_LIMIT:
        limit = "maxPendingPerUser" if "user" in facts else "maxPending"
        return f"fewer workloads that came earlier, or access.{limit} above {facts['limit']} in {queue}"
    account, needed = Account(NO_FLAVOR, facts["resource"]), facts.get("used", 0) + facts["asked"]
    raised = f"access.maxPerUser {account.amount(needed)} instead of {account.show(facts['limit'])} in queue {queue}"
    if facts["asked"] > facts["limit"]:
        return raised
    whose = facts["user"] or "work without a known user"
    return f"{account.amount(needed - facts['limit'])} less in use by {whose} in queue {queue}, or {raised}"


def _corrected(workload: Workload, reason: Reason) -> str:
    """What has to become of a workload that is not considered as it is."""
    if reason.code is ReasonCode.MAX_RUN_TIME:
        return "nothing lets this one in again; submit the work anew"
    if reason.code in (ReasonCode.WAITS_FOR_CHECK, ReasonCode.CHECK_REJECTED):
        return f"a yes of its admission checks: {reason.message}"
    if reason.code is ReasonCode.WAITS_FOR_DEPENDENCY:
        return f"the end of what it comes after: {reason.message}"
    if not awaits_pods(workload):
        return advice_on(reason.code, reason.facts).owner or "what is said above"
    if reason.code is ReasonCode.NOT_ENOUGH_PODS:
        return f"the rest of its pods: {reason.message}"
    return f"room for the quota that it asks to be held: {reason.message}"


def _its_turn(what_if: WhatIf, now: WhatIfOutcome) -> ChangeBody:
    """Its turn: alone the workload would be admitted, or would get victims."""
    snapshot, claim = what_if.snapshot, what_if.snapshot.claims.get(what_if.workload.key)
    if claim is not None:
        leaving = [each for each in claim.victims if each in snapshot.admissions]
        text = "nothing to change: its place is free, and it starts in the next turn"
        if leaving:
            names = dict.fromkeys(_holder(snapshot, each) for each in leaving)
            text = f"when the pods of {listed([*names])} are gone"
        return _change(SuggestionKind.TURN, text, {"admissions": leaving})
    text = "it starts when its turn comes"
    text += "" if now.is_admitted else f", and {_victims_text(what_if, now)}"
    return _change(
        SuggestionKind.TURN, f"nothing to change: {text}", {"victims": _victim_count(what_if, now)}
    )


def _times(what_if: WhatIf) -> Iterator[ChangeBody]:
    """Moments that come by themselves; only the end of closures where it comes before a place would be cleared."""
    ending = _closure_end(what_if)
    if ending is not None:
        yield ending
    for cleared in _time(what_if):
        if ending is None or cleared.facts["seconds"] < ending.facts["seconds"]:
            yield cleared


def _closure_end(what_if: WhatIf) -> ChangeBody | None:
    """The first moment at which so many closures have ended that the workload gets a place, or victims."""
    snapshot = what_if.snapshot
    closing = [each for each in snapshot.closures if each.end is not None and each.closes_nodes(snapshot.now)]
    for at in sorted({each.end for each in closing if each.end is not None})[:_ENDS_TRIED]:
        left = tuple(each for each in snapshot.closures if each.end is None or each.end > at)
        outcome = what_if.outcome(closures=left)
        if outcome:
            names = [*dict.fromkeys(_closure_name(each) for each in closing if each.end == at)]
            text = f"at {rfc3339(at)}, when {listed(names)} end{'s' if len(names) == 1 else ''}"
            text += "" if outcome.is_admitted else f": then {_victims_text(what_if, outcome)}"
            facts = {"seconds": at - snapshot.now, "victims": _victim_count(what_if, outcome)}
            return _change(SuggestionKind.CLOSURE, text, facts)
    return None


def _closure_name(closure: NodeClosure) -> str:
    """Of a reservation not its name: it may be one of another tenant."""
    return "a reservation" if closure.kind is ClosureKind.RESERVATION else f"{closure.kind} {closure.name}"


def _time(what_if: WhatIf) -> Iterator[ChangeBody]:
    """The time after which the workload has waited long enough for a place to be cleared (``clearAfter``)."""
    workload, snapshot = what_if.workload, what_if.snapshot
    after_seconds = what_if.tree.policy(workload.queue).clear_after
    since = workload.waiting_since or workload.created
    if after_seconds is None or not since:
        return
    moment = since + after_seconds
    if moment <= snapshot.now:
        return
    outcome = what_if.outcome(now=moment)
    if outcome:
        seconds = moment - snapshot.now
        yield _change(
            SuggestionKind.TIME,
            f"in {duration(seconds)} it will have waited {span(after_seconds)}: "
            f"then {_victims_text(what_if, outcome)}",
            {"seconds": seconds, "victims": _victim_count(what_if, outcome)},
        )


def _endings(what_if: WhatIf) -> Iterator[ChangeBody]:
    """The fewest running workloads that would let the workload in by ending."""
    found = fewest_endings(what_if)
    if found is None:
        return
    snapshot = what_if.snapshot
    names = _holders(snapshot, found.admissions)
    holders = listed(names)
    at_most = _at_most(snapshot, found.admissions)
    text = f"{found.domain} when {holders} end" if found.domain else f"when {holders} end"
    text += "s" if len(names) == 1 and not holders.startswith(_ABOVE_MINIMUM) else ""
    yield _change(
        SuggestionKind.END,
        text + (f", at most {duration(at_most)}" if at_most is not None else ""),
        {"admissions": list(found.admissions), "domain": found.domain, "seconds": at_most},
    )


def _at_most(snapshot: Snapshot, ends: Sequence[AdmissionId]) -> int | None:
    """Seconds until all these workloads have run as long as they declared. None if one declared no run time."""
    last = max(time_left(snapshot, each) for each in ends)
    return None if last == FOREVER else last


def _less(what_if: WhatIf, refused: Reason) -> Iterator[ChangeBody]:
    """A smaller request: the topology level or the NVLink island preferred and not required, or as many pods as fit."""
    workload = what_if.workload
    required = sorted({pods.required_topology for pods in workload.pod_sets if pods.required_topology})
    in_an_island = any(pods.in_one_island for pods in workload.pod_sets)
    for levels, freed in ((required, _with_levels_preferred), ([NVLINK] * in_an_island, _without_island)):
        freer = tuple(map(freed, workload.pod_sets))
        if levels and what_if.outcome_of_workload(pod_sets=freer).is_admitted:
            message = f"{', '.join(levels)} preferred instead of required"
            yield _change(SuggestionKind.WORKLOAD, message, {"levels": levels})
    fit = reasons.room_left(refused, workload)
    if len(workload.pod_sets) == 1 and fit is not None and 0 < fit < workload.minimum:
        (pods,) = workload.pod_sets
        # The reason counts the pods that fit; a few more may fit in another flavor, for instance.
        for count in sorted({fit, *range(workload.minimum - 1, fit, -1)[:_LARGER_TRIED]}, reverse=True):
            fewer = (replace(pods, count=count, minimum=min(pods.minimum, count)),)
            outcome = what_if.outcome_of_workload(pod_sets=fewer, minimum=count)
            # What never fits is let in by less, even if that has to wait for its turn.
            waits = refused.code is ReasonCode.NEVER_FITS and _may_fit(outcome.reason)
            if outcome.is_admitted or waits:
                text = f"{counted(count, 'pod')} instead of {workload.minimum}"
                yield _change(
                    SuggestionKind.WORKLOAD,
                    text if outcome.is_admitted else f"{text}: they fit when there is room for them",
                    {"pods": count, "minimum": workload.minimum},
                )
                return


def _with_levels_preferred(pods: PodSet) -> PodSet:
    preferred = pods.required_topology or pods.preferred_topology
    return replace(pods, required_topology=None, preferred_topology=preferred)


def _without_island(pods: PodSet) -> PodSet:
    return replace(pods, in_one_island=False)


def _may_fit(reason: Reason | None) -> bool:
    return reason is None or reason.code is not ReasonCode.NEVER_FITS


def _priority(what_if: WhatIf, classes: Mapping[str, int]) -> Iterator[ChangeBody]:
    """The lowest priority class with which victims would be evicted for the workload."""
    workload = what_if.workload
    counted = what_if.tree.counted_priority(workload.queue, workload.priority)
    higher = sorted((priority, name) for name, priority in classes.items() if priority > counted)
    for priority, name in higher[:4]:
        outcome = what_if.outcome_of_workload(priority=priority)
        if outcome:
            yield _change(
                SuggestionKind.PRIORITY,
                f"priority class {name} ({priority} instead of {counted}): {_victims_text(what_if, outcome)}",
                {"priority": priority, "victims": _victim_count(what_if, outcome)},
            )
            return


def _preempting(what_if: WhatIf) -> Iterator[ChangeBody]:
    """A priority class that may preempt, where the present one says that nothing is evicted for the workload."""
    if what_if.workload.preempts:
        return
    outcome = what_if.outcome_of_workload(preempts=True)
    if outcome:
        yield _change(
            SuggestionKind.PRIORITY,
            f"a priority class without preemptionPolicy: Never: {_victims_text(what_if, outcome)}",
            {"victims": _victim_count(what_if, outcome)},
        )


def _deserved(what_if: WhatIf) -> Iterator[ChangeBody]:
    """More deserved quota for its queue, or for queues above as well, so that lent quota is reclaimed for it."""
    for raised in deserved_raised(what_if):
        if raised.outcome:
            yield _change(
                SuggestionKind.DESERVED,
                f"{raised.text}: {_victims_text(what_if, raised.outcome)}",
                {**raised.facts, "victims": _victim_count(what_if, raised.outcome)},
            )
            return


def _capability(raised: QuotaRaise, outcome: WhatIfOutcome) -> ChangeBody:
    """The raised limits, and the victims that the workload then gets."""
    text = f"{raised.text}: {_victims_text(raised.what_if, outcome)}" if outcome.victims else raised.text
    return _change(SuggestionKind.CAPABILITY, text, raised.facts)


def _holder(snapshot: Snapshot, id_: AdmissionId) -> str:
    admission = snapshot.admissions[id_]
    return f"{admission.workload.kind}/{admission.namespace}/{admission.name}"


def _holders(snapshot: Snapshot, ids: Sequence[AdmissionId]) -> list[str]:
    """The workloads that hold these admissions, each once; of an elastic gang without its minimum, its other pods."""
    names: dict[WorkloadKey, str] = {}
    for id_ in sorted(ids):
        names.setdefault(snapshot.admissions[id_].workload, _holder(snapshot, id_))
    oldest = {snapshot.admissions[id_].workload: id_ for id_ in sorted(snapshot.admissions, reverse=True)}
    return [name if oldest[key] in ids else f"{_ABOVE_MINIMUM} of {name}" for key, name in names.items()]


def _victim_count(what_if: WhatIf, outcome: WhatIfOutcome) -> int:
    """Workloads that lose pods."""
    return len({what_if.snapshot.admissions[each.admission].workload for each in outcome.victims})


def _victims_text(what_if: WhatIf, outcome: WhatIfOutcome) -> str:
    """The victims by queue: ``3 of tenant-b are evicted for it``. Each workload counts once."""
    if outcome.is_admitted:
        return "it goes in"
    found: dict[WorkloadKey, tuple[str, bool]] = {}
    for evict in outcome.victims:
        victim = what_if.snapshot.admissions[evict.admission]
        _, elastic = found.get(victim.workload, ("", True))
        found[victim.workload] = victim.queue, elastic and evict.elastic
    own = what_if.workload.queue
    text = []
    for (name, elastic), count in sorted(Counter(found.values()).items()):
        what = f"{_ABOVE_MINIMUM} of {count}" if elastic else str(count)
        text.append(f"{what} of {'its own queue' if name == own else name}")
    is_one = [elastic for _, elastic in found.values()] == [False]
    return f"{' and '.join(text)} {'is' if is_one else 'are'} evicted for it"
