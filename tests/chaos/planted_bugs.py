"""Planted bugs in the ring around ``decide``, for chaos runs to bring to light.

``plant`` replaces attributes in this process, which becomes a replica afterwards: every replica of a run has the bug.
A bug is one mistake that a programmer could make in one place. Guards in other places may save it for a while, so a
history shows it only where faults come at the right moment.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Final

from sqlalchemy import false, select, text, update

from admission import cycle, intake
from admission.apply import TurnPlan
from admission.facts.pods import PodFact
from admission.kube.watch.informer import Informer
from admission.kube.writers import awaited_seats, release, status
from admission.kube.writers.awaited_seats import AwaitedSeats
from admission.kube.writers.recreate import RecreationWriter
from admission.kube.writers.release import ReleaseWriter
from admission.kube.writers.work_queue import WorkQueue
from admission.reconcile import release as orders
from admission.reconcile.release import Order, Verb
from admission.reconcile.status import WorkloadStatus
from admission.workloads import ended_seats, job_counts
from admission.workloads.kinds import support_of
from admission.workloads.seats import may_be_seated
from admission.world import world as worlds
from admission.world.volcano_jobs import VolcanoJobs
from queues import kind_names
from queues.admissions import AdmissionState
from queues.api.types.podgroup import PodGroupPhase
from queues.errors import DatabaseError, OutcomeUnknown
from queues.sql import database, leadership, ledger
from queues.sql.leadership import LedgerTransaction
from queues.sql.observed import workloads as observed
from queues.sql.statements import KEYS
from queues.sql.tables import fences, leases


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """One mistake."""

    #: As a sentence.
    about: str
    #: The part of the ring that it is in.
    part: str
    plant: Callable[[], None]
    #: Nothing goes on any more: that the run does not come to rest is what it is found by.
    stops: bool = False


def _set(owner: Any, name: str, wrong: Any) -> None:
    """Raises AttributeError for a name that is no more."""
    getattr(owner, name)
    setattr(owner, name, wrong)


# ── apply ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _apply_again() -> None:
    right = cycle.apply

    async def apply(database: Any, term: Any, turn: TurnPlan, *others: Any) -> Any:
        try:
            return await right(database, term, turn, *others)
        except OutcomeUnknown:
            async with database.transaction() as tx:
                seq = await tx.scalar(select(fences.c.ledger_seq))
            return await right(
                database, term, replace(turn, plan=replace(turn.plan, ledger_seq=seq)), *others
            )

    _set(cycle, "apply", apply)


def _no_fence() -> None:
    async def fence(tx: Any, term: Any, *, ledger_seq: int, now: int) -> LedgerTransaction:
        seq = await tx.scalar(
            update(fences).values(ledger_seq=fences.c.ledger_seq + 1).returning(fences.c.ledger_seq)
        )
        return LedgerTransaction(term=term, seq=seq, now=now)

    _set(ledger, "fence", fence)


def _no_posting_for_parts() -> None:
    # The package has a table of this name.
    ledger_admissions = import_module("queues.sql.ledger.admissions")
    right = ledger_admissions.post

    async def post(tx: Any, transaction: Any, kind: str, moves: Any) -> None:
        async def is_closed(id_: int) -> bool:
            found = await tx.scalar(text("SELECT state FROM admissions WHERE id = :id"), {"id": id_})
            return found in (None, "closed")

        if kind == "free":
            moves = [move for move in moves if await is_closed(move[0])]
        await right(tx, transaction, kind, moves)

    _set(ledger_admissions, "post", post)


# ── intake and departures ───────────────────────────────────────────────────────────────────────────────────────


def _forgotten_after_failure() -> None:
    right = intake._Batches.store

    async def store(self: Any, rows: Any) -> None:
        batch = self.world.unsaved.only(rows)
        try:
            await right(self, rows)
        except DatabaseError:
            self.world.unsaved.discard(batch)
            raise

    _set(intake._Batches, "store", store)


def _no_outcomes() -> None:
    async def record(tx: Any, term: Any, rows: Any) -> None:
        await leadership.check_term(tx, term)

    _set(observed, "record_outcomes", record)


def _departs_at_once() -> None:
    right = worlds.derive_state

    def derive(inputs: Any, *others: Any) -> Any:
        gone = inputs.fact is None and inputs.key.kind != kind_names.POD
        return None if gone else right(inputs, *others)

    _set(worlds, "derive_state", derive)
    _set(observed, "_HOLDING", select(*KEYS.c).where(false()))


# ── leadership ──────────────────────────────────────────────────────────────────────────────────────────────────


def _renews_any_lease() -> None:
    async def renew(tx: Any, term: Any, lease_seconds: float = 0.0) -> Any:
        await tx.execute(update(leases).values(expires=leadership._end(lease_seconds)))
        return term

    _set(leadership, "renew", renew)


def _takes_lease_early() -> None:
    async def elect(tx: Any, name: str, lease_seconds: float = 0.0) -> Any:
        await tx.execute(
            update(leases)
            .where(
                leases.c.expires
                <= leadership.func.clock_timestamp() + leadership.func.make_interval(0, 0, 0, 0, 0, 0, 1)
            )
            .values(
                expires=leadership.func.clock_timestamp() - leadership.func.make_interval(0, 0, 0, 0, 0, 0, 1)
            )
        )
        return await right(tx, name, lease_seconds)

    right = leadership.elect
    _set(leadership, "elect", elect)


# ── seats and releases ──────────────────────────────────────────────────────────────────────────────────────────


def _nothing_awaited() -> None:
    _set(AwaitedSeats, "of", lambda self, key: {})


def _not_done_without_answer() -> None:
    _set(awaited_seats, "may_have_happened", lambda error: False)


def _admission_not_checked() -> None:
    right = AwaitedSeats.writes

    def writes(self: Any, key: Any) -> Any:
        return {subject: write for subject, write in right(self, key).items() if not write.is_undone()}

    _set(ReleaseWriter, "_holds", lambda self, seats: True)
    _set(ReleaseWriter, "_cancel_unwanted", lambda self, key, wanted: None)
    _set(AwaitedSeats, "writes", writes)


def _any_generation() -> None:
    right = orders.json_patch

    def json_patch(order: Order, *others: Any) -> Any:
        return None if order.verb is Verb.PATCH_JOB else right(order, *others)

    _set(release, "json_patch", json_patch)


def _member_without_seat() -> None:
    right = orders.orders_for

    def orders_for(state: Any, *others: Any) -> list[Order]:
        found = right(state, *others)
        if state.needs_seats and not state.seat_maps and support_of(state.key).is_group:
            found += [_ungated(pod) for pod in state.pods if may_be_seated(pod)][:1]
        return found

    _set(release, "orders_for", orders_for)


def _ungated(pod: PodFact) -> Order:
    body = {"metadata": {"uid": pod.uid}, "spec": {"schedulingGates": None}}
    return Order(
        verb=Verb.PATCH_POD, namespace=pod.namespace, name=pod.name, uid=pod.uid, intent="release", body=body
    )


def _evicted_at_once() -> None:
    right = ended_seats.seats_over

    def over(place: Any, **others: Any) -> frozenset[int]:
        if place.admission.state is AdmissionState.EVICTING:
            seats = frozenset(range(len(place.admission.seats)))
            return seats - place.admission.ended - others.get("awaited", frozenset())
        return right(place, **others)

    _set(ended_seats, "seats_over", over)


def _no_sync_goes_on() -> None:
    _set(job_counts, "may_make_pods", lambda *_: False)


def _gives_up() -> None:
    right = WorkQueue.back_off

    def back_off(self: Any, key: Any, **pause: Any) -> None:
        right(self, key, **pause)
        self.defer(key, 3600.0)

    _set(WorkQueue, "back_off", back_off)


# ── informers ───────────────────────────────────────────────────────────────────────────────────────────────────


def _gone_means_empty() -> None:
    right = Informer._list

    async def list_(self: Any) -> None:
        if not self.synced.is_set():
            await right(self)
            return
        page, _ = await self._page(1, None)
        shifts: list[Any] = []
        for place in self.collection.others(set()):
            self.collection.drop(place, shifts)
        self._hand_over(shifts)
        self.resource_version = page.metadata.resource_version

    _set(Informer, "_list", list_)


def _skips_to_now() -> None:
    right = Informer._watch

    async def watch(self: Any) -> None:
        if self.problem is not None:
            page, _ = await self._page(1, None)
            self.resource_version = page.metadata.resource_version
        await right(self)

    _set(Informer, "_watch", watch)


def _version_of_another_kind() -> None:
    right = Informer._watch
    newest: dict[str, int] = {"version": 0}

    def note(self: Any) -> None:
        if self.resource_version.isdigit():
            newest["version"] = max(newest["version"], int(self.resource_version))

    right_follow = Informer._follow

    def follow(self: Any, line: bytes, shifts: list[Any]) -> None:
        right_follow(self, line, shifts)
        note(self)

    async def watch(self: Any) -> None:
        note(self)
        self.resource_version = str(newest["version"])
        await right(self)

    _set(Informer, "_follow", follow)
    _set(Informer, "_watch", watch)


# ── pods that go ────────────────────────────────────────────────────────────────────────────────────────────────


def _not_made_again() -> None:
    right = RecreationWriter._void

    def void(self: Any, intent: Any, pod: Any) -> str:
        return "a user deleted it" if pod is None else right(self, intent, pod)

    _set(RecreationWriter, "_void", void)


def _finalizers_stay() -> None:
    right = VolcanoJobs.may_disappear

    def may_disappear(self: Any) -> list[PodFact]:
        return [pod for pod in right(self) if not pod.deleting]

    _set(VolcanoJobs, "may_disappear", may_disappear)


# ── statuses and containment ────────────────────────────────────────────────────────────────────────────────────


def _first_end_counts() -> None:
    right = WorkloadStatus.phase

    def phase(self: Any) -> PodGroupPhase:
        return PodGroupPhase.COMPLETED if self.ended else right(self)

    _set(WorkloadStatus, "phase", phase)


def _status_once() -> None:
    _set(status, "_AFTER_FAILURE", 86_400.0)


def _not_now_means_never() -> None:
    _set(database, "_NOT_NOW", ())
    _set(database, "_READ_ONLY", "-----")
    _set(database, "_REFUSED", (*database._REFUSED, "57014", "25006", "53"))


def _first_failure_ends_turns() -> None:
    def pause(self: Any, error: Any, *others: Any) -> Any:
        return asyncio.sleep(3600.0)

    from admission.term import LeaderTerm

    _set(LeaderTerm, "_pause", pause)


BUGS: Final[Mapping[str, PlantedBug]] = {
    "plan-applied-again": PlantedBug(
        "a plan is applied again, at the new sequence, when the outcome of its COMMIT is unknown",
        "apply",
        _apply_again,
        stops=True,
    ),
    "fence-not-checked": PlantedBug("a plan is applied whichever replica leads", "apply", _no_fence),
    "part-not-posted": PlantedBug("only what is freed last is posted", "apply", _no_posting_for_parts),
    "departed-with-seats": PlantedBug(
        "a workload departs with its object, with all that it holds", "departures", _departs_at_once
    ),
    "forgotten-after-failure": PlantedBug(
        "what could not be stored counts as stored", "intake", _forgotten_after_failure
    ),
    "outcomes-not-stored": PlantedBug("how pods ended is not stored", "intake", _no_outcomes),
    "any-lease-renewed": PlantedBug(
        "a leader renews the lease, whichever replica has it", "leadership", _renews_any_lease
    ),
    "lease-taken-early": PlantedBug(
        "a lease is taken a second before its end", "leadership", _takes_lease_early
    ),
    "nothing-awaited": PlantedBug("seats with a write under way count as free", "seats", _nothing_awaited),
    "no-answer-is-no": PlantedBug(
        "a write without an answer counts as not carried out", "seats", _not_done_without_answer
    ),
    "admission-not-checked": PlantedBug(
        "a release that is queued counts for nothing, and is sent whatever became of its admission",
        "release",
        _admission_not_checked,
    ),
    "any-generation": PlantedBug(
        "a Job is resumed whatever its spec says by then", "release", _any_generation
    ),
    "member-without-seat": PlantedBug(
        "a member is let go before its gang has seats", "release", _member_without_seat
    ),
    "evicted-at-once": PlantedBug(
        "the seats of a gang are given back as soon as it is evicted", "eviction", _evicted_at_once
    ),
    "no-sync-goes-on": PlantedBug(
        "a Job that is suspended counts as idle while a sync of its controller still makes pods",
        "eviction",
        _no_sync_goes_on,
    ),
    "gives-up": PlantedBug("what failed once is not written again", "retry", _gives_up),
    "gone-means-empty": PlantedBug("410 means that there are no objects", "informer", _gone_means_empty),
    "skips-to-now": PlantedBug(
        "a watch that broke goes on at the present version", "informer", _skips_to_now
    ),
    "version-of-another-kind": PlantedBug(
        "a watch goes on at the newest version of all kinds", "informer", _version_of_another_kind
    ),
    "not-made-again": PlantedBug(
        "every pod that is gone counts as deleted by a user", "recreation", _not_made_again
    ),
    "finalizers-stay": PlantedBug(
        "pods that are deleted keep their finalizer", "finalizers", _finalizers_stay, stops=True
    ),
    "end-told-early": PlantedBug("a group is completed with its first pod", "status", _first_end_counts),
    "status-once": PlantedBug("a status that could not be written stays as it was", "status", _status_once),
    "not-now-is-never": PlantedBug(
        "an error of Postgres that passes sets the workload aside", "containment", _not_now_means_never
    ),
    "turns-stop": PlantedBug(
        "a turn that was put off once is not made again", "retry", _first_failure_ends_turns, stops=True
    ),
}


#: Variable that names the bug of the replicas that are started.
VARIABLE: Final = "CHAOS_BUG"


def plant(name: str) -> None:
    """Plant a bug in this process. Raises KeyError: there is none of that name."""
    BUGS[name].plant()
