"""What holds of the ring between any two steps: the world is what is stored and seen, the books add up."""

from copy import deepcopy
from dataclasses import fields, is_dataclass, replace
from typing import Any

from sqlalchemy import text

from admission.engine.decide import Memo, decide
from admission.facts.changes import Change
from admission.facts.pods import PodFact
from admission.workloads.seats import is_live
from admission.world.world import World
from queues.admissions import AdmissionState
from queues.api import names
from queues.plan import Plan
from queues.resources import GPU
from queues.sql.world import load_world
from queues.workload import AdmissionId
from tests.fakes.fake_objects import ENDED, gpus_of
from tests.laws.worlds.ring import Ring


async def equals_reloaded(ring: Ring) -> None:
    """The world equals one loaded afresh from the same database and the same facts."""
    now = ring.cluster.now
    kept = ring.world
    ring.refresh_world()
    fresh = await ring.loaded(
        [_as_seen_before(kept, change) for change in ring.cluster.watch.everything_known()]
    )
    # Only hints, and not stored.
    vars(fresh.seen_times).update(deepcopy(vars(kept.seen_times)))
    fresh.avoided_nodes._faulty = deepcopy(kept.avoided_nodes._faulty)
    fresh.larger_pods._known = dict(kept.larger_pods._known)
    fresh.refresh(now, ring.awaited)
    _remember_what_was_seen(kept, fresh)
    fresh.refresh(now, ring.awaited)
    news = kept.snapshot_is_stale
    mine, theirs = seen(kept, now), seen(fresh, now)
    for part, value in theirs.items():
        assert mine[part] == value, (
            f"{part} of the world, then as loaded afresh: {_differ(mine[part], value)}"
        )
    if kept.budgets.use is not None and not kept.budgets.may_differ:
        assert _hours(kept, now) == _hours(fresh, now)
    plan, anew = _plan(ring, kept, ring.cycle._decider.memo), _plan(ring, fresh, Memo())
    assert plan == anew
    assert news or now >= ring.cycle.next_look or not plan.changes_ledger(), (
        "there is news, and no turn for it"
    )
    kept.snapshot_is_stale = news


def _hours(world: World, now: int) -> dict[str, dict[str, tuple[int, int]]]:
    """What is used of budgets, and held."""
    used = {} if world.budgets.use is None else world.budgets.use.hours
    told = {
        queue: {resource: (each.until(now), each.held) for resource, each in hours.items()}
        for queue, hours in used.items()
    }
    return {
        queue: {resource: each for resource, each in hours.items() if any(each)}
        for queue, hours in told.items()
    }


def _remember_what_was_seen(kept: World, fresh: World) -> None:
    """Only a leader that has watched a workload knows since when something is so, and whether a Job lacked pods when it
    began to leave its seats."""
    for key, state in list(fresh.states.items()):
        if (before := kept.states.get(key)) is not None:
            seen = state.remembered.pods_seen or before.remembered.pods_seen
            remembered = before.remembered._replace(pods_seen=seen)
            fresh.states[key] = replace(state, remembered=remembered)
            fresh.mark_dirty(key)


def _as_seen_before(kept: World, change: Change) -> Change:
    """A pod as the kept world knows it where it cannot tell itself any more whether it ended before its deletion."""
    pod = change.fact
    if not isinstance(pod, PodFact) or pod.ended_first is not None:
        return change
    known = kept.pods.get(change.key)
    return change if known is None else replace(change, fact=replace(pod, ended_first=known.ended_first))


def _plan(ring: Ring, world: World, memo: Memo) -> Plan:
    return decide(world.freeze(ring.cluster.now), memo)[0]


def no_pod_beyond_its_seat(ring: Ring) -> None:
    """No pod that runs takes more than the seat that it was let go for, nor runs on another node."""
    for pod in ring.cluster.objects["pods"].values():
        said = pod["metadata"].get("annotations", {})
        node = pod["spec"].get("nodeName")
        admission = ring.world.admissions.get(AdmissionId(int(said.get(names.ADMISSION_ID, 0))))
        if admission is None or node is None or pod["status"]["phase"] in ENDED:
            continue
        named = said.get(names.SEAT)
        seats = [
            seat
            for seat in admission.seats
            if named in (None, f"{seat.pod_set}/{seat.ordinal}") and seat.node == node
        ]
        assert any(gpus_of(pod["spec"]) * 1000 <= seat.takes[GPU] for seat in seats), (pod, admission)


def nothing_runs_beyond_its_limit(ring: Ring, *, slack: int) -> None:
    """No admission is open longer than its queue's own ``access.maxRunTime``, and ``slack`` seconds for the turns."""
    for admission in ring.world.admissions.values():
        fact = ring.world.queues.get(admission.queue)
        if fact is None or fact.queue.max_run_time is None or admission.state is not AdmissionState.OPEN:
            continue
        held = ring.cluster.now - admission.opened_at
        assert held <= fact.queue.max_run_time + slack, f"{admission.name} runs beyond its limit: {held} s"


