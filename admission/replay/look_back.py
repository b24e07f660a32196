"""A turn that was kept, decided again and compared: with the plan of that time, and with the decision log. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.replay.snapshot_file import Saved, differences, plan_form
from admission.world.learned.namespace_quotas import without_gangs
from queues.admissions import Admission
from queues.plan import Admit, Plan, Reason
from queues.reason_codes import ReasonCode
from queues.recorded.logged_decisions import LoggedDecision
from queues.workload import AdmissionId, WorkloadKey


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedAgain:
    """A turn that was decided again."""

    saved: Saved
    plan: Plan
    #: What is different in the plan of that time, a line each.
    differences: tuple[str, ...]
    #: What is different in the decision log, a line each.
    log_differences: tuple[str, ...]
    #: Lines of the decision log that are as the plan says, and gangs of the plan that the ledger refused.
    logged: int
    refused: tuple[LoggedDecision, ...]

    def is_same(self) -> bool:
        """Whether the same was decided as then."""
        return not (self.differences or self.log_differences)


def decided_again(saved: Saved, log: Iterable[LoggedDecision]) -> DecidedAgain:
    """The turn, decided by this engine. ``log``: what the decision log has of it."""
    found, _ = decide(saved.snapshot, Memo())
    plan = without_gangs(found, _held_back(saved, found))
    lines = Counter(log)
    refused = tuple(sorted(each for each in lines if each.what == "reject"))
    expected = Counter(decisions_of(plan, saved.snapshot.admissions))
    turned_down = {each.workload for each in refused}
    for each in [each for each in expected if each.what == "admit" and each.workload in turned_down]:
        del expected[each]
    written = Counter({each: count for each, count in lines.items() if each.what != "reject"})
    return DecidedAgain(
        saved=saved,
        plan=plan,
        differences=tuple(differences(saved.plan, plan_form(plan))),
        log_differences=tuple(_log_differences(written, expected)),
        logged=(written & expected).total(),
        refused=refused,
    )


def decisions_of(plan: Plan, admissions: Mapping[AdmissionId, Admission]) -> tuple[LoggedDecision, ...]:
    """What the decision log has of a plan if the ledger takes all of it. ``admissions``: it was decided on."""
    found = [_line("evict", admissions[each.admission], each.code) for each in plan.evicts]
    found += [_line("free", admissions[each.admission], "ended") for each in plan.frees if each.closes]
    found += [_line("adopt", each.admit, "running") for each in plan.adopts]
    found += [_line("admit", each, "elastic" if each.elastic else "gang") for each in plan.admits]
    return tuple(found)


def _line(what: str, of: Admit | Admission, rule: str) -> LoggedDecision:
    return LoggedDecision(what, of.workload, of.namespace, of.name, of.queue, str(rule))


def _held_back(saved: Saved, plan: Plan) -> dict[WorkloadKey, Reason]:
    """Gangs that a ResourceQuota had no room for, with the reason of that time: no snapshot holds ResourceQuotas."""
    moving = {each.workload for each in plan.admits}
    moving |= {each.beneficiary for each in plan.evicts if each.beneficiary is not None}
    reasons = saved.plan.get("reasons") or {}
    found = {}
    for key in moving:
        before = reasons.get(str(key))
        if before is not None and before.get("code") == ReasonCode.NAMESPACE_QUOTA:
            found[key] = Reason(
                code=ReasonCode.NAMESPACE_QUOTA,
                message=str(before.get("message", "")),
                facts=before.get("facts") or {},
            )
    return found


def _log_differences(
    written: "Counter[LoggedDecision]", expected: "Counter[LoggedDecision]"
) -> Iterator[str]:
    for each in sorted((written - expected).elements()):
        yield f"in the log, and not decided now: {each}: {each.rule}"
    for each in sorted((expected - written).elements()):
        yield f"decided now, and not in the log: {each}: {each.rule}"
