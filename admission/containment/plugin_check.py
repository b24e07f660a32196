"""Whether a plug-in keeps what the interface asks, tried on snapshots, and what is decided with it and without it."""

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from functools import partial
from time import process_time
from typing import Any, Final, NamedTuple

from admission.containment.child_process import in_child
from admission.engine.decide import decide
from admission.engine.memo import Memo, books_after
from admission.engine.snapshot import Snapshot
from admission.figures.quota_figures import quota_figures
from admission.replay import json_form
from queues.admissions import AdmissionState
from queues.errors import MusterError
from queues.plan import Plan
from queues.plugins import guard
from queues.plugins.built_in import DEFAULTS
from queues.plugins.guard import AskedPolicy, PluginFault
from queues.plugins.interface import PlacementNodes, PolicySort
from queues.plugins.registry import KnownPolicy
from queues.quota.accounts import charges
from queues.quota.queue import ROOT, Queue
from queues.quota.usage import Usage

#: Decisions about one snapshot: its turns, each decided twice.
DECISIONS: Final = 16
_TURNS: Final = DECISIONS // 2
#: Seconds from one turn to the next.
_SECONDS: Final = 60
#: Turns after which work ends that was admitted meanwhile; of what ran before, a part ends in each turn.
_RUNS: Final = 3
#: Pending workloads of a snapshot up to which all that a plug-in is given is compared: it takes long.
_MOST_WATCHED: Final = 1000


