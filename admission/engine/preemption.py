"""Who has to go so that somebody refused can come in: reclaim, priority inside a queue, clearing.

It takes two turns: evictions and a claim on the place now, the admission when the victims are gone. Everything
here is decided in the world as it will be when all that leaves is gone and every claim is used, so nobody is
evicted for a place that becomes free anyhow.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from admission.engine import gangs, reasons
from admission.engine.claims import Held, per_node
from admission.engine.gangs import Need
from admission.engine.plan import Admit, Claim, Evict, Reason
from admission.engine.rights import Rights, asks_of
from admission.engine.search import Search, Taken, cheapest_first, domains, sites, take_gains
from admission.engine.snapshot import Snapshot
from admission.engine.topology import Mask
from admission.engine.trial import Trial
from admission.engine.victims import Herd, Part, Unit, herd, is_device
from queues.ordering import Candidate
from queues.quota import Account
from queues.resources import Resources
from queues.usage import accounts, seats_by_flavor
from queues.workload import (
    NO_FLAVOR,
    AdmissionId,
    FlavorName,
    PodSet,
    QueueName,
    Seat,
    Workload,
    WorkloadKey,
)

#: A claim whose beneficiary is not in by then is given up.
CLAIM_SECONDS = 600

#: Among so many possible victims every order of taking them is gone through, if nothing better was found.
_FEW = 64

#: Refusals that room may help against.
_FOR_LACK_OF_ROOM = (reasons.Code.QUEUE_LIMIT, reasons.Code.NO_FIT, reasons.Code.TOPOLOGY_NO_FIT)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Refused:
    """Candidates of one queue and one shape that were refused together."""

    #: In the order in which they would be tried.
    members: Sequence[Candidate]
    #: What each of them lacks.
    need: Need
    reason: Reason


@dataclass(slots=True, eq=False)
class Room:
    """What a turn does for those it refused."""

    evicts: list[Evict] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    #: Better reasons for those who wait for victims now.
    reasons: dict[WorkloadKey, Reason] = field(default_factory=dict)
    #: The second from which on the answer may be another though nothing else changed: a protection or a claim
    #: ends, somebody has starved for long enough. For ``Memo.until``; None: never.
    until: int | None = None
    #: Possible victims as worked out now, for the next turn.
    parts: Mapping[AdmissionId, Part] = field(default_factory=dict)

    def no_later_than(self, second: int | None) -> None:
        """The answer may be another from that second on."""
        if second is not None:
            self.until = second if self.until is None else min(self.until, second)


def make_room(
    snapshot: Snapshot,
    refused: Sequence[Refused],
    held: Held,
    trial: Trial,
    known: Mapping[AdmissionId, Part] | None = None,
) -> Room:
    """Evictions and claims for refused classes, given in the order in which their heads were tried.

    ``trial`` is the world after everything else of the turn, with the space of all claims held; it is as before
    afterwards, but for claims that turn out to be of no use. ``known``: ``Room.parts`` of the turn before.
    """
    room = Room(parts=known or {})
    turn = _Turn(snapshot, held, trial, room)
    for each in refused:
        if each.need.complete or each.need.short or each.reason.code not in _FOR_LACK_OF_ROOM:
            continue
        turn.serve(each)
    room.no_later_than(held.until)
    return room


class _Turn:
    """The worlds of one turn, made when they are first needed."""

    def __init__(self, snapshot: Snapshot, held: Held, trial: Trial, room: Room) -> None:
        self.snapshot = snapshot
        self.held = held
        self.trial = trial
        self.room = room
        #: Admissions taken back in this turn so far.
        self.gone: set[AdmissionId] = set()
        self._later: Trial | None = None
        self._herd: Herd | None = None
        self._lowest: dict[QueueName, int] | None = None

    @property
    def later(self) -> Trial:
        """The world when all that leaves is gone, and every claim is used."""
        if self._later is None:
            self._later = self.held.emptied(self.trial)
        return self._later

    @property
    def herd(self) -> Herd:
        """Who may be taken back."""
        if self._herd is None:
            self._herd = herd(self.snapshot, self.trial.tree, self.room.parts)
            self.room.parts = self._herd.parts
            self.room.no_later_than(self._herd.until)
        return self._herd

    @property
    def lowest(self) -> Mapping[QueueName, int]:
        """The lowest priority that holds anything, by queue: the quick answer while there is no herd."""
        if self._lowest is None:
            self._lowest = {}
            for admission in self.snapshot.admissions.values():
                known = self._lowest.get(admission.queue, admission.priority)
                self._lowest[admission.queue] = min(known, admission.priority)
        return self._lowest

    def hopeless(self, rights: Rights) -> bool:
        """Whether the queues and priorities alone tell that nobody may be taken back."""
        own = rights.workload.queue
        if (
            rights.starved
            or rights.could_take_equal()
            or self.lowest.get(own, rights.workload.priority) < (rights.workload.priority)
        ):
            return False
        return not any(rights.could_take_of(each, of_own=False) for each in self.lowest if each != own)

    def serve(self, refused: Refused) -> None:
        """Make room for as many of a class as there are victims for."""
        attempts: list[_Attempt] | None = None
        for candidate in refused.members:
            workload = candidate.workload
            claim = self.held.keys.get(workload.key)
            if claim is not None:
                if waits := self.held.waits_for(claim):
                    self.room.reasons[workload.key] = reasons.making_room(
                        pods=sum(len(self.held.leaving[number][1]) for number in waits),
                        names=[self._name(number) for number in waits],
                    )
                    continue
                self._give_up(claim)
            if attempts is None:
                attempts = _attempts(self, refused)
            if not any(attempt.serve(workload) for attempt in attempts):
                break

    def _name(self, number: AdmissionId) -> str:
        admission = self.snapshot.admissions[number]
        return f"{admission.workload.kind}/{admission.namespace}/{admission.name}"

    def _give_up(self, claim: Claim) -> None:
        """All of it is free and the beneficiary does not fit: the place is not what it was."""
        if self._later is not None:
            self._later.give_back(claim.queue, accounts(seats_by_flavor(claim.seats)), claim.seats)
        self.held.drop(claim.workload, self.trial)


def _attempts(turn: _Turn, refused: Refused) -> "list[_Attempt]":
    """One for each flavor of the queue, in its order; none if nobody could go."""
    workload = refused.members[0].workload
    if not turn.snapshot.holders:
        return []
    need = replace(refused.need, missing=refused.need.least)
    pods = max(
        (pods for pods in workload.pod_sets if pods.name in need.least),
        key=lambda pods: (
            pods.required_topology is not None,
            asks_of(workload, {pods.name: need.least[pods.name]}),
            pods.name,
        ),
    )
    layout = turn.trial.layout
    attempts = []
    for flavor in turn.trial.tree.flavors(workload.queue) or (NO_FLAVOR,):
        mask = layout.allowed(pods.nodes)
        if flavor != NO_FLAVOR:
            mask = mask & layout.of_flavor(flavor)
        asked = accounts({flavor: gangs.takes_of(workload, need.least)})
        attempt = _Attempt(
            turn=turn,
            need=need,
            pods=pods,
            count=len(need.least[pods.name]),
            mask=mask,
            asked=asked,
            contested=_contested(turn.later, workload, pods, len(need.least[pods.name]), mask, asked),
            size=asks_of(workload, need.least),
        )
        attempt.units = attempt.possible(workload)
        if attempt.units:
            attempts.append(attempt)
    return attempts


def _contested(
    later: Trial, workload: Workload, pods: PodSet, count: int, mask: Mask, asked: Mapping[Account, int]
) -> dict[Account, int]:
    """What of that which is asked is limited or scarce; all devices if it cannot be told."""
    asked = {account: units for account, units in asked.items() if units > 0}
    scarce = {
        resource
        for resource in pods.takes
        if _fit(later, Resources({resource: pods.takes[resource]}), pods, mask) < count
    }
    found = {
        account: units
        for account, units in asked.items()
        if account.resource in scarce or later.usage.refusal(workload.queue, {account: units}) is not None
    }
    if found:
        return found
    devices = {account: units for account, units in asked.items() if is_device(account.resource)}
    return devices or asked


def _fit(later: Trial, takes: Resources, pods: PodSet, mask: Mask) -> int:
    """Pods of these requests that have room now, in the best domain if there has to be one."""
    room = later.room(takes, mask)
    found = later.layout.chain(pods.required_topology) if pods.required_topology is not None else None
    if found is None:
        return int(room.sum())
    return int(found[0][found[1]].sums(room).max(initial=0))


@dataclass(slots=True, eq=False)
class _Attempt:
    """The search for one class, equal shapes in one queue, in one flavor."""

    turn: _Turn
    need: Need
    #: The pod set that is hardest to place, how many of it, and where they may go.
    pods: PodSet
    count: int
    mask: Mask
    asked: dict[Account, int]
    contested: dict[Account, int]
    size: int
    #: Possible victims that hold something of what is contested, in their order.
    units: list[Unit] = field(default_factory=list)
    #: Of the quick way: those before were looked at and will not do.
    looked: int = 0
    _charges: dict[FlavorName, dict[Account, int]] = field(default_factory=dict)

    def rights(self, workload: Workload, *, strict: bool) -> Rights:
        """What the workload may do."""
        snapshot, tree = self.turn.snapshot, self.turn.trial.tree
        clear_after = tree.policy(workload.queue).clear_after
        starved = False
        if clear_after is not None and sum(len(each) for each in self.need.least.values()) > 1:
            due = (workload.waiting_since or workload.created) + clear_after
            starved = due <= snapshot.now
            if not starved:
                self.turn.room.no_later_than(due)
        return Rights(
            workload=workload,
            usage=self.turn.later.usage,
            asked=self.contested,
            size=self.size,
            starved=starved,
            strict=strict,
        )

    def possible(self, workload: Workload) -> list[Unit]:
        """Units of queues from which anything could be taken at all."""
        rights = self.rights(workload, strict=False)
        chosen: list[Unit] = []
        holds: dict[int, bool] = {}  # books are shared by all of a shape
        if self.turn.hopeless(rights):
            return []
        of_queue = self.turn.herd.of_queue
        of_own = rights.could_take_own(of_queue.get(workload.queue, ()))
        for queue, units in sorted(of_queue.items()):
            if not rights.could_take_of(queue, of_own=of_own) or (queue == workload.queue and not of_own):
                continue
            for unit in units:
                for part in unit.parts:
                    helps = holds.get(id(part.books))
                    if helps is None:
                        helps = holds[id(part.books)] = any(part.books.get(each) for each in self.contested)
                    if helps:
                        chosen.append(unit)
                        break
        chosen.sort(key=lambda unit: unit.order)
        return chosen

    def serve(self, workload: Workload) -> bool:
        """Make room for one. True: it has a claim now, or it fits when what leaves is gone."""
        if self._may_fit(workload) and isinstance(gangs.admit(workload, self.need, self.turn.later), Admit):
            # What it takes of that which is leaving is not offered to the next.
            return True
        if self._one_for_one(workload):
            return True
        for strict in (True, False):
            search = self._search(workload, strict=strict)
            if self._choose(search):
                search.spare(self._needed)
                self._promise(workload, search.taken)
                return True
            search.put_all_back()
        return False

    def _search(self, workload: Workload, *, strict: bool) -> Search:
        rights = self.rights(workload, strict=strict)
        return Search(self.turn.later, self.turn.herd, rights, lambda: self._fits(workload), self.turn.gone)

    def _one_for_one(self, workload: Workload) -> bool:
        """The quick way for a single pod: the cheapest single victim whose node has room then."""
        if self.count > 1 or len(self.need.least) > 1 or self.need.beside or self.looked >= len(self.units):
            return False
        later, search = self.turn.later, self._search(workload, strict=True)
        request, position = later.request(self.pods.takes), later.layout.position
        for place in range(self.looked, len(self.units)):
            unit = self.units[place]
            if len(unit.parts) > 1 or len(unit.parts[0].seats) > 1:
                continue
            seat = unit.parts[0].seats[0]
            column = position.get(seat.node)
            if column is None or not self.mask[column]:
                continue
            fits = (later.free[:, column] + later.request(seat.takes) >= request).all()
            if fits and search.take(unit):
                if later.usage.refusal(workload.queue, self.asked) is None and self._promise(
                    workload, search.taken
                ):
                    self.looked = place + 1
                    return True
                search.put_all_back()
        # Whoever was passed over may do together with others, or for somebody more urgent: not looked at again here.
        self.looked = len(self.units)
        return False

    def _there(self, workload: Workload, column: int) -> tuple[Seat, ...] | None:
        """A seat on that node, taken; None: a limit stands against it, or the node has to be chosen with more care."""
        pods, later = self.pods, self.turn.later
        if pods.ports or pods.share is not None or pods.required_topology is not None:
            return None
        flavor = later.layout.flavors[column]
        charged = self._charges.get(flavor)
        if charged is None:
            charged = self._charges[flavor] = accounts({flavor: pods.takes})
        if later.usage.refusal(workload.queue, charged) is not None:
            return None
        later.take(np.array([column], np.intp), np.ones(1, np.int64), pods.takes, workload.queue, charged)
        later.keep()
        (ordinal,) = self.need.least[pods.name]
        node = later.layout.names[column]
        return (Seat(pod_set=pods.name, ordinal=ordinal, node=node, flavor=flavor, takes=pods.takes),)

    def _may_fit(self, workload: Workload) -> bool:
        """Quick answer: no limit stands against it, and enough pods have room somewhere."""
        later = self.turn.later
        if later.usage.refusal(workload.queue, self.asked) is not None:
            return False
        return int(later.room(self.pods.takes, self.mask).sum()) >= self.count

    def _fits(self, workload: Workload) -> bool:
        if not self._may_fit(workload):
            return False
        later = self.turn.later
        answer = gangs.admit(workload, self.need, later)
        if isinstance(answer, Reason):
            return False
        later.give_back(answer.queue, accounts(seats_by_flavor(answer.seats)), answer.seats)
        return True

    def _choose(self, search: Search) -> bool:
        later, units = search.trial, [unit for unit in self.units if not search.has(unit)]
        found = sites(later, self.pods, self.mask, self._allowed(search, units))
        for columns, free in domains(later, self.pods, self.count, found):
            gains = cheapest_first(columns, found)
            if take_gains(search, gains, self.count - free) and (
                search.fits() or self._for_quota(search, units)
            ):
                return True
            search.put_all_back()
        return len(units) <= _FEW and search.in_best_order(units)

    def _allowed(self, search: Search, units: Sequence[Unit]) -> list[Unit]:
        """Units that may be taken as things are, as far as queue, priority and size tell."""
        known: dict[tuple[QueueName, int, int], bool] = {}
        allowed = []
        own = search.rights.workload.queue
        for unit in units:
            kind = (unit.queue, unit.order[2], unit.size)
            verdict = known.get(kind)
            if verdict is None or unit.queue == own:
                verdict = known[kind] = search.rights.rule(unit) is not None
            if verdict:
                allowed.append(unit)
        return allowed

    def _for_quota(self, search: Search, units: Sequence[Unit]) -> bool:
        """There is room on nodes, perhaps, but a limit stands against it."""
        usage, queue = search.trial.usage, search.rights.workload.queue
        progress = True
        while progress and (hit := usage.refusal(queue, self.asked)) is not None:
            progress = False
            for unit in units:
                helps = hit.queue in usage.tree.paths[unit.queue] and unit.amount(hit.account) > 0
                if helps and search.take(unit):
                    progress = True
                    if (hit := usage.refusal(queue, self.asked)) is None:
                        break
        return search.fits()

    def _needed(self, taken: Taken) -> bool:
        """Quick answer for pods of one shape anywhere: with this victim back, too few have room."""
        later = self.turn.later
        if self.pods.required_topology is not None or len(self.need.least) > 1:
            return False
        request = later.request(self.pods.takes)
        rows = np.flatnonzero(request)
        if not len(rows):
            return False
        columns, takes = per_node([seat for part in taken.parts for seat in part.seats], later)
        room = later.room(self.pods.takes, self.mask)
        left = np.maximum(0, (later.free[np.ix_(rows, columns)] - takes[rows]) // request[rows, None]).min(
            axis=0
        )
        gone = (room[columns] - left * self.mask[columns]).sum()
        return int(room.sum() - gone) < self.count

    def _promise(
        self, workload: Workload, taken: Sequence[Taken], there: tuple[Seat, ...] | None = None
    ) -> bool:
        """Enter evictions and the claim; False, and nothing done: it does not fit."""
        turn, room = self.turn, self.turn.room
        if there is None:
            admit = gangs.admit(workload, self.need, turn.later)
            if isinstance(admit, Reason):
                return False
            there = admit.seats
        parts = [(part.admission.id, each) for each in taken for part in each.parts]
        for number, each in parts:
            message, facts = each.why
            room.evicts.append(
                Evict(
                    admission=number, code=each.rule, message=message, beneficiary=workload.key, facts=facts
                )
            )
        room.claims.append(
            Claim(
                workload=workload.key,
                queue=workload.queue,
                generation=workload.generation,
                seats=there,
                victims=tuple(sorted(number for number, _ in parts)),
                until=turn.snapshot.now + CLAIM_SECONDS,
            )
        )
        room.reasons[workload.key] = reasons.making_room(
            pods=sum(len(part.seats) for each in taken for part in each.parts),
            names=[str(each.unit.workload) for each in taken],
        )
        return True
