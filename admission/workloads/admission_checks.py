"""How far the admission checks of a workload are: what is asked, what was answered, and what follows. Pure.

All of it follows from the objects: what is asked, answered and withdrawn while Muster is away is right afterwards. A
workload that waits is considered when each check of its queue, and of the queues above, has said yes to what it asks
now. An answer that is no yes any more takes a gang back whose pods have not started; what runs goes on.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from admission.engine.snapshot import Rollback
from admission.facts.admission_checks import AdmissionCheckFact, CheckAnswer, CheckRequestFact
from admission.workloads.seats import SeatMap
from queues.reason_codes import ReasonCode
from queues.text_format import rfc3339
from queues.workload import AdmissionId, Obstacle


class CheckPhase(Enum):
    """How far one check of a workload is."""

    #: There is no such AdmissionCheck.
    UNKNOWN = "unknown"
    #: It was not asked about what the workload asks now.
    TO_ASK = "to ask"
    #: It wanted to be asked again by now.
    RETRY_DUE = "retry due"
    #: It was asked, and has not answered.
    ASKED = "asked"
    #: It is at work on the answer.
    PENDING = "pending"
    #: It has not answered for longer than it says itself.
    SILENT = "silent"
    #: It will be asked again.
    RETRY = "retry"
    REJECTED = "rejected"
    READY = "ready"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckProgress:
    """How far one check of a workload is at some second."""

    check: str
    phase: CheckPhase
    #: User name of the account that answers; "": the check is unknown.
    account: str = ""
    #: What was asked last; None if nothing was.
    request: CheckRequestFact | None = None
    #: The second (since the epoch) at which it is further though no object changes; None if there is none.
    look_at: int | None = None

    @property
    def attempt(self) -> int:
        """The how-many-th time it is, if it is asked now."""
        return 1 if self.request is None else self.request.attempt + 1

    def sentence(self) -> str:
        """What the workload waits for, for people."""
        request = self.request
        if self.phase is CheckPhase.UNKNOWN:
            return f"there is no AdmissionCheck {self.check}"
        if request is None or self.phase in _TO_ASK:
            return f"check {self.check} is being asked"
        said = f": {request.message}" if request.message else ""
        if self.phase is CheckPhase.REJECTED:
            return f"check {self.check}, asked at {rfc3339(request.asked_at)}, says no{said}"
        if self.phase is CheckPhase.RETRY:
            return f"check {self.check} is asked again at {rfc3339(request.retry_at)}{said}"
        if self.phase is CheckPhase.PENDING:
            return f"check {self.check}, asked at {rfc3339(request.asked_at)}, is at work{said}"
        since = f"check {self.check}, asked at {rfc3339(request.asked_at)}, has not answered"
        return f"{since}; {self.account} is silent" if self.phase is CheckPhase.SILENT else since


_ANSWERED: Final = {
    CheckAnswer.READY: CheckPhase.READY,
    CheckAnswer.PENDING: CheckPhase.PENDING,
    CheckAnswer.REJECTED: CheckPhase.REJECTED,
}
_TO_ASK: Final = (CheckPhase.TO_ASK, CheckPhase.RETRY_DUE)
#: Most workloads are in a queue without checks.
NO_CHECKS: Final[tuple[CheckProgress, ...]] = ()


def check_progress(
    name: str, check: AdmissionCheckFact | None, request: CheckRequestFact | None, generation: str, now: int
) -> CheckProgress:
    """How far a check is. ``request``: what a workload of this generation asked last; ``now``: seconds since the epoch.

    What was asked about another generation, or of another account, is asked anew.
    """
    if check is None:
        return CheckProgress(check=name, phase=CheckPhase.UNKNOWN)
    phase, look_at = CheckPhase.TO_ASK, None
    if request is not None and (request.generation, request.account) == (generation, check.account):
        phase, further, look_at = _answered(request, check)
        if look_at is not None and now >= look_at:
            phase, look_at = further, None
    return CheckProgress(check=name, phase=phase, account=check.account, request=request, look_at=look_at)


def _answered(
    request: CheckRequestFact, check: AdmissionCheckFact
) -> tuple[CheckPhase, CheckPhase, int | None]:
    """The phase by the answer; the one that follows though no object changes, and from when on; None: never."""
    if request.answer is CheckAnswer.RETRY:
        return CheckPhase.RETRY, CheckPhase.RETRY_DUE, request.retry_at
    if request.answer is CheckAnswer.NONE:
        return CheckPhase.ASKED, CheckPhase.SILENT, request.asked_at + check.silent_after
    phase = _ANSWERED[request.answer]
    return phase, phase, None


#: Phases that keep a workload from being considered, the one first that is said first.
_CODES: Final = {
    CheckPhase.UNKNOWN: ReasonCode.UNKNOWN_CHECK,
    CheckPhase.REJECTED: ReasonCode.CHECK_REJECTED,
    CheckPhase.SILENT: ReasonCode.WAITS_FOR_CHECK,
    CheckPhase.ASKED: ReasonCode.WAITS_FOR_CHECK,
    CheckPhase.PENDING: ReasonCode.WAITS_FOR_CHECK,
    CheckPhase.RETRY: ReasonCode.WAITS_FOR_CHECK,
    CheckPhase.RETRY_DUE: ReasonCode.WAITS_FOR_CHECK,
    CheckPhase.TO_ASK: ReasonCode.WAITS_FOR_CHECK,
}
_WEIGHTS: Final = tuple(_CODES)


def awaits_checks(checks: Sequence[CheckProgress]) -> Obstacle | None:
    """The obstacle of a workload without seats for which not every check has said yes; None if all have."""
    missing = [each for each in checks if each.phase is not CheckPhase.READY]
    if not missing:
        return None
    missing.sort(key=lambda each: _WEIGHTS.index(each.phase))
    return Obstacle(_CODES[missing[0].phase], "; ".join(each.sentence() for each in missing))


def to_ask(checks: Sequence[CheckProgress], obstacle: Obstacle | None) -> tuple[CheckProgress, ...]:
    """Checks that are asked now about a workload with this obstacle: while nothing else is in its way."""
    if obstacle is None or obstacle.code not in _CODES.values():
        return NO_CHECKS
    return tuple(each for each in checks if each.phase in _TO_ASK)


def refused_by_checks(
    checks: Sequence[CheckProgress], open_: Sequence[SeatMap]
) -> dict[AdmissionId, Rollback]:
    """Open admissions that end because a check has taken its yes back. None of them, once pods of the gang run.

    That is no failure of the workload. What was never asked, or is asked anew, is no answer.
    """
    if any(place.has_started() for place in open_):
        return {}
    obstacle = awaits_checks(
        [each for each in checks if each.phase not in (CheckPhase.UNKNOWN, CheckPhase.TO_ASK)]
    )
    if obstacle is None:
        return {}
    return {place.admission.id: Rollback(obstacle.code, obstacle.message, 0) for place in open_}


def next_check_look(checks: Iterable[CheckProgress]) -> int | None:
    """The first second at which a check is further though no object changes; None if there is none."""
    return min((each.look_at for each in checks if each.look_at is not None), default=None)
