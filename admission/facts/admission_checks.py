"""Facts about AdmissionChecks, and about what was asked and answered."""

from dataclasses import dataclass
from enum import StrEnum

from queues.workload import WorkloadKey


class CheckAnswer(StrEnum):
    """What a check says of a workload."""

    #: Nothing yet, or not to what is asked now.
    NONE = ""
    READY = "Ready"
    #: It will say more.
    PENDING = "Pending"
    REJECTED = "Rejected"
    #: It wants to be asked again later.
    RETRY = "Retry"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionCheckFact:
    """An AdmissionCheck."""

    uid: str
    name: str
    #: User name of the service account that answers.
    account: str
    #: Seconds without an answer that are reported.
    silent_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRequestFact:
    """A CheckRequest with its answer."""

    uid: str
    namespace: str
    name: str
    check: str
    account: str
    workload: WorkloadKey
    #: Of the workload.
    generation: str
    attempt: int
    #: Seconds since the epoch.
    asked_at: int
    answer: CheckAnswer = CheckAnswer.NONE
    message: str = ""
    #: When it is asked again after ``RETRY``, in seconds since the epoch; 0: another answer.
    retry_at: int = 0
