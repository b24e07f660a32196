"""The plan applier: one transaction, fenced, re-checked by the ledger; a gang stands or is dropped whole.

The planner may be wrong, the applier may not (Nomad's plan applier). What was dropped is still pending, and
the next turn sees the truth.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from admission.volcano_jobs.state import JobTransition
from queues.admissions import Admission, AdmissionState, Claim
from queues.plan import Admit, Adopt, Evict, Plan, Reason
from queues.sql import ledger
from queues.sql.database import Database
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
    dropped: Mapping[WorkloadKey, Reason] | None = None
    jobs: tuple[JobTransition, ...] = ()
    #: New claims, and beneficiaries whose claims ended.
    claims: tuple[Claim, ...] = ()
    unclaimed: tuple[WorkloadKey, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasons:
    """Reasons to store with the plan: changed ones, and workloads that have none any more."""

    changed: Mapping[WorkloadKey, Reason]
    gone: Collection[WorkloadKey] = ()

    def __bool__(self) -> bool:
        return bool(self.changed or self.gone)


async def apply(
    database: Database,
    term: Term,
    plan: Plan,
    reasons: Reasons,
    admissions: Mapping[AdmissionId, Admission],
    pause: Callable[[str], None] = lambda point: None,
    users: Mapping[WorkloadKey, str] = ledger.NOBODY,
) -> Applied:
    """Commit a plan. ``admissions`` are those it was decided on; ``pause`` is told when seats are given back.

    ``users``: who asked for what the plan gives.

    Raises Fenced (the term is over, or somebody else wrote: read the world again), OutcomeUnknown,
    DatabaseError.
    """
    async with database.transaction() as tx:
        entry = await ledger.fence(tx, term, ledger_seq=plan.ledger_seq, now=plan.now)
        freed = None
        if plan.frees:
            freed = await ledger.free(tx, entry, plan.frees)
            pause("freeing")
        if plan.starts:
            await ledger.start(tx, entry, plan.starts)
        adopted = await ledger.adopt(tx, entry, plan.adopts, users) if plan.adopts else []
        verdict = await ledger.admit(tx, entry, plan.admits, users) if plan.admits else None
        evicted = await ledger.evict(tx, entry, plan.evicts) if plan.evicts else frozenset()
        await ledger.drop_claims(tx, entry, plan.dropped)
        await ledger.claim(tx, entry, plan.claims)
        if plan.jobs:
            rows = [ledger.JobRow(key=job.key, state=job.new.to_json()) for job in plan.jobs]
            await ledger.record_job_states(tx, entry, rows)
        dropped = _dropped(plan, verdict)
        changed = {**reasons.changed, **dropped}
        if changed or reasons.gone:
            await ledger.record_reasons(tx, entry, changed, reasons.gone)
        decisions = _decisions(plan, verdict, adopted, evicted, admissions)
        if decisions:
            await ledger.record_decisions(tx, entry, decisions)
    accepted = verdict.accepted if verdict is not None else {}
    now_open = _changed(plan, freed, evicted, admissions)
    admitted = tuple((accepted[index], plan.admits[index]) for index in sorted(accepted))
    adoptions = tuple(zip(adopted, plan.adopts, strict=True))
    for id_, admit in admitted:
        now_open[id_] = _opened(id_, admit, plan.now, users)
    for id_, adopt in adoptions:
        opened = _opened(id_, adopt.admit, plan.now, users)
        now_open[id_] = replace(opened, adopted=dict(adopt.pods), started=True)
    return Applied(
        ledger_seq=entry.seq,
        admissions=tuple(now_open[id_] for id_ in sorted(now_open)),
        admitted=admitted,
        adopted=adoptions,
        evicted=tuple(evict for evict in plan.evicts if evict.admission in evicted),
        closed=freed.closed if freed is not None else frozenset(),
        dropped=dropped,
        jobs=plan.jobs,
        claims=plan.claims,
        unclaimed=plan.dropped,
    )


def _opened(id_: AdmissionId, admit: Admit, now: int, users: Mapping[WorkloadKey, str]) -> Admission:
    return replace(admit.opened(id_, now), user=users.get(admit.workload, ""))


def _changed(
    plan: Plan,
    freed: ledger.Freed | None,
    evicted: frozenset[AdmissionId],
    admissions: Mapping[AdmissionId, Admission],
) -> dict[AdmissionId, Admission]:
    """Admissions that were open before and are different now."""
    changed: dict[AdmissionId, Admission] = {}
    for id_ in plan.starts:
        changed[id_] = replace(admissions[id_], started=True)
    for id_ in evicted:
        changed[id_] = replace(changed.get(id_, admissions[id_]), state=AdmissionState.EVICTING)
    if freed is not None:
        for id_, seats in freed.seats.items():
            before = changed.get(id_, admissions[id_])
            changed[id_] = replace(before, ended=before.ended | seats)
        for id_ in freed.closed:
            before = changed.get(id_, admissions[id_])
            changed[id_] = replace(before, state=AdmissionState.CLOSED)
    return changed


def _dropped(plan: Plan, verdict: ledger.LedgerOutcome | None) -> dict[WorkloadKey, Reason]:
    if verdict is None:
        return {}
    return {
        plan.admits[index].workload: Reason(
            code=rejection.code,
            message=rejection.message,
            facts={
                "queue": rejection.queue,
                "node": rejection.node,
                "resource": rejection.resource,
                "limit": rejection.limit,
                "used": rejection.used,
                "asked": rejection.asked,
            },
        )
        for index, rejection in verdict.rejected.items()
    }


def _decisions(
    plan: Plan,
    verdict: ledger.LedgerOutcome | None,
    adopted: list[AdmissionId],
    evicted: frozenset[AdmissionId],
    admissions: Mapping[AdmissionId, Admission],
) -> list[ledger.Decision]:
    """Lines of the decision log."""
    lines = []
    for index, admit in enumerate(plan.admits):
        if verdict is not None and index in verdict.accepted:
            code: ledger.DecisionCode = "elastic" if admit.elastic else "gang"
            lines.append(_line("admit", admit, code, admission=verdict.accepted[index]))
        elif verdict is not None:
            rejection = verdict.rejected[index]
            lines.append(_line("reject", admit, rejection.code, message=rejection.message))
    for id_, adopt in zip(adopted, plan.adopts, strict=True):
        lines.append(_line("adopt", adopt.admit, "running", admission=id_))
    for evict in plan.evicts:
        if evict.admission in evicted:
            lines.append(_evicted(evict, admissions[evict.admission]))
    for free in plan.frees:
        if free.closes:
            lines.append(_leaving("free", admissions[free.admission], "ended", ""))
    return lines


def _line(
    kind: str,
    of: Admit | Admission,
    code: ledger.DecisionCode,
    *,
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


def _leaving(kind: str, admission: Admission, code: ledger.DecisionCode, message: str) -> ledger.Decision:
    return _line(kind, admission, code, admission=admission.id, message=message)


def _evicted(evict: Evict, admission: Admission) -> ledger.Decision:
    """Who for whom, by which rule, on which numbers."""
    line = _leaving("evict", admission, evict.code, evict.message)
    return replace(line, beneficiary=evict.beneficiary, numbers={**line.numbers, **evict.facts})
