"""Who goes in: the heads of queues are tried one after the other, and everybody else gets a reason.

Before anybody is tried, those who could not go in even alone are refused (``screen``); they are not in line. Of
the others, a head that is refused by the queue answers for its class, one that is refused by the nodes for its
kind in all queues. In a strict queue whoever is refused first holds up all behind.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from admission.engine import reasons
from admission.engine.backfill.reservation import Backfill, LongestWaiting
from admission.engine.claims import Held
from admission.engine.memo import EngineState
from admission.engine.pending.classes import (
    ClassAnswer,
    ClassAnswers,
    PendingWorkload,
    PlacementClass,
    RefusedClass,
    WorkloadClass,
)
from admission.engine.pending.pending import PendingWorkloads
from admission.engine.pending.screening import leaves
from admission.engine.placement import gangs
from admission.engine.placement.need import MissingMembers
from admission.engine.preemption.pruning import PreemptionProspects
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Trial
from queues.order.line import Line, QueueKeys, among_users
from queues.order.policies import counts_use
from queues.order.shares import UserShares
from queues.plan import Admit, Reason
from queues.quota.accounts import Account, charges
from queues.quota.queue import ROOT
from queues.quota.usage import Usage
from queues.workload import QueueName, Workload, WorkloadKey

#: Refusals that hold for the class only, whatever the nodes have.
_OF_THE_CLASS = (reasons.Code.QUEUE_LIMIT, reasons.Code.RESERVED)


@dataclass(slots=True, eq=False)
class AdmissionRound:
    """Answers of a turn so far."""

    desk: EngineState
    trial: Trial
    now: int
    admits: list[Admit] = field(default_factory=list)
    #: Beneficiaries of claims that were refused again.
    unhelped: list[RefusedClass] = field(default_factory=list)
    #: Why classes were refused that were tried, in that order; and kinds.
    answers: dict[WorkloadClass, Reason] = field(default_factory=dict)
    struck: dict[PlacementClass, Reason] = field(default_factory=dict)
    #: What users have, with what was admitted; None: nobody was tried yet.
    users: UserShares | None = None
    #: Classes about which something else may have to be said than in the last turn.
    news: dict[WorkloadClass, None] = field(default_factory=dict)
    #: Queues whose books are not what they were in the last turn, as far as known when the turn began.
    touched: set[QueueName] = field(default_factory=set)

    @property
    def waiting(self) -> PendingWorkloads:
        """Everybody who waits."""
        assert self.desk.waiting is not None
        return self.desk.waiting

    def try_beneficiaries(self, beneficiaries: Iterable[PendingWorkload], held: Held) -> None:
        """Those for whom space was made come first, each with its own space."""
        order = sorted(beneficiaries, key=lambda each: _arrival(each.candidate.workload))
        for entry in order:
            workload = entry.candidate.workload
            held.release(workload.key, self.trial)
            answer = gangs.admit(workload, entry.wants.need, self.trial)
            if isinstance(answer, Admit):
                held.used(workload.key)
                self.admits.append(answer)
                continue
            held.restore(workload.key, self.trial)
            self.waiting.say(workload.key, answer)
            self.unhelped.append(
                RefusedClass(members=(entry.candidate,), need=entry.wants.need, reason=answer)
            )

    def look(self) -> None:
        """Find out who could go in at all."""
        desk, books = self.desk, self.desk.usage
        assert books is not None
        touched = self.touched = desk.touched | books.touched | self.trial.usage.touched
        books.touched.clear()
        desk.keys.forget(touched)
        for batch in desk.tried:
            if batch.alike.taken:
                batch.alike.taken, batch.verdict = 0, None
                desk.parked.wake(batch)
        for batch in self.waiting.changed:
            desk.parked.wake(batch)
        for batch in self.waiting.sweep():
            desk.verdicts.pop(batch, None)
            desk.parked.forget(batch)
        self.news = dict.fromkeys(desk.tried)
        self.news |= self.waiting.changed
        self.news |= dict.fromkeys(desk.screen.look(self.waiting, touched, self.trial))
        self.waiting.changed.clear()

    def reserve(self, snapshot: Snapshot) -> Backfill:
        """What others stay off: a place in the near future, and quota."""
        told = bool(self.waiting.heads.telling or self.desk.telling)
        batches, until = self.waiting.heads.who(self.waiting.batches, self.now, told=told)
        heads = [
            LongestWaiting(each.waits_longest(), each.wants.need, each.refused_already()) for each in batches
        ]
        backfill = Backfill.around(snapshot, heads, self.trial, self.desk.possessions, told=told)
        backfill.no_later_than(until)
        return backfill

    def try_all(self, backfill: Backfill) -> None:
        """Try head after head, off the place that is reserved."""
        lined_up, out = self._lined_up()
        users = self.users = self.desk.users.copy()
        line = Line(
            self.trial.usage,
            [batch.alike for batch in lined_up],
            self.now,
            users=users,
            keys=self.desk.keys,
            struck=out,
        )
        while (alike := line.head()) is not None:
            batch: WorkloadClass = alike.about
            head = alike.head()
            answer = backfill.admit(head, batch.wants.need, self.trial)
            if isinstance(answer, Admit):
                self.admits.append(answer)
                if alike.user or counts_use(self.trial.tree, alike.queue):
                    users.add(alike.queue, alike.user, charges(answer.seats))
                line.admitted()
                continue
            self.answers[batch] = answer
            if answer.code in _OF_THE_CLASS:
                line.refused()
            else:
                self.struck[batch.kind] = answer
                line.refuse_kind(batch.kind)
        for batch in lined_up:
            if batch.alike.taken:
                batch.verdict = None
                self.desk.parked.wake(batch)
        self.desk.tried = lined_up
        self.news |= dict.fromkeys(lined_up)

    def _lined_up(self) -> tuple[list[WorkloadClass], list[object]]:
        """Classes that are tried; and those of strict queues that only hold up the others."""
        lined_up: list[WorkloadClass] = []
        strict: dict[QueueName, None] = {}
        for kind in self.waiting.kinds.values():
            if kind.reason is None:
                for batch in kind.open:
                    if self._is_strict(batch.queue):
                        strict[batch.queue] = None
                    else:
                        lined_up.append(batch)
        out: list[object] = []
        for queue in strict:
            classes = self._in_strict_order(queue)
            if classes[0].refused_already() is None:
                lined_up += classes
                out += [batch.alike for batch in classes if batch.refused_already() is not None]
        return lined_up, out

    def _is_strict(self, queue: QueueName) -> bool:
        return self.waiting.is_strict(queue)

    def _in_strict_order(self, queue: QueueName) -> list[WorkloadClass]:
        """Classes of a strict queue of which somebody still waits, by their heads."""
        classes = [
            batch
            for batch in self.waiting.batches.get(queue, {}).values()
            if batch.never is None and batch.waits
        ]
        return sorted(classes, key=lambda batch: batch.alike.first())

    def reasons(self, better: Mapping[WorkloadKey, Reason]) -> ClassAnswers:
        """Why everybody waits who was not admitted. ``better``: reasons of some that are to be told instead."""
        verdicts = self.desk.verdicts
        self._judge()
        singles: Mapping[WorkloadKey, Reason] = self.waiting.share_singles()
        overlap = 0
        if better:
            overlap = sum(self.waiting.is_in_class(key) for key in better)
            singles = {**singles, **better}
        return ClassAnswers(dict[Any, ClassAnswer](verdicts), singles, overlap)

    def _judge(self) -> None:
        strict: set[QueueName] = set()
        verdicts = self.desk.verdicts
        for batch in self.news:
            if not batch.waits:
                verdicts.pop(batch, None)
            if batch.never is None and self._is_strict(batch.queue):
                strict.add(batch.queue)  # also when its head has gone: others stand behind somebody else then
            elif batch.waits:
                verdicts[batch] = batch.judge(self._reason(batch))
        for queue in strict:
            classes = self._in_strict_order(queue)
            if not classes:
                continue
            first, *behind = classes
            verdicts[first] = first.judge(self._reason(first))
            reason = reasons.behind(queue, str(first.alike.head().workload))
            for batch in behind:
                known = batch.verdict
                same = known is not None and known.reason == reason
                verdicts[batch] = known if same and known is not None else batch.judge(reason)
        self.news = {}

    def _reason(self, batch: WorkloadClass) -> Reason:
        found = (
            batch.never or self.answers.get(batch) or batch.refused_already() or self.struck.get(batch.kind)
        )
        assert found is not None
        return found

    def refused(self, prospects: PreemptionProspects) -> Iterator[RefusedClass]:
        """Who was refused now and may hope that somebody goes: beneficiaries of claims first."""
        self._judge()
        yield from self.unhelped
        # Not before these were served: who gives a claim up makes room for others.
        parked = self.desk.parked
        books = leaves(self.waiting, (self.touched | self.trial.usage.touched) - {ROOT})
        parked.stir(books, prospects.free, self.now)
        parked.park(prospects, self.now)
        for batch in self._in_order(parked.awake):
            yield batch.refuse()

    def seated(self) -> Iterator[tuple[Workload, MissingMembers]]:
        """Those among the refused who hold seats already."""
        self._judge()
        for each in self.unhelped:
            if each.need.beside:
                yield each.members[0].workload, each.need
        for batch in self._in_order(self.waiting.seated):
            yield batch.alike.head().workload, batch.wants.need

    def _in_order(self, batches: Iterable[WorkloadClass]) -> list[WorkloadClass]:
        """Those of these classes that were refused: tried ones as they were tried, the others by share.

        Who is held up in a strict queue was not asked.
        """
        refused = {batch: None for batch in batches if batch.never is None and batch.waits}
        if not refused:
            return []
        others = [
            batch
            for batch in refused
            if batch not in self.answers
            and (not self._is_strict(batch.queue) or self._in_strict_order(batch.queue)[0] is batch)
        ]
        order = _Order(self.trial.usage, self.users or self.desk.users, self.desk.keys)
        order.look_at(others)
        others.sort(key=order.place)
        return [batch for batch in self.answers if batch in refused] + others


class _Order:
    """The order of the line, told for classes one by one: down the tree, then in the queue."""

    def __init__(self, usage: Usage, users: UserShares, keys: QueueKeys) -> None:
        self._usage = usage
        self._users = users
        self._keys = keys
        self._ordinals: dict[tuple[QueueName, tuple[Account, ...]], int] = {}

    def look_at(self, batches: Iterable[WorkloadClass]) -> None:
        """Put their queues in order."""
        every = dict.fromkeys((batch.queue, batch.wants.accounts) for batch in batches)
        in_order = sorted(((self._levels(each), each) for each in every), key=itemgetter(0))
        ordinal, before = 0, None
        for levels, each in in_order:
            # Whoever asks for other accounts in the same queue may be in the same place.
            ordinal += levels != before
            self._ordinals[each], before = ordinal, levels

    def place(self, batch: WorkloadClass) -> tuple[object, ...]:
        """Where a class comes."""
        tree, alike = self._usage.tree, batch.alike
        ordinal = self._ordinals[batch.queue, batch.wants.accounts]
        if counts_use(tree, batch.queue):
            return ordinal, among_users(tree, self._users, alike), alike.first()
        return ordinal, alike.first()

    def _levels(self, where: tuple[QueueName, tuple[Account, ...]]) -> list[object]:
        queue, asked = where
        return [
            each
            for name in self._usage.tree.paths[queue][-2::-1]
            for each in self._keys.level(self._usage, name, asked)
        ]


def _arrival(workload: Workload) -> tuple[int, WorkloadKey]:
    return workload.arrival, workload.key
