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
from admission.engine.claims import HeldClaims
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
from admission.engine.pending.screening import leaf_queues
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
from queues.reason_codes import ReasonCode
from queues.workload import QueueName, Workload, WorkloadKey

#: Refusals that hold for the class only, whatever the nodes have.
_OF_THE_CLASS = (ReasonCode.QUEUE_LIMIT, ReasonCode.RESERVED)


@dataclass(slots=True, eq=False)
class AdmissionRound:
    """Answers of a turn so far."""

    state: EngineState
    trial: Trial
    now: int
    admits: list[Admit] = field(default_factory=list)
    #: Beneficiaries of claims that were refused again.
    refused_beneficiaries: list[RefusedClass] = field(default_factory=list)
    #: Why classes were refused that were tried, in that order; and kinds.
    refusals: dict[WorkloadClass, Reason] = field(default_factory=dict)
    refused_placements: dict[PlacementClass, Reason] = field(default_factory=dict)
    #: What users have, with what was admitted; None: nobody was tried yet.
    users: UserShares | None = None
    #: Classes about which something else may have to be said than in the last turn.
    dirty_classes: dict[WorkloadClass, None] = field(default_factory=dict)
    #: Queues whose books are not what they were in the last turn, as far as known when the turn began.
    dirty_queues: set[QueueName] = field(default_factory=set)

    @property
    def pending(self) -> PendingWorkloads:
        """Everybody who waits."""
        assert self.state.pending is not None
        return self.state.pending

    def try_beneficiaries(self, beneficiaries: Iterable[PendingWorkload], held: HeldClaims) -> None:
        """Those for whom space was made come first, each with its own space."""
        order = sorted(beneficiaries, key=lambda each: _arrival(each.line_entry.workload))
        for entry in order:
            workload = entry.line_entry.workload
            held.release(workload.key, self.trial)
            answer = gangs.admit(workload, entry.wants.need, self.trial)
            if isinstance(answer, Admit):
                held.fulfil(workload.key)
                self.admits.append(answer)
                continue
            held.restore(workload.key, self.trial)
            self.pending.set_own_reason(workload.key, answer)
            self.refused_beneficiaries.append(
                RefusedClass(members=(entry.line_entry,), need=entry.wants.need, reason=answer)
            )

    def screen(self) -> None:
        """Find out who could go in at all."""
        desk, books = self.state, self.state.usage
        assert books is not None
        touched = self.dirty_queues = desk.dirty_queues | books.dirty_queues | self.trial.usage.dirty_queues
        books.dirty_queues.clear()
        desk.queue_keys.forget(touched)
        for batch in desk.tried_classes:
            if batch.class_queue.taken:
                batch.class_queue.taken, batch.answer = 0, None
                desk.parked.wake(batch)
        for batch in self.pending.dirty_classes:
            desk.parked.wake(batch)
        for batch in self.pending.drop_empty_classes():
            desk.class_answers.pop(batch, None)
            desk.parked.forget(batch)
        self.dirty_classes = dict.fromkeys(desk.tried_classes)
        self.dirty_classes |= self.pending.dirty_classes
        self.dirty_classes |= dict.fromkeys(desk.screening.update(self.pending, touched, self.trial))
        self.pending.dirty_classes.clear()

    def reserve(self, snapshot: Snapshot) -> Backfill:
        """What others stay off: a place in the near future, and quota."""
        told = bool(self.pending.starving.affecting_reservation or self.state.holders_with_run_time)
        batches, until = self.pending.starving.reservation_heads(self.pending.classes, self.now, told=told)
        heads = [
            LongestWaiting(each.longest_waiting(), each.wants.need, each.screened_out()) for each in batches
        ]
        backfill = Backfill.reserving_for(
            snapshot, heads, self.trial, self.state.open_admissions, ends_matter=told
        )
        backfill.revisit_at(until)
        return backfill

    def try_all(self, backfill: Backfill) -> None:
        """Try head after head, off the place that is reserved."""
        lined_up, out = self._lined_up()
        users = self.users = self.state.users.copy()
        line = Line(
            self.trial.usage,
            [batch.class_queue for batch in lined_up],
            self.now,
            users=users,
            keys=self.state.queue_keys,
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
            self.refusals[batch] = answer
            if answer.code in _OF_THE_CLASS:
                line.refused()
            else:
                self.refused_placements[batch.placement_class] = answer
                line.refuse_kind(batch.placement_class)
        for batch in lined_up:
            if batch.class_queue.taken:
                batch.answer = None
                self.state.parked.wake(batch)
        self.state.tried_classes = lined_up
        self.dirty_classes |= dict.fromkeys(lined_up)

    def _lined_up(self) -> tuple[list[WorkloadClass], list[object]]:
        """Classes that are tried; and those of strict queues that only hold up the others."""
        lined_up: list[WorkloadClass] = []
        strict: dict[QueueName, None] = {}
        for kind in self.pending.placement_classes.values():
            if kind.reason is None:
                for batch in kind.open_classes:
                    if self._is_strict(batch.queue):
                        strict[batch.queue] = None
                    else:
                        lined_up.append(batch)
        out: list[object] = []
        for queue in strict:
            classes = self._in_strict_order(queue)
            if classes[0].screened_out() is None:
                lined_up += classes
                out += [batch.class_queue for batch in classes if batch.screened_out() is not None]
        return lined_up, out

    def _is_strict(self, queue: QueueName) -> bool:
        return self.pending.is_strict(queue)

    def _in_strict_order(self, queue: QueueName) -> list[WorkloadClass]:
        """Classes of a strict queue of which somebody still waits, by their heads."""
        classes = [
            batch
            for batch in self.pending.classes.get(queue, {}).values()
            if batch.blocked is None and batch.waits
        ]
        return sorted(classes, key=lambda batch: batch.class_queue.first())

    def reasons(self, better: Mapping[WorkloadKey, Reason]) -> ClassAnswers:
        """Why everybody waits who was not admitted. ``better``: reasons of some that are to be told instead."""
        verdicts = self.state.class_answers
        self._judge()
        singles: Mapping[WorkloadKey, Reason] = self.pending.share_own_reasons()
        overlap = 0
        if better:
            overlap = sum(self.pending.is_in_class(key) for key in better)
            singles = {**singles, **better}
        return ClassAnswers(dict[Any, ClassAnswer](verdicts), singles, overlap)

    def _judge(self) -> None:
        strict: set[QueueName] = set()
        verdicts = self.state.class_answers
        for batch in self.dirty_classes:
            if not batch.waits:
                verdicts.pop(batch, None)
            if batch.blocked is None and self._is_strict(batch.queue):
                strict.add(batch.queue)  # also when its head has gone: others stand behind somebody else then
            elif batch.waits:
                verdicts[batch] = batch.answer_with(self._reason(batch))
        for queue in strict:
            classes = self._in_strict_order(queue)
            if not classes:
                continue
            first, *behind = classes
            verdicts[first] = first.answer_with(self._reason(first))
            reason = reasons.behind(queue, str(first.class_queue.head().workload))
            for batch in behind:
                known = batch.answer
                same = known is not None and known.reason == reason
                verdicts[batch] = known if same and known is not None else batch.answer_with(reason)
        self.dirty_classes = {}

    def _reason(self, batch: WorkloadClass) -> Reason:
        found = (
            batch.blocked
            or self.refusals.get(batch)
            or batch.screened_out()
            or self.refused_placements.get(batch.placement_class)
        )
        assert found is not None
        return found

    def refused_classes(self, prospects: PreemptionProspects) -> Iterator[RefusedClass]:
        """Who was refused now and may hope that somebody goes: beneficiaries of claims first."""
        self._judge()
        yield from self.refused_beneficiaries
        # Not before these were served: who gives a claim up makes room for others.
        parked = self.state.parked
        books = leaf_queues(self.pending, (self.dirty_queues | self.trial.usage.dirty_queues) - {ROOT})
        parked.wake_grown(books, prospects.free, self.now)
        parked.park(prospects, self.now)
        for batch in self._in_order(parked.awake):
            yield batch.as_refused()

    def refused_with_seats(self) -> Iterator[tuple[Workload, MissingMembers]]:
        """Those among the refused who hold seats already."""
        self._judge()
        for each in self.refused_beneficiaries:
            if each.need.seated_nodes:
                yield each.members[0].workload, each.need
        for batch in self._in_order(self.pending.seated_classes):
            yield batch.class_queue.head().workload, batch.wants.need

    def _in_order(self, batches: Iterable[WorkloadClass]) -> list[WorkloadClass]:
        """Those of these classes that were refused: tried ones as they were tried, the others by share.

        Who is held up in a strict queue was not asked.
        """
        refused = {batch: None for batch in batches if batch.blocked is None and batch.waits}
        if not refused:
            return []
        others = [
            batch
            for batch in refused
            if batch not in self.refusals
            and (not self._is_strict(batch.queue) or self._in_strict_order(batch.queue)[0] is batch)
        ]
        order = _Order(self.trial.usage, self.users or self.state.users, self.state.queue_keys)
        order.look_at(others)
        others.sort(key=order.place)
        return [batch for batch in self.refusals if batch in refused] + others


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
        tree, alike = self._usage.tree, batch.class_queue
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
