"""Space promised in earlier turns: held against all others until its beneficiary is admitted.

Space that victims still drain is not counted twice: a claim takes of a node only what its promised amounts exceed of
those that are draining there, and of its queue's limits likewise. When the last victim is gone it holds all of it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from admission.engine.nodes.closed_nodes import entry_of
from admission.engine.nodes.host_ports import NodePorts, ports_of
from admission.engine.nodes.table import Amounts
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Columns, Trial
from queues.admissions import AdmissionState, Claim, Seat
from queues.quota.accounts import Account, charges
from queues.quota.queue import ROOT
from queues.reason_codes import ReasonCode
from queues.workload import AdmissionId, QueueName, Workload, WorkloadKey

Book = Counter[Account]

#: Seconds for which a claim is kept beyond its time while pods of its victims are still ending: they have a grace
#: period, which may be long, to save their work in, and nothing else could have the place in that time anyway.
LONGEST_GRACE: Final = 3600


@dataclass(slots=True, eq=False)
class HeldClaims:
    """Claims that are still good; their space is taken in the trial unless it is released."""

    #: (R, N) amounts that are draining; and that claims promise, without those that are released.
    _draining: Amounts
    _promised: Amounts
    #: By beneficiary.
    claims: dict[WorkloadKey, Claim] = field(default_factory=dict)
    #: The last second of each claim.
    ends: dict[WorkloadKey, int] = field(default_factory=dict)
    #: Seats that admissions which are being evicted still hold.
    draining: dict[AdmissionId, tuple[Seat, ...]] = field(default_factory=dict)
    #: Host ports that claims promise; and those of draining pods.
    ports: dict[WorkloadKey, tuple[NodePorts, ...]] = field(default_factory=dict)
    draining_ports: list[NodePorts] = field(default_factory=list)
    #: Users of the beneficiaries.
    users: dict[WorkloadKey, str] = field(default_factory=dict)
    _dropped: set[WorkloadKey] = field(default_factory=set)
    _moved: dict[WorkloadKey, Claim] = field(default_factory=dict)
    #: Beneficiaries that are being tried.
    _released: set[WorkloadKey] = field(default_factory=set)
    _promised_books: dict[QueueName, Book] = field(default_factory=dict)
    _draining_books: dict[QueueName, Book] = field(default_factory=dict)
    #: The queue whose books each of these admissions is in.
    _drains_in: dict[AdmissionId, QueueName] = field(default_factory=dict)

    @property
    def dropped(self) -> tuple[WorkloadKey, ...]:
        """Beneficiaries of claims that end in this turn: used, or no longer good. For ``Plan.dropped``."""
        return tuple(sorted(self._dropped))

    @property
    def until(self) -> int | None:
        """The second after which the first of the claims is no longer good; None if there are no claims."""
        return min((self.ends[key] + 1 for key in self.claims), default=None)

    def release(self, key: WorkloadKey, trial: Trial) -> None:
        """Give a beneficiary its space, before it is tried. Without a claim nothing happens."""
        if key in self.claims and key not in self._released:
            self._released.add(key)
            self._promise(self.claims[key], -1, trial)

    def restore(self, key: WorkloadKey, trial: Trial) -> None:
        """The beneficiary was refused again: its space is held further, but quota alone is of no use to it."""
        if key not in self._released:
            return
        if self.claims[key].is_quota_only:
            self.fulfil(key)  # its pods are there: from now on it waits like others
            return
        self._released.remove(key)
        self._promise(self.claims[key], 1, trial)

    def fulfil(self, key: WorkloadKey) -> None:
        """The beneficiary was admitted, after ``release``: its claim ends."""
        if key in self._released:
            self._released.remove(key)
            self._dropped.add(key)
            del self.claims[key]

    def move(self, key: WorkloadKey, seats: tuple[Seat, ...], trial: Trial) -> None:
        """Hold other space for a beneficiary from now on, after ``release``."""
        self._released.remove(key)
        self.claims[key] = self._moved[key] = replace(self.claims[key], seats=seats)
        self._promise(self.claims[key], 1, trial)

    def sharing_victims(self, key: WorkloadKey) -> list[WorkloadKey]:
        """Beneficiaries of other claims on the place of the same victims, which are still ending."""
        ending = self.draining.keys() & self.claims[key].victims
        return [
            other
            for other, claim in self.claims.items()
            if other != key and not ending.isdisjoint(claim.victims)
        ]

    @property
    def moved(self) -> tuple[Claim, ...]:
        """Claims that hold other space than before this turn. For ``Plan.claims``."""
        return tuple(claim for key, claim in self._moved.items() if self.claims.get(key) is claim)

    def drop(self, key: WorkloadKey, trial: Trial) -> None:
        """End a claim that is of no use, and give its space back."""
        self.release(key, trial)
        self.fulfil(key)

    def withheld(self) -> Amounts:
        """(R, N) what claims hold of what is free; they promise also what is draining still."""
        withheld: Amounts = np.maximum(self._promised - self._draining, 0)
        return withheld

    def drop_if_broken(self, key: WorkloadKey, trial: Trial) -> None:
        """End a claim if others have taken so much of it that its nodes have less than it promises."""
        columns, _ = amounts_per_node(self.claims[key].seats, trial)
        if (trial.free[:, columns] < 0).any():
            self.drop(key, trial)

    def after_draining(self, trial: Trial) -> Trial:
        """The world when all that drains is gone and every claim is used: a trial of its own."""
        later = trial.fork()
        if not (self.claims or self.draining):
            return later
        later.ports.vacate(self.draining_ports)
        more = np.maximum(self._promised - self._draining, 0) - self._promised + self._draining
        later.add_free(np.arange(more.shape[1]), more)
        for queue, book in self._promised_books.items():
            drains = self._draining_books.get(queue, Counter())
            later.usage.add(
                queue, {each: units - max(units - drains[each], 0) for each, units in book.items()}
            )
        for queue, book in self._draining_books.items():
            later.usage.remove(queue, book)
        return later

    def after_leaving(self, trial: Trial, leaving: Mapping[AdmissionId, Sequence[Seat]]) -> Trial:
        """The nodes when these seats are free, and what claims hold then: a trial of its own.

        Only what claims hold changes in the books of queues. ``leaving``: of admissions that are being evicted, or not.
        """
        later, draining, books = trial.fork(), self._draining.copy(), dict[QueueName, Book]()
        for number, seats in leaving.items():
            columns, amounts = amounts_per_node(seats, trial)
            later.free[:, columns] += amounts
            if number in self.draining:
                draining[:, columns] -= amounts
                books.setdefault(self._drains_in[number], Counter()).update(charges(seats))
        if self.claims:
            promised = self._promised
            later.free += np.maximum(promised - self._draining, 0) - np.maximum(promised - draining, 0)
        for queue, book in books.items():
            promises, drains = self._promised_books.get(queue, Counter()), self._draining_books[queue]
            more = {
                each: max(units - drains[each] + book[each], 0) - max(units - drains[each], 0)
                for each, units in promises.items()
            }
            later.usage.add(queue, more)
        return later

    def _drain(self, number: AdmissionId, queue: QueueName, seats: tuple[Seat, ...], trial: Trial) -> None:
        """Enter what an admission still holds."""
        self.draining[number] = seats
        columns, amounts = amounts_per_node(seats, trial)
        self._draining[:, columns] += amounts
        known = self._drains_in[number] = queue if queue in trial.tree.paths else ROOT
        self._draining_books.setdefault(known, Counter()).update(charges(seats))

    def _promise(self, claim: Claim, sign: int, trial: Trial) -> None:
        """Enter a claim, or take it out: nodes and books change by what is held more or less."""
        ports = self.ports.get(claim.workload, ())
        (trial.ports.occupy if sign > 0 else trial.ports.vacate)(ports)
        columns, amounts = amounts_per_node(claim.seats, trial)
        if len(columns):
            promised, draining = self._promised[:, columns], self._draining[:, columns]
            after = promised + sign * amounts
            less = np.maximum(after - draining, 0) - np.maximum(promised - draining, 0)
            trial.add_free(columns, -less)
            trial.mark_dirty(columns)
            self._promised[:, columns] = after
        book = self._promised_books.setdefault(claim.queue, Counter())
        drained = self._draining_books.get(claim.queue, Counter())
        more: dict[Account, int] = {}
        for account, units in charges(claim.seats).items():
            beyond = book[account] - drained[account]
            book[account] += sign * units
            more[account] = max(beyond + sign * units, 0) - max(beyond, 0)
        trial.usage.add(claim.queue, more)
        trial.post_to_user(claim.queue, self.users[claim.workload], charges(claim.seats), sign)


def hold(snapshot: Snapshot, trial: Trial, evicting: Iterable[AdmissionId]) -> HeldClaims:
    """The claims of earlier turns that are still good, with their space taken in the trial.

    A claim is good while its beneficiary waits in the same queue and asks the same, its nodes exist and take pods,
    and its time is not over or its victims are still draining. To be called after the settlement, before any
    workload is tried. ``evicting``: all admissions in that state.
    """
    # np.zeros takes pages that are zero already; zeros_like would write to them in every turn.
    held = HeldClaims(np.zeros(trial.free.shape, np.int64), np.zeros(trial.free.shape, np.int64))
    if snapshot.claims:
        trial.withheld = held.withheld
    for number in sorted({*evicting, *snapshot.evictable}):
        admission = snapshot.admissions.get(number)
        if admission is None or not (seats := snapshot.still_held(admission)):
            continue
        held._drain(number, admission.queue, seats, trial)
        workload = snapshot.holders.get(admission.workload)
        held.draining_ports += ports_of(workload, seats) if workload is not None else ()
    for key, claim in sorted(snapshot.claims.items()):
        if _is_good(claim, snapshot, trial):
            held.claims[key], held.ends[key] = claim, _end(claim, snapshot)
            held.ports[key] = ports_of(snapshot.pending[key], claim.seats)
            held.users[key] = snapshot.pending[key].user
            held._promise(claim, 1, trial)
        elif not _is_over(claim, snapshot):
            held._dropped.add(key)
    return held


def _is_good(claim: Claim, snapshot: Snapshot, trial: Trial) -> bool:
    workload, tree = snapshot.pending.get(claim.workload), trial.tree
    if workload is None or workload.generation != claim.generation or workload.queue != claim.queue:
        return False
    if snapshot.now > _end(claim, snapshot) or not tree.usable(claim.queue):
        return False
    if not (_still_asked(claim, workload) if claim.is_quota_only else workload.obstacle is None):
        return False
    holds_seats = workload.key in snapshot.holders
    stops = [tree.paused, tree.closed, *(() if holds_seats else (tree.budget_spent,))]
    stops += () if holds_seats or workload.was_admitted else (tree.hold,)
    if any(stop(claim.queue) is not None for stop in stops):
        return False
    if tree.access_refusal(claim.queue, snapshot.labels_of(workload.namespace)) is not None:
        return False
    columns = [trial.layout.position.get(seat.node) for seat in claim.seats if not claim.is_quota_only]
    return all(
        column is not None and bool(trial.layout.usable[column]) for column in columns
    ) and not _is_closed_to(workload, columns, snapshot.now, trial)


def _is_closed_to(workload: Workload, columns: Iterable[int | None], now: int, trial: Trial) -> bool:
    """Whether a Reservation or NodeDrain closes one of the nodes to the workload."""
    closed = trial.layout.closed
    if not closed:
        return False
    enters = entry_of(workload, closed, trial.tree, now).names
    shut = [each.mask for each in closed if each.closure.id not in enters]
    return any(bool(mask[column]) for column in columns if column is not None for mask in shut)


def _still_asked(claim: Claim, workload: Workload) -> bool:
    """Whether quota is asked as it was given, by a gang that lacks nothing but pods, or nothing any more."""
    if workload.hold is None or any(seat.takes != workload.hold.takes for seat in claim.seats):
        return False
    return workload.obstacle is None or awaits_pods(workload)


def _is_over(claim: Claim, snapshot: Snapshot) -> bool:
    """Whether quota was held for a gang that has not got its pods in all the time: it is not held a second time."""
    workload = snapshot.pending.get(claim.workload)
    return (
        claim.is_quota_only
        and snapshot.now > claim.until
        and workload is not None
        and awaits_pods(workload)
        and _still_asked(claim, workload)
    )


def awaits_pods(workload: Workload) -> bool:
    """Whether a gang waits for nothing but pods of its own."""
    return workload.obstacle is not None and workload.obstacle.code == ReasonCode.NOT_ENOUGH_PODS


def _end(claim: Claim, snapshot: Snapshot) -> int:
    """The last second of a claim. In the turn in which the last victim is freed it has not passed."""
    victims = (snapshot.admissions.get(number) for number in claim.victims)
    draining = any(each is not None and each.state is AdmissionState.EVICTING for each in victims)
    return claim.until + (LONGEST_GRACE if draining else 0)


def amounts_per_node(seats: Sequence[Seat], trial: Trial) -> tuple[Columns, Amounts]:
    """The nodes of these seats, each once, and (R, n) what the seats take of them. Unknown nodes are left out."""
    sums: dict[int, Amounts] = {}
    for seat in seats:
        column = trial.layout.position.get(seat.node)
        if column is not None:
            before = sums.get(column)
            takes = trial.vector(seat.takes)
            sums[column] = takes if before is None else before + takes
    columns = np.array(list(sums), np.intp)
    if not len(columns):
        return columns, np.zeros((len(trial.free), 0), np.int64)
    return columns, np.stack(list(sums.values()), axis=1)
