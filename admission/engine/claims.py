"""Space promised in earlier turns: held against everybody else until its beneficiary is placed anew.

What still drains is not counted twice: a claim takes of a node only what its promised amounts exceed of that
which is leaving there, and of its queue's books likewise. When the last victim is gone it holds all.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from admission.engine.nodes.host_ports import OnNode, ports_of
from admission.engine.nodes.table import Amounts
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Columns, Trial
from queues.admissions import AdmissionState, Claim, Seat
from queues.quota.accounts import Account, charges
from queues.quota.queue import ROOT
from queues.quota.tree import QueueTree
from queues.workload import AdmissionId, QueueName, WorkloadKey

Book = dict[Account, int]

#: Seconds for which a claim is kept beyond its time while pods of its victims are still ending: they have a grace
#: period, which may be long, to save their work in, and nobody else could have the place in that time anyway.
LONGEST_GRACE: Final = 3600


@dataclass(slots=True, eq=False)
class HeldClaims:
    """Claims that are still good; their space is taken in the trial unless it is released."""

    claims: dict[WorkloadKey, Claim] = field(default_factory=dict)
    #: Until which second they are.
    ends: dict[WorkloadKey, int] = field(default_factory=dict)
    #: Admissions that hold seats and are leaving, with those seats.
    draining: dict[AdmissionId, tuple[QueueName, tuple[Seat, ...]]] = field(default_factory=dict)
    _dropped: set[WorkloadKey] = field(default_factory=set)
    #: Claims whose beneficiary is being tried.
    _released: set[WorkloadKey] = field(default_factory=set)
    #: Host ports that claims promise, and those of pods that are leaving.
    ports: dict[WorkloadKey, tuple[OnNode, ...]] = field(default_factory=dict)
    draining_ports: list[OnNode] = field(default_factory=list)
    #: (R, N) promised by claims that are not released; (R, N) leaving.
    _promised: Amounts | None = None
    _draining: Amounts | None = None
    _promised_books: dict[QueueName, Book] = field(default_factory=dict)
    _draining_books: dict[QueueName, Book] = field(default_factory=dict)

    @property
    def keys(self) -> Mapping[WorkloadKey, Claim]:
        """Beneficiaries whose claims are good, with the claims."""
        return self.claims

    @property
    def dropped(self) -> tuple[WorkloadKey, ...]:
        """Beneficiaries whose claims end in this turn: used, or no longer good. For ``Plan.dropped``."""
        return tuple(sorted(self._dropped))

    @property
    def until(self) -> int | None:
        """The second after which the first of the claims is no longer good."""
        return min((self.ends[key] + 1 for key in self.claims), default=None)

    def remaining_victims(self, claim: Claim) -> tuple[AdmissionId, ...]:
        """Victims of a claim that are not gone."""
        return tuple(number for number in claim.victims if number in self.draining)

    def release(self, key: WorkloadKey, trial: Trial) -> None:
        """Give a beneficiary its space, before it is tried. Nothing happens to who has no claim."""
        if key in self.claims and key not in self._released:
            self._released.add(key)
            self._promise(self.claims[key], -1, trial)

    def restore(self, key: WorkloadKey, trial: Trial) -> None:
        """It was refused again: its space is held further."""
        if key in self._released:
            self._released.remove(key)
            self._promise(self.claims[key], 1, trial)

    def fulfil(self, key: WorkloadKey) -> None:
        """It was admitted, after ``release``: its claim ends."""
        if key in self._released:
            self._released.remove(key)
            self._dropped.add(key)
            del self.claims[key]

    def drop(self, key: WorkloadKey, trial: Trial) -> None:
        """A claim that is of no use: its space is given back."""
        self.release(key, trial)
        self.fulfil(key)

    def _promise(self, claim: Claim, sign: int, trial: Trial) -> None:
        """Enter a claim, or take it out: nodes and books change by what is held more or less."""
        assert self._promised is not None
        assert self._draining is not None
        ports = self.ports.get(claim.workload, ())
        (trial.ports.occupy if sign > 0 else trial.ports.vacate)(ports)
        columns, amounts = amounts_per_node(claim.seats, trial)
        if len(columns):
            promised, draining = self._promised[:, columns], self._draining[:, columns]
            after = promised + sign * amounts
            trial.free[:, columns] -= np.maximum(after - draining, 0) - np.maximum(promised - draining, 0)
            trial.mark_dirty(columns)
            self._promised[:, columns] = after
        book = self._promised_books.setdefault(claim.queue, {})
        leaving = self._draining_books.get(claim.queue, {})
        more: Book = {}
        for account, units in charges(claim.seats).items():
            before = book.get(account, 0)
            now = book[account] = before + sign * units
            drains = leaving.get(account, 0)
            more[account] = max(now - drains, 0) - max(before - drains, 0)
        trial.usage.add(claim.queue, more)

    def after_draining(self, trial: Trial) -> Trial:
        """The world when all that leaves is gone and every claim is used: a trial of its own."""
        later = trial.fork()
        later.ports.vacate(self.draining_ports)
        if self._promised is None or self._draining is None:
            return later
        later.free += np.maximum(self._promised - self._draining, 0) - self._promised + self._draining
        for queue, book in self._promised_books.items():
            drains = self._draining_books.get(queue, {})
            later.usage.add(
                queue, {each: units - max(units - drains.get(each, 0), 0) for each, units in book.items()}
            )
        for queue, book in self._draining_books.items():
            later.usage.remove(queue, book)
        return later


def hold(
    snapshot: Snapshot, trial: Trial, tree: QueueTree, evicting: Iterable[AdmissionId] | None = None
) -> HeldClaims:
    """The claims of earlier turns that are still good, with their space taken in the trial.

    A claim is good while its beneficiary waits in the same queue and asks the same, the nodes are there and take
    pods, and its time is not over or its victims are still leaving. Call it after the settlement, before anybody
    is tried. ``evicting``: all admissions in that state, if that is known.
    """
    held = HeldClaims()
    leaving_now = snapshot.evictable
    for number in snapshot.admissions if evicting is None else sorted({*evicting, *leaving_now}):
        admission = snapshot.admissions.get(number)
        if admission is not None and (admission.state is AdmissionState.EVICTING or number in leaving_now):
            seats = snapshot.still_held(admission)
            if seats:
                held.draining[number] = (admission.queue, seats)
                workload = snapshot.holders.get(admission.workload)
                held.draining_ports += ports_of(workload, seats) if workload is not None else ()
    if not (snapshot.claims or held.draining):
        return held
    held._promised = np.zeros_like(trial.free)
    held._draining = np.zeros_like(trial.free)
    for queue, seats in held.draining.values():
        columns, amounts = amounts_per_node(seats, trial)
        held._draining[:, columns] += amounts
        book = held._draining_books.setdefault(queue if queue in tree.paths else ROOT, {})
        for account, units in charges(seats).items():
            book[account] = book.get(account, 0) + units
    for key, claim in sorted(snapshot.claims.items()):
        if _good(claim, snapshot, trial, tree):
            held.claims[key], held.ends[key] = claim, _end(claim, snapshot)
            held.ports[key] = ports_of(snapshot.pending[key], claim.seats)
            held._promise(claim, 1, trial)
        else:
            held._dropped.add(key)
    return held


def _good(claim: Claim, snapshot: Snapshot, trial: Trial, tree: QueueTree) -> bool:
    workload = snapshot.pending.get(claim.workload)
    if workload is None or workload.generation != claim.generation or workload.queue != claim.queue:
        return False
    if snapshot.now > _end(claim, snapshot) or workload.obstacle is not None or not tree.usable(claim.queue):
        return False
    if tree.paused(claim.queue) is not None or tree.closed(claim.queue) is not None:
        return False
    layout = trial.layout
    columns = [layout.position.get(seat.node) for seat in claim.seats]
    return all(column is not None and bool(layout.usable[column]) for column in columns)


def _end(claim: Claim, snapshot: Snapshot) -> int:
    """The last second of a claim. In the turn in which the last victim is given back it has not passed."""
    victims = (snapshot.admissions.get(number) for number in claim.victims)
    leaving = any(each is not None and each.state is AdmissionState.EVICTING for each in victims)
    return claim.until + (LONGEST_GRACE if leaving else 0)


def amounts_per_node(seats: Sequence[Seat], trial: Trial) -> tuple[Columns, Amounts]:
    """The nodes of these seats, each once, and (R, n) what the seats take of them. Nodes that are gone are left out."""
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
