"""The plan applier: one transaction, fenced, re-checked by the ledger; a gang is admitted whole or dropped whole.

The planner may be wrong, the applier may not (Nomad's plan applier). A dropped gang is still pending, and the next
turn decides on what the ledger really holds.
"""

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

from admission.failpoints import Failpoint
from admission.volcano_jobs.state import JobTransition
from queues.admissions import Admission, Claim, StageTimes
from queues.errors import DataRefused
from queues.plan import Admit, Adopt, Evict, Free, Plan, Reason
from queues.sql import ledger
from queues.sql.database import Database, Transaction
from queues.sql.leadership import Term
from queues.workload import AdmissionId, WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What the ledger made of a plan."""

    ledger_seq: int
    #: Admissions as they are now: opened, partly freed, evicting, closed.
    admissions: tuple[Admission, ...] = ()
    admitted: tuple[tuple[AdmissionId, Admit], ...] = ()
    adopted: tuple[tuple[AdmissionId, Adopt], ...] = ()
    evicted: tuple[Evict, ...] = ()
    closed: frozenset[AdmissionId] = frozenset()
    #: Gangs that the ledger refused.
    dropped: Mapping[WorkloadKey, Reason] = field(default_factory=dict)
    jobs: tuple[JobTransition, ...] = ()
    #: New claims, and beneficiaries of claims that ended.
    claims: tuple[Claim, ...] = ()
    unclaimed: tuple[WorkloadKey, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPlan:
    """All that one turn commits."""

    plan: Plan
    #: Transitions of Volcano Jobs.
    jobs: tuple[JobTransition, ...] = ()
    #: Reasons that changed, and workloads that have none any more.
    reasons: Mapping[WorkloadKey, Reason] = field(default_factory=dict)
    without_reason: Collection[WorkloadKey] = ()
    #: Users of the workloads that get seats; "" or absent: unknown.
    users: Mapping[WorkloadKey, str] = field(default_factory=dict)
    #: When admissions that it changes came how far, as far as that is not stored.
    stages: Mapping[AdmissionId, StageTimes] = field(default_factory=dict)
    #: Device-seconds of work that evictions cost, for the decision log.
    lost: Mapping[AdmissionId, int] = field(default_factory=dict)
    #: Admissions that it frees because their Volcano Jobs were suspended, for the decision log.
    suspended: Collection[AdmissionId] = ()

    def changes_ledger(self) -> bool:
        """True if there is anything to commit."""
        return bool(self.plan.changes_ledger() or self.jobs or self.reasons or self.without_reason)

    def workloads(self, admissions: Mapping[AdmissionId, Admission]) -> frozenset[WorkloadKey]:
        """Workloads that it writes about. ``admissions``: the ones it was decided on."""
        plan = self.plan
        moving = (
            *plan.starts,
            *plan.ready,
            *(free.admission for free in plan.frees),
            *(evict.admission for evict in plan.evicts),
        )
        return frozenset(
            (
                *(admissions[id_].workload for id_ in moving),
                *(admit.workload for admit in plan.admits),
                *(adopt.admit.workload for adopt in plan.adopts),
                *(claim.workload for claim in plan.claims),
                *(each.key for each in self.jobs),
                *plan.dropped,
                *self.reasons,
                *self.without_reason,
            )
        )

    def only(
        self, workloads: AbstractSet[WorkloadKey], admissions: Mapping[AdmissionId, Admission]
    ) -> "TurnPlan":
        """The part that writes about these workloads."""

        def its(id_: AdmissionId) -> bool:
            return admissions[id_].workload in workloads

        plan = self.plan
        return replace(
            self,
            plan=replace(
                plan,
                frees=tuple(each for each in plan.frees if its(each.admission)),
                adopts=tuple(each for each in plan.adopts if each.admit.workload in workloads),
                starts=tuple(id_ for id_ in plan.starts if its(id_)),
                ready=tuple(id_ for id_ in plan.ready if its(id_)),
                evicts=tuple(each for each in plan.evicts if its(each.admission)),
                claims=tuple(each for each in plan.claims if each.workload in workloads),
                dropped=tuple(key for key in plan.dropped if key in workloads),
                admits=tuple(each for each in plan.admits if each.workload in workloads),
                reasons={},
            ),
            jobs=tuple(each for each in self.jobs if each.key in workloads),
            reasons={key: each for key, each in self.reasons.items() if key in workloads},
            without_reason=[key for key in self.without_reason if key in workloads],
        )


async def apply(
    database: Database,
    term: Term,
    turn: TurnPlan,
    admissions: Mapping[AdmissionId, Admission],
    failpoint: Failpoint,
) -> Applied:
    """Commit a plan. ``admissions``: the ones it was decided on. ``failpoint`` is called when seats are given back.

    Raises Fenced (the term is over, or another leader wrote: read the world again), OutcomeUnknown, DataRefused
    (of a workload: ``is_refused`` finds which), DatabaseUnavailable, DatabaseError.
    """
    plan = turn.plan
    async with database.transaction() as tx:
        written = await _write(tx, term, turn, admissions, failpoint)
    freed, adopted, outcome, evicted = written.freed, written.adopted, written.outcome, written.evicted
    taken = _committed(plan, freed, outcome, evicted)
    admitted = [outcome.accepted[index] for index in sorted(outcome.accepted)]
    starts = {**adopted.starts, **outcome.starts}
    ids = [*adopted.accepted.values(), *admitted]
    changed = taken.changed_admissions(admissions, ids, turn.users, starts)
    return Applied(
        ledger_seq=written.ledger_seq,
        admissions=tuple(changed[id_] for id_ in sorted(changed)),
        admitted=tuple(zip(admitted, taken.admits, strict=True)),
        adopted=tuple(zip(adopted.accepted.values(), taken.adopts, strict=True)),
        evicted=taken.evicts,
        closed=frozenset(free.admission for free in taken.frees if free.closes),
        dropped=_dropped(plan, outcome),
        jobs=turn.jobs,
        claims=taken.claims,
        unclaimed=taken.dropped,
    )


async def is_refused(
    database: Database, term: Term, turn: TurnPlan, admissions: Mapping[AdmissionId, Admission]
) -> bool:
    """Whether Postgres refuses a value or a row of a plan. Nothing is stored. Raises as ``apply``."""
    try:
        async with database.bare_connection() as tx:
            await _write(tx, term, turn, admissions, lambda point: None)
    except DataRefused:
        return True
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """What one transaction has written."""

    ledger_seq: int
    freed: ledger.Freed
    adopted: ledger.LedgerOutcome
    outcome: ledger.LedgerOutcome
    evicted: frozenset[AdmissionId]


async def _write(
    tx: Transaction,
    term: Term,
    turn: TurnPlan,
    admissions: Mapping[AdmissionId, Admission],
    failpoint: Failpoint,
) -> _Written:
    plan = turn.plan
    transaction = await ledger.fence(tx, term, ledger_seq=plan.ledger_seq, now=plan.now)
    told = {*plan.starts, *plan.ready}
    await ledger.note_stages(
        tx, transaction, {id_: each for id_, each in turn.stages.items() if id_ not in told}
    )
    freed = await ledger.free(tx, transaction, plan.frees)
    if plan.frees:
        failpoint("freeing")
    await ledger.start(tx, transaction, plan.starts, turn.stages)
    await ledger.note_ready(tx, transaction, plan.ready, turn.stages)
    adopted = await ledger.adopt(tx, transaction, plan.adopts, turn.users)
    outcome = await ledger.admit(tx, transaction, plan.admits, turn.users)
    evicted = await ledger.evict(tx, transaction, plan.evicts)
    await ledger.drop_claims(tx, transaction, plan.dropped)
    await ledger.claim(tx, transaction, plan.claims)
    await ledger.record_job_states(tx, transaction, {job.key: job.new.to_json() for job in turn.jobs})
    changed = {**turn.reasons, **_dropped(plan, outcome)}
    await ledger.record_reasons(tx, transaction, changed, turn.without_reason)
    decisions = _decisions(turn, outcome, adopted, evicted, admissions)
    await ledger.record_decisions(tx, transaction, decisions)
    return _Written(
        ledger_seq=transaction.seq, freed=freed, adopted=adopted, outcome=outcome, evicted=evicted
    )


def _committed(
    plan: Plan,
    freed: ledger.Freed,
    outcome: ledger.LedgerOutcome,
    evicted: frozenset[AdmissionId],
) -> Plan:
    """The plan as far as the ledger took it."""
    return replace(
        plan,
        frees=tuple(
            Free(admission=id_, seats=seats, closes=id_ in freed.closed) for id_, seats in freed.seats.items()
        ),
        admits=tuple(plan.admits[index] for index in sorted(outcome.accepted)),
        evicts=tuple(evict for evict in plan.evicts if evict.admission in evicted),
    )


def _dropped(plan: Plan, outcome: ledger.LedgerOutcome) -> dict[WorkloadKey, Reason]:
    """Gangs that the ledger refused, with its reason."""
    return {
        plan.admits[index].workload: Reason(
            code=rejection.code,
            message=rejection.message,
            facts={
                name: getattr(rejection, name)
                for name in ("queue", "node", "resource", "limit", "used", "asked")
            },
        )
        for index, rejection in outcome.rejected.items()
    }


def _decisions(
    turn: TurnPlan,
    outcome: ledger.LedgerOutcome,
    adopted: ledger.LedgerOutcome,
    evicted: frozenset[AdmissionId],
    admissions: Mapping[AdmissionId, Admission],
) -> list[ledger.Decision]:
    """Lines of the decision log: one for what a workload gets, and one for what is evicted of it for one reason."""
    plan, lost = turn.plan, turn.lost
    lines: list[ledger.Decision] = []
    # In the order of cause and effect: what makes room, then what gets it.
    evictions: dict[tuple[Any, ...], list[ledger.Decision]] = {}
    for evict in plan.evicts:
        if evict.admission in evicted:
            line = _line("evict", admissions[evict.admission], evict.code, evict.admission, evict.message)
            numbers = {**line.numbers, **evict.facts}
            if evict.admission in lost:
                numbers["lostDeviceSeconds"] = lost[evict.admission]
            line = replace(line, beneficiary=evict.beneficiary, numbers=numbers)
            evictions.setdefault((line.workload, line.code, line.beneficiary, line.message), []).append(line)
    lines += map(_together, evictions.values())
    for free in plan.frees:
        if free.closes:
            ended: ledger.DecisionCode = "suspended" if free.admission in turn.suspended else "ended"
            lines.append(_line("free", admissions[free.admission], ended, free.admission))
    for id_, adopt in zip(adopted.accepted.values(), plan.adopts, strict=True):
        lines.append(_line("adopt", adopt.admit, "running", admission=id_))
    gangs: dict[tuple[Any, ...], list[ledger.Decision]] = {}
    for index, admit in enumerate(plan.admits):
        if index in outcome.accepted:
            code: ledger.DecisionCode = "elastic" if admit.elastic else "gang"
            line = _line("admit", admit, code, admission=outcome.accepted[index])
            gangs.setdefault((line.workload,), []).append(line)
        else:
            rejection = outcome.rejected[index]
            line = _line("reject", admit, rejection.code, message=rejection.message)
            gangs.setdefault((line.workload, line.message), []).append(line)
    lines += map(_together, gangs.values())
    return lines


def _together(lines: Sequence[ledger.Decision]) -> ledger.Decision:
    """The line of a gang and its elastic parts: that of the oldest admission, with what all of them count."""
    first = min(lines, key=lambda line: line.admission or 0)
    counts = [name for name in ("seats", "lostDeviceSeconds") if name in first.numbers]
    return replace(
        first,
        numbers={**first.numbers, **{name: sum(line.numbers[name] for line in lines) for name in counts}},
    )


def _line(
    kind: str,
    of: Admit | Admission,
    code: ledger.DecisionCode,
    admission: AdmissionId | None = None,
    message: str = "",
) -> ledger.Decision:
    return ledger.Decision(
        kind=kind,
        workload=of.workload,
        namespace=of.namespace,
        name=of.name,
        queue=of.queue,
        code=code,
        message=message,
        admission=admission,
        numbers={"seats": len(of.seats)},
    )