async def balances_equal_seats(ring: Ring) -> None:
    """The ledger's balances are exactly the sums over open seats, told by plain arithmetic."""
    async with ring.database.snapshot() as tx:
        rows = await load_world(tx)
        charged = await tx.execute(
            text("SELECT queue, resource, own FROM queue_balances WHERE flavor = '' AND own <> 0")
        )
        stored = {(queue, resource): own for queue, resource, own in charged}
        nodes = await tx.execute(text("SELECT node, resource, used FROM node_balances WHERE used <> 0"))
        on_nodes = {(node, resource): used for node, resource, used in nodes}
        posted = await tx.execute(
            text("SELECT debit, credit, resource, sum(amount) FROM muster_postings GROUP BY 1, 2, 3")
        )
        journal: dict[tuple[str, str], int] = {}
        for debit, credit, resource, amount in posted:
            journal[debit, resource] = journal.get((debit, resource), 0) + int(amount)
            journal[credit, resource] = journal.get((credit, resource), 0) - int(amount)
    own: dict[tuple[str, str], int] = {}
    placed: dict[tuple[str, str], int] = {}
    for admission in rows.admissions:
        for seat in admission.holding():
            for resource, units in seat.takes.items():
                own[admission.queue, resource] = own.get((admission.queue, resource), 0) + units
                placed[seat.node, resource] = placed.get((seat.node, resource), 0) + units
    assert {place: units for place, units in own.items() if units} == stored
    assert {place: units for place, units in placed.items() if units} == on_nodes
    queues = {
        (account.removeprefix("queue/"), resource): units
        for (account, resource), units in journal.items()
        if account != "pool" and units
    }
    assert queues == stored
    assert ring.world.admissions == {admission.id: admission for admission in rows.admissions}


async def deserved_is_stored(ring: Ring) -> None:
    """The database has what queues deserve with the loans that last, as decisions see it."""
    async with ring.database.snapshot() as tx:
        rows = await tx.execute(
            text("SELECT queue, deserved FROM queue_limits WHERE flavor = '' AND deserved IS NOT NULL")
        )
        stored = {row.queue: row.deserved for row in rows}
    counted = ring.world.queue_facts.counted()
    assert stored == {
        name: each.limits.deserved[GPU] for name, each in counted.items() if each.limits.deserved
    }


def seen(world: World, now: int) -> dict[str, Any]:
    """Everything of a world that a decision, an order or a status may depend on."""
    nodes = {
        *world.node_inventory.nodes,
        *(seat.node for a in world.admissions.values() for seat in a.holding()),
    }
    table = world.node_inventory.table()
    return {
        "ledger_seq": world.ledger.seq,
        "pods": world.pods,
        "facts": world.facts,
        "queues": world.queues,
        "queues with their loans": world.queue_facts.counted(),
        "admissions": world.admissions,
        "arrivals": world.ledger.arrivals,
        "outcomes": {key: value for key, value in world.volcano_jobs.outcomes.items() if value},
        "setbacks": world.ledger.setbacks,
        "last_evictions": world.ledger.last_evictions,
        "claims": world.ledger.claims,
        "holders": dict(world.snapshot_rows.holders.freeze()),
        "budgets": world.snapshot_rows.budgets.all(),
        "jobs": world.volcano_jobs.stored,
        "reasons": {key: (reason.code, reason.message) for key, reason in world.ledger.reasons.items()},
        "strays": {
            uid
            for uid, pod in world.pods.items()
            if is_live(pod)
            and pod.admission
            and world.admission_index.closed_on(world.pod_index.owner_of(uid), [pod])
        },
        "recreations": world.recreations.stored,
        "states": world.states,
        "workloads that have ended": world.queue_totals.ended,
        "pending": dict(world.snapshot_rows.pending.freeze()),
        "ended": world.snapshot_rows.ended,
        "evictable": world.snapshot_rows.evictable,
        "leaving": world.snapshot_rows.leaving,
        "started": set(world.snapshot_rows.started),
        "unbooked": world.snapshot_rows.unbooked,
        "room": {node: world.node_inventory.room(node) for node in nodes},
        "limit": {node: world.node_inventory.limit(node) for node in nodes},
        "table": {node: table[node] for node in world.node_inventory.nodes},
        "totals": (
            {queue: world.queue_totals.allocated(queue) for queue in world.queues},
            {each: count for each, count in world.queue_totals.workloads.items() if count},
        ),
        "past_use": dict(world.usage_history.freeze(now).rows),
    }


def _differ(mine: Any, theirs: Any) -> str:
    if is_dataclass(mine) and type(mine) is type(theirs):
        names = [each.name for each in fields(mine)]
        differ = [name for name in names if getattr(mine, name) != getattr(theirs, name)]
        return "\n".join(f"{name}: {_differ(getattr(mine, name), getattr(theirs, name))}" for name in differ)
    if not isinstance(mine, dict) or not isinstance(theirs, dict):
        return f"{mine!r}\n≠ {theirs!r}"
    keys = [key for key in {**mine, **theirs} if mine.get(key) != theirs.get(key)]
    return "\n".join(f"{key}: {_differ(mine.get(key), theirs.get(key))}" for key in keys)
