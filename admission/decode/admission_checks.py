"""AdmissionChecks and CheckRequests as facts. Pure."""

from sys import intern

from admission.decode.fields import seconds
from admission.facts.admission_checks import AdmissionCheckFact, CheckAnswer, CheckRequestFact
from admission.wire import WireMetadata, WireStruct
from queues.api.reading.user_values import LONGEST_MESSAGE, duration, shortened
from queues.kind_names import KindName
from queues.workload import WorkloadKey

#: Seconds, where a duration cannot be read: what the definition has as the default.
_SILENT_AFTER, _RETRY_AFTER = 300, 60
#: Seconds between an answer and the next question at least: each costs a write.
_SHORTEST_PAUSE = 10


class _WireAccount(WireStruct):
    namespace: str
    name: str


class _WireCheckSpec(WireStruct):
    answered_by: _WireAccount
    silent_after: str | None = None


class WireAdmissionCheck(WireStruct):
    """An AdmissionCheck."""

    metadata: WireMetadata
    spec: _WireCheckSpec


class _WireWorkload(WireStruct):
    kind: str
    uid: str


class _WireRequestSpec(WireStruct):
    check: str
    answered_by: str
    workload: _WireWorkload
    generation: str = ""
    attempt: int = 1
    asked_at: str | None = None


class _WireRequestStatus(WireStruct):
    answer: str | None = None
    message: str | None = None
    retry_after: str | None = None
    answered_at: str | None = None
    observed_generation: int | None = None


class WireCheckRequest(WireStruct):
    """A CheckRequest."""

    metadata: WireMetadata
    spec: _WireRequestSpec
    status: _WireRequestStatus | None = None


def admission_check_fact(check: WireAdmissionCheck) -> AdmissionCheckFact:
    """An AdmissionCheck."""
    by = check.spec.answered_by
    silent_after = duration(check.spec.silent_after)
    return AdmissionCheckFact(
        uid=check.metadata.uid,
        name=check.metadata.name,
        account=f"system:serviceaccount:{by.namespace}:{by.name}",
        silent_after=_SILENT_AFTER if silent_after is None else silent_after,
    )


def check_request_fact(request: WireCheckRequest) -> CheckRequestFact:
    """A CheckRequest. An answer to an earlier generation of it is none."""
    meta, spec, status = request.metadata, request.spec, request.status or _WireRequestStatus()
    asked_at = seconds(spec.asked_at) or seconds(meta.creation_timestamp)
    answer, retry_at = CheckAnswer.NONE, 0
    if status.observed_generation == meta.generation and status.answer in list(CheckAnswer):
        answer = CheckAnswer(status.answer or "")
    if answer is CheckAnswer.RETRY:
        retry_after = duration(status.retry_after)
        answered_at = seconds(status.answered_at) or asked_at
        retry_at = answered_at + max(_RETRY_AFTER if retry_after is None else retry_after, _SHORTEST_PAUSE)
    return CheckRequestFact(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        check=spec.check,
        account=spec.answered_by,
        workload=WorkloadKey(KindName(intern(spec.workload.kind)), spec.workload.uid),
        generation=spec.generation,
        attempt=spec.attempt,
        asked_at=asked_at,
        answer=answer,
        # What a withdrawn or earlier answer said would mislead.
        message=shortened(status.message or "", LONGEST_MESSAGE) if answer else "",
        retry_at=retry_at,
    )
