"""Whether a plug-in keeps what the interface asks, tried on snapshots, and what is decided with it and without it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.snapshot import Snapshot
from admission.replay import json_form
from queues.plan import Plan
from queues.plugins.built_in import DEFAULTS
from queues.plugins.guard import PluginFault
from queues.plugins.interface import PolicySort
from queues.plugins.registry import KnownPolicy
from queues.quota.queue import ROOT, Queue

#: Turns that a snapshot is played on, with what was decided.
_TURNS = 4


@dataclass(slots=True, kw_only=True)
class Figures:
    """What was decided in all turns that were tried."""

    decisions: int = 0
    admitted: int = 0
    evicted: int = 0
    waiting: int = 0
    seconds: float = 0.0


@dataclass(slots=True, kw_only=True)
class PluginCheck:
    """What a check found."""

    #: What the plug-in did that it may not, as sentences; empty: nothing.
    problems: list[str] = field(default_factory=list)
    with_it: Figures = field(default_factory=Figures)
    with_default: Figures = field(default_factory=Figures)


def check_plugin(
    plugin: KnownPolicy, parameters: str, snapshots: Iterable[Snapshot], clock: Callable[[], float]
) -> PluginCheck:
    """Have every queue of these snapshots served by a plug-in. ``parameters``: its JSON, "" for none; ``clock`` gives
    seconds.

    The plan must be the same when it is decided again, must not depend on the memo, and put no node above what it has.
    """
    assert plugin.policy is not None
    sort, found = plugin.policy.sort, PluginCheck()
    for number, snapshot in enumerate(snapshots, start=1):
        default = _served(snapshot, sort, DEFAULTS[sort].name, "")
        _play(default, found.with_default, clock)
        try:
            problem = _play(_served(snapshot, sort, plugin.name, parameters), found.with_it, clock)
        except PluginFault as fault:
            problem = fault.why
        if problem:
            found.problems.append(f"snapshot {number}: it {problem}")
            break
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


def _play(snapshot: Snapshot, figures: Figures, clock: Callable[[], float]) -> str:
    """Turns from this snapshot on. Returns what is wrong with what was decided; "": nothing."""
    memo = Memo()
    for turn in range(_TURNS):
        began = clock()
        plan, memo = decide(snapshot, memo)
        figures.seconds += clock() - began
        figures.decisions += 1
        again, _ = decide(snapshot, Memo())
        if json_form.written(plan) != json_form.written(again):
            return f"is to blame for another plan in turn {turn + 1} when it is decided again"
        figures.admitted += len(plan.admits)
        figures.evicted += len(plan.evicts)
        after = snapshot.after(plan)
        if wrong := _above_its_nodes(snapshot, after):
            return wrong
        if not plan.changes_ledger():
            break
        snapshot = _later(after, plan)
    figures.waiting += len(snapshot.pending)
    return ""


def _later(after: Snapshot, plan: Plan) -> Snapshot:
    """The next turn: pods of victims are gone."""
    gone = {each.admission for each in plan.evicts}
    ended = {
        number: frozenset(range(len(each.seats)))
        for number, each in after.admissions.items()
        if number in gone
    }
    return replace(after, now=after.now + 60, ended=ended)


def _above_its_nodes(before: Snapshot, after: Snapshot) -> str:
    used, had = after.nodes.used, before.nodes.used
    rows, columns = had.shape
    grown = used[:rows, :columns] > had
    above = grown & (used[:rows, :columns] > after.nodes.allocatable[:rows, :columns])
    return "is to blame for more on a node than it has" if above.any() else ""