@dataclass(slots=True, kw_only=True)
class Figures:
    """What was decided in all turns that were tried. They can be added up."""

    decisions: int = 0
    admitted: int = 0
    evicted: int = 0
    #: Workloads that waited at the beginning, and at the end.
    workloads: int = 0
    waiting: int = 0
    #: Seconds for which workloads waited.
    waited: int = 0
    #: By how much the queue with the smallest share that waits is below what it deserves, as a part of that.
    below: float = 0.0
    #: Seconds of the processor.
    seconds: float = 0.0

    def add(self, other: "Figures") -> None:
        """Those of another snapshot."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


@dataclass(slots=True, kw_only=True)
class PluginCheck:
    """What a check found."""

    #: What the plug-in did that it may not, as a sentence; "": nothing.
    problem: str = ""
    with_it: Figures = field(default_factory=Figures)
    with_default: Figures = field(default_factory=Figures)


class Played(NamedTuple):
    """How the turns from one snapshot on went."""

    problem: str
    figures: Figures


def check_plugin(
    plugin: KnownPolicy, parameters: str, snapshots: Iterable[Snapshot], seconds: float
) -> PluginCheck:
    """Have every queue of these snapshots served by a plug-in, until one of them shows a problem.

    ``parameters``: its JSON, "" for none; ``seconds``: for one snapshot.
    """
    assert plugin.policy is not None
    sort, found = plugin.policy.sort, PluginCheck()
    for number, snapshot in enumerate(snapshots, start=1):
        served = _served(snapshot, sort, plugin.name, parameters)
        try:
            problem, figures = in_child(partial(_play, served, _problem), seconds)
        except PluginFault as fault:
            problem = f"it {fault.why}"
        except MusterError as error:
            problem = f"decisions fail with it: {error}"
        if problem:
            found.problem = f"snapshot {number}: {problem}"
            break
        found.with_it.add(figures)
        default = _served(snapshot, sort, DEFAULTS[sort].name, "")
        found.with_default.add(_play(default, lambda *_: "").figures)
    return found


def _served(snapshot: Snapshot, sort: PolicySort, name: str, parameters: str) -> Snapshot:
    queues = {each.name: _by(each, sort, name, parameters) for each in snapshot.queues.values()}
    return replace(snapshot, queues=queues, tree=None)


def _by(queue: Queue, sort: PolicySort, name: str, parameters: str) -> Queue:
    stated = name if queue.name == ROOT else None  # all others inherit it
    given = {**queue.plugin_parameters, **({name: parameters} if parameters else {})}
    match sort:
        case PolicySort.ORDER:
            changed = replace(queue, order=stated)
        case PolicySort.PLACEMENT:
            changed = replace(queue, placement=stated)
        case PolicySort.VICTIM_COST:
            changed = replace(queue, policy=replace(queue.policy, victim_cost=stated))
        case PolicySort.FLAVORS:
            changed = replace(queue, policy=replace(queue.policy, flavors_by=stated))
    return replace(changed, plugin_parameters=given, set_aside=())


class _Watch:
    """Sees to it that a plug-in leaves what it is given as it is. Arrays and labels of nodes cannot be written to."""

    def __init__(self) -> None:
        self._asked: AskedPolicy | None = None
        self._before: object = None

    def __call__(self, asked: AskedPolicy | None, given: tuple[Any, ...]) -> None:
        own = [each for each in given if not isinstance(each, PlacementNodes)]
        if asked is not None:
            self._asked, self._before = asked, deepcopy(own)
        elif self._asked is not None and own != self._before:
            raise self._asked.fault("changed what it was given")


def _decided_again(snapshot: Snapshot) -> tuple[Plan, Memo]:
    """With a look at what the plug-in is given, before and after, where that is not too much."""
    watch = [_Watch()] if len(snapshot.pending) <= _MOST_WATCHED else []
    guard.observers.extend(watch)
    try:
        return decide(snapshot, Memo())
    finally:
        for each in watch:
            guard.observers.remove(each)


def _play(snapshot: Snapshot, check: Callable[[Snapshot, Plan], str]) -> Played:
    """Turns from this snapshot on. The first problem of a plan ends them."""
    memo, figures, begun = Memo(), Figures(workloads=len(snapshot.pending)), snapshot.now
    for turn in range(_TURNS):
        began = process_time()
        plan, memo = decide(snapshot, memo)
        figures.seconds += process_time() - began
        if problem := check(snapshot, plan):
            return Played(f"in turn {turn + 1} {problem}", figures)
        figures.below += _below(memo, snapshot)
        after = snapshot.after(plan)
        figures.decisions += 1
        figures.admitted += len(plan.admits)
        figures.evicted += len(plan.evicts)
        figures.waited += _SECONDS * len(after.pending)
        snapshot = _later(after, plan, turn, begun)
    figures.waiting = len(snapshot.pending)
    return Played("", figures)


def _later(after: Snapshot, plan: Plan, turn: int, begun: int) -> Snapshot:
    """The next turn: pods of victims are gone, and some work has ended."""
    evicted = {each.admission for each in plan.evicts}
    over = {
        number
        for number, each in after.admissions.items()
        if (
            number % _TURNS == turn
            if each.opened_at < begun
            else each.opened_at + _RUNS * _SECONDS <= after.now
        )
    }
    ended = {number: frozenset(range(len(after.admissions[number].seats))) for number in evicted | over}
    return replace(after, now=after.now + _SECONDS, ended=ended)


def _below(memo: Memo, snapshot: Snapshot) -> float:
    books = books_after(None, memo)
    waiting = {each.queue for each in snapshot.pending.values()}
    return 0.0 if books is None else quota_figures(books.tree, books.used, books.deserved, waiting).below


# ── what holds for every policy ─────────────────────────────────────────────────────────────────────────────────


def _problem(snapshot: Snapshot, plan: Plan) -> str:
    """What is wrong with a plan; "": nothing."""
    again, memo = _decided_again(snapshot)
    if json_form.written(plan) != json_form.written(again):
        return "the plan is another one when it is decided again"
    assert memo.usage is not None, "a turn was decided"
    for each in memo.usage.tree.policies(ROOT).problems:
        return each.message
    after = snapshot.after(plan)
    return (
        _refusals(snapshot, plan)
        or _quota(memo.usage.copy(), snapshot, plan)
        or _gangs(snapshot, after, plan)
        or _nodes(snapshot, after)
    )


def _refusals(snapshot: Snapshot, plan: Plan) -> str:
    """Every workload is admitted or has a reason."""
    silent = snapshot.pending.keys() - {each.workload for each in plan.admits} - set(plan.reasons)
    return "" if plan.stopped or not silent else f"{len(silent)} workloads get neither seats nor a reason"


def _quota(usage: Usage, snapshot: Snapshot, plan: Plan) -> str:
    """No queue is brought above its capability. ``usage``: before the plan."""
    for free in plan.frees:
        admission = snapshot.admissions[free.admission]
        amounts = charges([admission.seats[index] for index in free.seats])
        usage.add(admission.queue, {account: -units for account, units in amounts.items()})
    for admit in plan.admits:
        amounts = charges(admit.seats)
        path = usage.tree.paths[admit.queue]
        before = {(name, account): usage.counted(name, account) for name in path for account in amounts}
        usage.add(admit.queue, amounts)
        for (name, account), counted in before.items():
            limit = usage.tree.capability(name, account)
            if limit is not None and usage.counted(name, account) > max(limit, counted):
                return f"queue {name} is brought above what it may use of {account}"
    return ""


def _gangs(snapshot: Snapshot, after: Snapshot, plan: Plan) -> str:
    """What is admitted has its minimum."""
    seats: dict[Any, int] = {}
    for admission in after.admissions.values():
        if admission.state is AdmissionState.OPEN:
            held = len(admission.holding())
            seats[admission.workload] = seats.get(admission.workload, 0) + held
    for admit in plan.admits:
        workload = snapshot.pending[admit.workload]
        done = sum(len(pods.done) for pods in workload.pod_sets)
        if seats.get(admit.workload, 0) + done < workload.minimum:
            return f"gang {workload} is admitted in part"
    return ""


def _nodes(before: Snapshot, after: Snapshot) -> str:
    used, had = after.nodes.used, before.nodes.used
    rows, columns = had.shape
    grown = used[:rows, :columns] > had
    above = grown & (used[:rows, :columns] > after.nodes.allocatable[:rows, :columns])
    return "a node is given more than it has" if above.any() else ""


def rows_of(name: str, found: PluginCheck) -> list[tuple[str, str, str]]:
    """The comparison as lines of a table, the first with its titles."""

    def row(title: str, text: Callable[[Figures], str]) -> tuple[str, str, str]:
        return title, text(found.with_it), text(found.with_default)

    def mean(total: float, count: int) -> float:
        return total / max(1, count)

    return [
        ("", name, "default"),
        row("decisions", lambda each: f"{each.decisions}"),
        row("admitted", lambda each: f"{each.admitted}"),
        row("evicted", lambda each: f"{each.evicted}"),
        row("waiting in the end", lambda each: f"{each.waiting} of {each.workloads}"),
        row("wait", lambda each: f"{mean(each.waited, each.workloads):.0f} s"),
        row("below deserved share", lambda each: f"{100 * mean(each.below, each.decisions):.1f} %"),
        row("time per decision", lambda each: f"{1000 * mean(each.seconds, each.decisions):.2f} ms"),
    ]
