"""Which pending workloads are admitted: the heads of queues, one after the other; all others get a reason.

Before any head is tried, classes that could not be admitted even alone are refused (``pending.screening``) and stay
out of the line. A refusal by the queue holds for the head's class, a refusal by the nodes for its placement class in
all queues. In a strict queue the first refusal holds up everything behind it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from itertools import groupby
from typing import Any

import numpy as np

from admission.engine import reasons
from admission.engine.backfill.coming_room import LEAVING_SECONDS, ComingRoom
from admission.engine.backfill.reservation import Backfill, LongestWaiting
from admission.engine.claims import HeldClaims, amounts_per_node
from admission.engine.memo import EngineState
from admission.engine.nodes.table import Amounts
from admission.engine.pending.classes import (
    FOR_LACK_OF_ROOM,
    ClassAnswer,
    ClassAnswers,
    ClassRequest,
    PendingWorkload,
    PlacementClass,
    WorkloadClass,
)
from admission.engine.pending.pending import PendingWorkloads
from admission.engine.pending.screening import leaf_queues
from admission.engine.pending.waiting_time import arrival_order, soonest, waits_since
from admission.engine.placement import gangs
from admission.engine.placement.gangs import in_parts
from admission.engine.placement.need import MissingMembers
from admission.engine.plan_limit import PlanLimit
from admission.engine.preemption.pruning import PreemptionProspects
from admission.engine.quota_holds import hold_quota
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Columns, Trial
from queues.admissions import Claim, Seat
from queues.order.line import Line, among_users
from queues.order.policies import LineEntry, Rank, counts_use
from queues.order.shares import UserShares
from queues.parts import parts
from queues.plan import Admit, Reason
from queues.quota.accounts import Account, charges
from queues.quota.queue import ROOT
from queues.quota.usage import UserUse
from queues.reason_codes import ReasonCode
from queues.workload import AdmissionId, QueueName, Workload, WorkloadKey

#: Microseconds, roughly, that the classes of one queue may take in one turn to find no place where room is scattered.
#: Thousands of different ones in one queue would hold up all others.
_TRIED_TOGETHER = 500_000
#: Seconds after which others of them are tried.
_OTHERS_EVERY = 60

#: So many gangs below their minimum are tried before the line, and so many classes that are more urgent than the
#: beneficiary of a claim.
_COMPLETED_FIRST = 64
_URGENT_TRIED = 4

#: Queues whose classes that lack room are looked at, where some room comes back.
_QUEUES_LOOKED_AT = 16
#: Refusals that hold for the class only, whatever the nodes have.
_OF_THE_CLASS = (ReasonCode.QUEUE_LIMIT, ReasonCode.RESERVED, ReasonCode.USER_LIMIT)


@dataclass(slots=True, eq=False)
class AdmissionRound:
    """What a turn has admitted and refused so far."""

    state: EngineState
    trial: Trial
    now: int
    limit: PlanLimit
    admits: list[Admit] = field(default_factory=list)
    #: Gangs below their minimum, which are tried before the line, and more urgent work that a claim served: they are
    #: sorted again in the next turn.
    tried_apart: set[WorkloadKey] = field(default_factory=set)
    _kept_quota: list[tuple[QueueName, Mapping[Account, int], int]] = field(default_factory=list)
    _kept_places: list[tuple[Columns, Amounts]] = field(default_factory=list)
    #: Beneficiaries of claims, and gangs below their minimum, that were refused again.
    refused_beneficiaries: list[ClassAnswer] = field(default_factory=list)
    #: Why classes and placement classes were refused, in the order in which they were tried.
    refusals: dict[WorkloadClass, Reason] = field(default_factory=dict)
    refused_placements: dict[PlacementClass, Reason] = field(default_factory=dict)
    #: Use by user, with what was admitted in this turn; None if nothing was tried yet.
    users: UserShares | None = None
    #: Classes that may get another answer than in the last turn.
    dirty_classes: dict[WorkloadClass, None] = field(default_factory=dict)
    #: Classes that are not tried in this turn, because others of their queue take long enough.
    left_out: dict[WorkloadClass, None] = field(default_factory=dict)
    #: Room that comes back in pieces; None if none does, or if no workload waits for it.
    coming: ComingRoom | None = None
    #: Classes that lack room now and may fit then: they come to the head of the line all the same.
    hoping: dict[WorkloadClass, None] = field(default_factory=dict)
    #: The one of them for which it is kept together; None if there is none yet.
    kept_for: WorkloadClass | None = None
    #: The same while no workload is evicted for it, because it came only just now. None if all may have victims.
    evicts_nobody: WorkloadClass | None = None
    #: The second at which other classes are tried; None if all are tried now.
    until: int | None = None
    #: The reservations; none before ``reserve``.
    backfill: Backfill = field(init=False)

    @property
    def pending(self) -> PendingWorkloads:
        """All pending workloads."""
        return self.state.pending

    def complete_gangs(self, held: HeldClaims) -> None:
        """Gangs that run below their minimum come before all that is new, whatever the share of their queues.

        Those for which a place is being made are beneficiaries. What the others lack keeps, until the end of the round,
        the quota that it needs and what is free of its places: their nodes may come back, and be ready bit by bit. It
        ends with the time that a gang may be unready, when the gang goes back.
        """
        entries = [
            entry
            for each in self.pending.seated_classes
            if each.blocked is None and not each.request.need.complete
            for entry in each.class_queue.candidates
            if entry.workload.key not in held.claims
            and self._is_below_minimum(entry.workload, each.request.need)
        ]
        gangs_below = self.pending.take_out([each.workload.key for each in entries[:_COMPLETED_FIRST]])
        self.tried_apart.update(each.workload.key for each in gangs_below)
        for each in sorted(gangs_below, key=lambda each: arrival_order(each.workload)):
            if not self.limit.has_room():
                break
            if self._admitted(each):
                continue
            workload, minimum = each.workload, each.request.need.minimum
            asked = next(iter(each.request.minimum_charges), {})
            hit = self.trial.usage.refusal(workload.queue, asked)
            if not minimum or (hit is not None and hit.queue != ROOT):
                continue
            self._keep_quota(workload.queue, asked, 1)
            # A node that is away is not part of the cluster now: root has less than is kept.
            if hit is not None:
                self._keep_quota(ROOT, asked, -1)
            self._keep_places(self._lost_seats(workload, each.request.need))

    def _keep_quota(self, queue: QueueName, asked: Mapping[Account, int], times: int) -> None:
        self.trial.usage.add(queue, asked, times)
        self._kept_quota.append((queue, asked, times))

    def _lost_seats(self, workload: Workload, need: MissingMembers) -> list[Seat]:
        """The last seats of the members that a gang lacks for its minimum."""
        held = self.state.running.held_admissions
        lost: dict[tuple[str, int], Seat] = {}
        for number in self.state.open_admissions.of(workload.key):
            admission = held[number].admission
            for index in sorted(admission.ended):
                seat = admission.seats[index]
                if seat.ordinal in need.minimum.get(seat.pod_set, ()):
                    lost[seat.pod_set, seat.ordinal] = seat
        return list(lost.values())

    def _keep_places(self, seats: Sequence[Seat]) -> None:
        """Take what is free of these seats out of the trial."""
        columns, amounts = amounts_per_node(seats, self.trial)
        if len(columns):
            free = np.minimum(amounts, np.maximum(self.trial.free[:, columns], 0))
            self.trial.add_free(columns, -free)
            self.trial.mark_dirty(columns)
            self._kept_places.append((columns, free))
            of_claims, kept = self.trial.withheld, np.zeros_like(self.trial.free)
            kept[:, columns] = free
            self.trial.withheld = lambda: kept if of_claims is None else of_claims() + kept

    def _is_below_minimum(self, workload: Workload, need: MissingMembers) -> bool:
        """Whether a gang with seats has fewer than it was admitted with; one that asks for more now may have them."""
        held = self.state.running.held_admissions
        numbers = self.state.open_admissions.of(workload.key)
        admitted = max((held[number].admission.minimum for number in numbers), default=0)
        return not 0 < admitted < workload.gang_size() or admitted > sum(map(len, need.seated.values()))

    def return_kept_places(self) -> None:
        """Give back what was kept for gangs below their minimum."""
        for queue, asked, times in self._kept_quota:
            self.trial.usage.add(queue, asked, -times)
        for columns, free in self._kept_places:
            self.trial.add_free(columns, free)
            self.trial.mark_dirty(columns)
        self._kept_quota.clear()
        self._kept_places.clear()

    def try_beneficiaries(self, held: HeldClaims) -> None:
        """Beneficiaries of claims come next, each with the space that its claim holds.

        What is more urgent in their queue, and fits there, goes before them. One that never fits any more, since nodes
        or limits are others than they were, gives its claim up.
        """
        for key in self.pending.unfit(held.claims):
            held.drop(key, self.trial)
        beneficiaries = {each.workload.key: each for each in self.pending.take_out(held.claims)}
        for each in sorted(beneficiaries.values(), key=lambda each: arrival_order(each.workload)):
            workload = each.workload
            held.release(workload.key, self.trial)
            served = not held.claims[workload.key].is_quota_only and self._serve_more_urgent(workload)
            reason = self._tried(each)
            if reason is None or self._exchanged(each, beneficiaries, held):
                held.fulfil(workload.key)
            else:
                self._refuse(each, reason)
                held.restore(workload.key, self.trial)
                if served:
                    held.drop_if_broken(workload.key, self.trial)

    def _exchanged(
        self, tried: PendingWorkload, beneficiaries: Mapping[WorkloadKey, PendingWorkload], held: HeldClaims
    ) -> bool:
        """Admit the beneficiary of a claim in the place of another one, if that fits in its place when it is free.

        Both were promised the place of the same victims, and it is not known which pods end first.
        """
        workload, need = tried.workload, tried.request.need
        for key in held.sharing_victims(workload.key):
            if (other := beneficiaries.get(key)) is None:
                continue
            held.release(key, self.trial)
            world = self.trial.fork()
            if isinstance(gangs.admit(workload, need, world), Admit):
                fit = gangs.admit(other.workload, other.request.need, held.after_draining(world))
                if isinstance(fit, Admit):
                    self._tried(tried)
                    held.move(key, fit.seats, self.trial)
                    return True
            held.restore(key, self.trial)
        return False

    def _serve_more_urgent(self, beneficiary: Workload) -> bool:
        """Whether work of a higher priority of its queue took of the space that a claim holds for a beneficiary."""
        urgent = [
            each
            for each in self._waiting(beneficiary.queue)
            if each.class_queue.head().workload.priority > beneficiary.priority
        ]
        served = False
        for workload_class in urgent[:_URGENT_TRIED]:
            while workload_class.waits and self.limit.has_room():
                head, need = workload_class.class_queue.head().workload, workload_class.request.need
                answer = gangs.admit(head, need, self.trial)
                if isinstance(answer, Reason):
                    break
                self.pending.take_out((head.key,))
                self.tried_apart.add(head.key)
                self._admit(answer, head, need)
                served = True
        return served

    def _admitted(self, tried: PendingWorkload) -> bool:
        """Try a workload before the line. If it is refused, that is its reason."""
        reason = self._tried(tried)
        if reason is not None:
            self._refuse(tried, reason)
        return reason is None

    def _tried(self, tried: PendingWorkload) -> Reason | None:
        """Admit a workload, or say why it is not."""
        workload, need = tried.workload, tried.request.need
        answer = gangs.admit(workload, need, self.trial)
        if isinstance(answer, Reason):
            return answer
        self._admit(answer, workload, need)
        return None

    def _refuse(self, tried: PendingWorkload, reason: Reason) -> None:
        self.pending.set_own_reason(tried.workload.key, reason)
        self.refused_beneficiaries.append(
            ClassAnswer(tried.workload.queue, reason, (tried.line_entry,), tried.request.need)
        )

    def screen(self) -> None:
        """Find out which classes could be admitted at all."""
        state, pending = self.state, self.pending
        dirty_queues = state.dirty_queues | state.usage.dirty_queues | self.trial.usage.dirty_queues
        state.usage.dirty_queues.clear()
        state.queue_keys.forget(dirty_queues)
        for tried in state.tried_classes:
            if tried.class_queue.taken:
                tried.class_queue.taken, tried.answer = 0, None
                state.hopeless.forget((tried.queue,))
        state.hopeless.forget(each.queue for each in pending.dirty_classes)
        state.hopeless.forget(leaf_queues(pending, dirty_queues))
        for empty in pending.drop_empty_classes():
            state.class_answers.pop(empty, None)
        self.dirty_classes = dict.fromkeys(state.tried_classes)
        self.dirty_classes |= pending.dirty_classes
        self.dirty_classes |= dict.fromkeys(state.screening.ask_queues(pending, dirty_queues, self.trial))
        self._take_turns()
        self.dirty_classes |= dict.fromkeys(state.screening.ask_nodes(pending, self.trial, self.left_out))
        pending.dirty_classes.clear()

    def reserve(self, snapshot: Snapshot) -> Backfill:
        """What the heads must leave free: a place for a gang that starves, and quota."""
        pending = self.pending
        ends_known = bool(pending.affecting_reservation or self.state.holders_with_run_time)
        classes: Iterable[WorkloadClass]
        until: int | None = None
        if ends_known:
            classes = (each for of_queue in pending.classes.values() for each in of_queue.values())
        else:
            starving = [(each.starves_from(pending.tree), each) for each in pending.gangs]
            classes = [each for second, each in starving if second is not None and second <= self.now]
            until = soonest(*(second for second, _ in starving if second is not None and second > self.now))
        screened_out = self._screened_out if self.left_out else WorkloadClass.screened_out
        heads = [
            LongestWaiting(each.longest_waiting(), each.request.need, screened_out(each))
            for each in self._not_behind_others(classes)
        ]
        backfill = Backfill.reserving_for(
            snapshot,
            heads,
            self.trial,
            self.state.open_admissions,
            admitted=self.admits,
            ends_matter=ends_known,
        )
        backfill.revisit_at(until)
        self.backfill = backfill
        return backfill

    def await_room(self, coming: ComingRoom | None, backfill: Backfill) -> None:
        """Let those of the refused classes that may fit soon come to the head of the line.

        ``coming``: the room that comes back in pieces. None if none does.
        """
        if coming is None:
            return
        later = coming.after(self.trial)
        of_queue = coming.lacking(self.pending, self.left_out, later)
        # Only a few are looked at, so only the first queues are put in order.
        accounts = {queue: classes[0].request.accounts for queue, classes in of_queue.items()}
        queues = nsmallest(_QUEUES_LOOKED_AT, accounts.items(), key=self._levels)
        refused = (each for queue, _ in queues for each in sorted(of_queue[queue], key=_rank_of_head))
        self.hoping = dict.fromkeys(coming.helped(refused, later))
        if self.hoping:
            self.coming = coming
            backfill.revisit_at(coming.until)

    def hold_quota(self, snapshot: Snapshot, held: HeldClaims, *, may_grant: bool) -> list[Claim]:
        """Quota for gangs whose pods are not made yet, as far as it is left, and why each of them waits."""
        if not self.pending.awaiting_pods:
            return []
        claims, reasons = hold_quota(snapshot, self.pending, held, self.trial, may_grant=may_grant)
        for key, reason in reasons.items():
            self.pending.set_own_reason(key, reason)
        return claims

    def try_all(self, backfill: Backfill) -> None:
        """Try head after head, outside of what is reserved, as long as the plan holds more admissions."""
        lined_up, screened_out = self._lined_up()
        users = self.users = self.state.users.copy()
        line = Line(
            self.trial.usage,
            [each.class_queue for each in lined_up],
            self.now,
            users=users,
            keys=self.state.queue_keys,
            struck=[each.class_queue for each in screened_out],
        )
        by_queue = {each.class_queue: each for each in lined_up}
        while (class_queue := line.head()) is not None and self.limit.has_room():
            head, tried = class_queue.head(), by_queue[class_queue]
            answer = backfill.admit(head, tried.request.need, self.trial)
            if isinstance(answer, Admit):
                self._admit(answer, head.workload, tried.request.need)
                if class_queue.user or counts_use(self.trial.tree, class_queue.queue):
                    users.add(class_queue.queue, class_queue.user, charges(answer.seats))
                line.admitted()
                continue
            self.refusals[tried] = self._kept_together(tried, head, answer, backfill)
            if answer.code in _OF_THE_CLASS:
                line.refused()
            else:
                self.refused_placements[tried.placement_class] = answer
                line.refuse_kind(tried.placement_class)
        for each in lined_up:
            if each.class_queue.taken:
                each.answer = None
        self.state.tried_classes = [*lined_up, *self.left_out]
        self.dirty_classes |= dict.fromkeys(self.state.tried_classes)

    def _kept_together(
        self, tried: WorkloadClass, head: LineEntry, answer: Reason, backfill: Backfill
    ) -> Reason:
        """Keep the room that comes back in pieces for the first that it is enough for; its answer says so then."""
        if self.coming is None or self.kept_for is not None or tried not in self.hoping:
            return answer
        if answer.code not in FOR_LACK_OF_ROOM:
            return answer
        if not backfill.keep_coming(self.coming, head, tried.request.need, self.trial):
            return answer
        self.kept_for, until = tried, waits_since(head.workload)[0] + LEAVING_SECONDS
        if until > self.now:
            self.evicts_nobody = tried
            backfill.revisit_at(until)
        return reasons.room_is_coming(answer)

    def _admit(self, admit: Admit, workload: Workload, need: MissingMembers) -> None:
        numbers = self.state.open_admissions.of(workload.key)
        if need.seated:  # what joins a gang does not make more of it its minimum
            before = (self.state.running.held_admissions[number].admission for number in numbers)
            admit = replace(admit, minimum=min(admit.minimum, max(each.minimum for each in before)))
        self.admits += in_parts(admit, workload, need, len(numbers))
        self.trial.post_to_user(admit.queue, workload.user, charges(admit.seats))
        self.limit.admit(admit)

    def _lined_up(self) -> tuple[list[WorkloadClass], list[WorkloadClass]]:
        """Classes that are tried; and those among them that are screened out: in strict queues they hold up others."""
        lined_up: list[WorkloadClass] = []
        strict: dict[QueueName, None] = {}
        for placement_class in self.pending.placement_classes.values():
            if placement_class.reason is None:
                for each in placement_class.open_classes:
                    if self.pending.is_strict(each.queue):
                        strict[each.queue] = None
                    elif each not in self.left_out:
                        lined_up.append(each)
        lined_up += self.hoping
        screened_out: list[WorkloadClass] = []
        for queue in strict:
            classes = self._waiting(queue)
            if classes[0].screened_out() is None:
                lined_up += classes
                screened_out += [each for each in classes if each.screened_out() is not None]
        return lined_up, screened_out

    def _take_turns(self) -> None:
        """Leave out those of the classes that a queue could admit that are not tried in this turn."""
        for queue in self._costly_queues():
            groups = self._groups(each for each in self._waiting(queue) if each.queue_limit is None)
            later = [each for group in groups[1:] for each in group]
            self.left_out |= dict.fromkeys(later)
            self.refusals |= dict.fromkeys(later, reasons.takes_turns(queue))

    def _costly_queues(self) -> list[QueueName]:
        """Queues with classes that together could take long; in strict ones only the first is tried."""
        costs = self.pending.costs.items()
        return [
            queue for queue, cost in costs if cost > _TRIED_TOGETHER and not self.pending.is_strict(queue)
        ]

    def _waiting(self, queue: QueueName) -> list[WorkloadClass]:
        """Classes of a queue with members that were not admitted, by their heads."""
        classes = self.pending.classes.get(queue, {}).values()
        waiting = [each for each in classes if each.is_considered]
        return sorted(waiting, key=lambda each: each.class_queue.first())

    def _not_behind_others(self, classes: Iterable[WorkloadClass]) -> Iterator[WorkloadClass]:
        """Those that are considered, of a strict queue only the head.

        No workload could use what is kept for another one: the head would have to stay off, and nothing comes before
        it.
        """
        heads: dict[QueueName, WorkloadClass] = {}
        for each in classes:
            if not each.is_considered:
                continue
            if self.pending.is_strict(each.queue):
                if each.queue not in heads:
                    heads[each.queue] = self._waiting(each.queue)[0]
                if heads[each.queue] is not each:
                    continue
            yield each

    def _groups(self, classes: Iterable[WorkloadClass]) -> list[list[WorkloadClass]]:
        """These classes in groups that are tried in turns, the one that is tried now first."""
        groups = list(parts(classes, _TRIED_TOGETHER, lambda each: each.placement_class.cost))
        if len(groups) < 2:
            return groups
        self.until = self.now - self.now % _OTHERS_EVERY + _OTHERS_EVERY
        now = self.now // _OTHERS_EVERY % len(groups)
        return groups[now:] + groups[:now]

    def _screened_out(self, each: WorkloadClass) -> Reason | None:
        """Why no member of a class could be admitted even alone, as far as it was asked in this turn."""
        return each.queue_limit if each in self.left_out else each.screened_out()

    def leave_out(self, evicted: Mapping[WorkloadKey, AdmissionId]) -> dict[WorkloadKey, Reason]:
        """Give no further seats to workloads with an admission that is evicted in this turn, and say why they wait.

        A gang would be left with what just joined it.
        """
        left_out = {
            each.workload: reasons.draining(evicted[each.workload])
            for each in self.admits
            if each.workload in evicted
        }
        self.admits = [each for each in self.admits if each.workload not in left_out]
        return left_out

    def reasons(
        self, of_preemption: Mapping[WorkloadKey, Reason], left_out: Mapping[WorkloadKey, Reason]
    ) -> ClassAnswers:
        """The reason of each pending workload that was not admitted. Reasons given by preemption go first.

        If the plan has reached its limit, classes that were not tried have none. ``left_out``: those of workloads that
        were admitted before they were left out.
        """
        self._answer()
        own_reasons: Mapping[WorkloadKey, Reason] = self.pending.share_own_reasons()
        overlap = 0
        if of_preemption:
            overlap = sum(self.pending.is_in_class(key) for key in of_preemption)
            own_reasons = {**own_reasons, **of_preemption}
        if left_out:
            own_reasons = {**own_reasons, **left_out}
        return ClassAnswers(dict(self.state.class_answers), own_reasons, overlap)

    def _answer(self) -> None:
        """Bring the answers of dirty classes up to date."""
        answers = self.state.class_answers
        strict: set[QueueName] = set()
        for each in self.dirty_classes:
            if not each.waits:
                answers.pop(each, None)
            if each.blocked is None and self.pending.is_strict(each.queue):
                strict.add(each.queue)  # also when its head has gone: the others are behind another one then
                if each.waits and not each.is_considered:
                    self._answer_class(each)
            elif each.waits:
                self._answer_class(each)
        for queue in strict:
            classes = self._waiting(queue)
            if not classes:
                continue
            first, *behind = classes
            if not self._answer_class(first):
                for each in behind:
                    answers.pop(each, None)
                continue
            reason = reasons.behind(queue, str(first.class_queue.head().workload))
            for each in behind:
                known = each.answer
                answers[each] = (
                    known if known is not None and known.reason == reason else each.answer_with(reason)
                )
        self.dirty_classes = {}

    def _answer_class(self, each: WorkloadClass) -> bool:
        """Give a class its reason; false: it was not tried, because the plan had reached its limit."""
        reason = self._reason(each)
        if reason is None:
            assert self.limit.is_reached(), f"a class of queue {each.queue} was neither tried nor refused"
            self.state.class_answers.pop(each, None)
            return False
        self.state.class_answers[each] = each.answer_with(reason)
        return True

    def _reason(self, refused: WorkloadClass) -> Reason | None:
        return (
            refused.blocked
            or refused.user_limit
            or self.refusals.get(refused)
            or refused.screened_out()
            or self.refused_placements.get(refused.placement_class)
        )

    def refused_classes(self, prospects: PreemptionProspects) -> Iterator[ClassAnswer]:
        """Refused classes for which victims may be found: beneficiaries of claims first."""
        self._answer()
        yield from self.refused_beneficiaries
        # Only now: a beneficiary that gives its claim up makes room for others.
        self.state.hopeless.forget(leaf_queues(self.pending, self.trial.usage.dirty_queues))
        hopeful = prospects.hopeful(self.pending.classes, self.left_out, self.now)
        later: set[WorkloadClass] = set() if self.evicts_nobody is None else {self.evicts_nobody}
        costly = self._costly_queues()
        hoping = set(hopeful) if costly else set()
        for queue in costly:
            # What was tried is bounded; what its queue has no quota for was not.
            groups = self._groups(
                each for each in self._waiting(queue) if each in hoping and each.queue_limit is not None
            )
            later.update(each for group in groups[1:] for each in group)
        promised = None if self.trial.user_use is None else self.trial.user_use.copy()
        for each in self._in_line_order(each for each in hopeful if each not in later):
            refused = self.state.class_answers[each]
            if promised is not None and promised.limits_users_of(each.queue):
                refused = _within_user_limits(refused, each.request, promised)
            if refused.members:
                yield refused

    def lacking_room(self) -> Iterator[ClassAnswer]:
        """Refused classes that lack room, and that no reservation keeps off, in the order of the line."""
        answers = self.state.class_answers
        yield from (each for each in self.refused_beneficiaries if each.reason.code in FOR_LACK_OF_ROOM)
        lacking = [
            each
            for of_queue in self.pending.classes.values()
            for each in of_queue.values()
            if each not in self.left_out
            and (answer := answers.get(each)) is not None
            and answer.reason.code in FOR_LACK_OF_ROOM
            and not (each.request.need.complete or each.request.need.shortfall)
        ]
        for each in self._in_line_order(lacking):
            refused = answers[each]
            if not self.backfill.keeps_off(refused.members[0], self.trial):
                yield refused

    def refused_with_seats(self) -> Iterator[tuple[Workload, MissingMembers]]:
        """Refused workloads that hold seats already."""
        self._answer()
        for beneficiary in self.refused_beneficiaries:
            if beneficiary.need.seated:
                yield beneficiary.members[0].workload, beneficiary.need
        for each in self._in_line_order(self.pending.seated_classes):
            yield each.class_queue.head().workload, each.request.need

    def _in_line_order(self, classes: Iterable[WorkloadClass]) -> list[WorkloadClass]:
        """Classes among these that were refused: tried ones as they were tried, then the others by share.

        Classes behind the head of a strict queue are left out: they were not considered.
        """
        refused = {each: None for each in classes if each.is_considered}
        if not refused:
            return []
        strict = {each.queue for each in refused if self.pending.is_strict(each.queue)}
        heads = {queue: self._waiting(queue)[0] for queue in strict}
        # Those that were tried only for the sake of what comes back are where they would be without it.
        tried = [each for each in self.refusals if each not in self.hoping]
        untried = [
            each
            for each in refused
            if (each in self.hoping or each not in self.refusals) and heads.get(each.queue, each) is each
        ]
        return [each for each in tried if each in refused] + self._by_share(untried)

    def _levels(self, wanted: tuple[QueueName, tuple[Account, ...]]) -> list[Any]:
        """Sort key: the place of a queue in the tree, for what is asked in these accounts."""
        usage, keys = self.trial.usage, self.state.queue_keys
        above = self.trial.tree.paths[wanted[0]][-2::-1]
        return [(keys.standing(usage, name, wanted[1]), name) for name in above]

    def _by_share(self, classes: Sequence[WorkloadClass]) -> list[WorkloadClass]:
        """Classes that are not in the line, in its order: down the tree, then in the queue."""
        tree, users = self.trial.tree, self.users or self.state.users

        def key(each: WorkloadClass) -> tuple[Any, ...]:
            among = (among_users(tree, users, each.class_queue),) if counts_use(tree, each.queue) else ()
            return ordinals[each.queue, each.request.accounts], *among, each.class_queue.first()

        wanted = dict.fromkeys((each.queue, each.request.accounts) for each in classes)
        # Requests for different accounts in one queue may come at the same place.
        places = groupby(sorted(wanted, key=self._levels), key=self._levels)
        ordinals = {each: ordinal for ordinal, (_, alike) in enumerate(places) for each in alike}
        return sorted(classes, key=key)


def _rank_of_head(waiting: WorkloadClass) -> Rank:
    return waiting.class_queue.first()


def _within_user_limits(refused: ClassAnswer, request: ClassRequest, promised: UserUse) -> ClassAnswer:
    """Those of the members that their user may have room made for, all together; they are posted in ``promised``.

    Of several choices of members the first counts: victims that are evicted for more than their user may use would have
    gone for nothing.
    """
    members = []
    for entry in refused.members:
        workload, asked = entry.workload, next(iter(request.minimum_charges), {})
        if promised.hit(workload.queue, workload.user, asked) is not None:
            break
        promised.add(workload.queue, workload.user, asked)
        members.append(entry)
    return ClassAnswer(refused.queue, refused.reason, members, refused.need)
