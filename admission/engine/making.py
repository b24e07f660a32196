"""The worlds of one turn of ``preemption``, made when they are first needed."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from admission.engine import gangs
from admission.engine.claims import Held
from admission.engine.gangs import Need
from admission.engine.plan import Claim, Evict, Reason
from admission.engine.roll import Roll
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Trial
from admission.engine.victims import Herd, Part, herd
from queues.quota import ROOT, Account
from queues.resources import Resources
from queues.usage import accounts, seats_by_flavor
from queues.workload import NO_FLAVOR, AdmissionId, NodeFilter, QueueName, Workload, WorkloadKey


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


@dataclass(frozen=True, slots=True)
class Failure:
    """Pods of one shape for which nobody could go."""

    queue: QueueName
    nodes: NodeFilter
    takes: Resources
    count: int
    priority: int
    #: Waited long, so that others may be brought below their shares.
    long: bool

    def asks_no_less_than(self, other: "Failure") -> bool:
        """Whether the other's failing tells that this one fails too."""
        return (
            self.nodes == other.nodes
            and self.count >= other.count
            and self.priority <= other.priority
            and self.long <= other.long
            and all(units <= self.takes.get(name) for name, units in other.takes.items())
        )


class Turn:
    """The worlds of one turn, made when they are first needed."""

    def __init__(self, snapshot: Snapshot, held: Held, trial: Trial, room: Room) -> None:
        self.snapshot = snapshot
        self.held = held
        self.trial = trial
        self.room = room
        #: Admissions taken back in this turn so far.
        self.gone: set[AdmissionId] = set()
        #: What classes ask, by what they lack: equal shapes share it.
        self._asked: dict[int, tuple[Need, Resources]] = {}
        self._later: Trial | None = None
        self._herd: Herd | None = None
        self._roll: Roll | None = None
        self._free: dict[str, int] | None = None
        #: For whom nobody could go, by queue.
        self.failures: dict[QueueName, list[Failure]] = {}
        self._lowest: dict[QueueName, int] | None = None

    def asked(self, workload: Workload, need: Need) -> Resources:
        """What the gang asks at the least."""
        known = self._asked.get(id(need))
        if known is None:
            known = self._asked[id(need)] = (need, gangs.takes_of(workload, need.least))
        return known[1]

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
    def roll(self) -> Roll:
        """The same as arrays."""
        if self._roll is None:
            self._roll = Roll(self.herd, self.trial)
        return self._roll

    def hopeless(self, workload: Workload, asked: Mapping[str, int], *, starved: bool) -> bool:
        """Whether the queues and priorities alone tell that nobody may be taken back, before anybody is looked at."""
        tree, usage, own = self.trial.tree, self.trial.usage, workload.queue
        policy = tree.policy(own)
        if starved or (policy.within_queue == "lower-or-newer-equal" and own in self.lowest):
            return False
        if policy.within_queue != "never" and self.lowest.get(own, workload.priority) < workload.priority:
            return False
        if policy.reclaim == "never":
            return True
        if policy.borrow_max_priority is not None:
            return False
        # Of what is scarce for certain somebody on its path must have room in its share.
        scarce = [
            (Account(NO_FLAVOR, resource), units)
            for resource, units in asked.items()
            if units > self.free.get(resource, 0)
        ]
        return bool(scarce) and not any(
            all(
                usage.used(name, account) + units <= tree.deserved(name, account) for account, units in scarce
            )
            for name in tree.paths[own]
            if name != ROOT
        )

    @property
    def free(self) -> Mapping[str, int]:
        """What is free on all nodes together."""
        if self._free is None:
            sums = self.trial.free.clip(min=0).sum(axis=1)
            self._free = dict(zip(self.trial.table.resources, sums.tolist(), strict=False))
        return self._free

    def in_vain(self, failure: "Failure") -> bool:
        """Whether somebody of the same queue and rights who asked no more got nothing in this turn."""
        return any(failure.asks_no_less_than(other) for other in self.failures.get(failure.queue, ()))

    @property
    def lowest(self) -> Mapping[QueueName, int]:
        """The lowest priority that holds anything, by queue."""
        if self._lowest is None:
            self._lowest = {}
            for admission in self.snapshot.admissions.values():
                known = self._lowest.get(admission.queue, admission.priority)
                self._lowest[admission.queue] = min(known, admission.priority)
        return self._lowest

    def name_of(self, number: AdmissionId) -> str:
        """Whose admission it is."""
        admission = self.snapshot.admissions[number]
        return f"{admission.workload.kind}/{admission.namespace}/{admission.name}"

    def give_up(self, claim: Claim) -> None:
        """All of it is free and the beneficiary does not fit: the place is not what it was."""
        if self._later is not None:
            books, ports = accounts(seats_by_flavor(claim.seats)), self.held.ports.get(claim.workload, ())
            self._later.give_back(claim.queue, books, claim.seats, ports)
        self.held.drop(claim.workload, self.trial)
