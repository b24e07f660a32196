"""AdmissionCheck and CheckRequest, muster.dev/v1alpha1: gates that are held by somebody else's controller.

Queues list AdmissionChecks. Of each workload that waits in such a queue Muster asks each check by a CheckRequest, and
the service account that the check names answers in the request's status, which nobody else can write.
"""

from typing import Annotated, Literal

from pydantic import Field

from queues.api.metadata import ObjectMeta
from queues.api.model import LABEL_PATTERN, SUBDOMAIN_PATTERN, Count, Duration, Model, Text, Time
from queues.api.names import MUSTER

#: Queues that a status names.
QUEUES_SHOWN = 100

_Name = Annotated[Text, Field(min_length=1, max_length=253)]


class AnsweringAccount(Model):
    """A service account."""

    #: Its namespace.
    namespace: Annotated[Text, Field(min_length=1, max_length=63, pattern=LABEL_PATTERN)]
    #: Its name.
    name: Annotated[Text, Field(min_length=1, max_length=253, pattern=SUBDOMAIN_PATTERN)]


class AdmissionCheckSpec(Model):
    """Who answers, and when silence is reported."""

    #: The service account that answers. With another one everything is asked again.
    answered_by: AnsweringAccount
    #: A request without an answer for so long is reported.
    silent_after: Duration = "5m"


class CheckCondition(Model):
    """Whether the account answers."""

    #: ``Answering``.
    type: Text
    #: ``False``: it is silent; ``Unknown``: no queue lists the check.
    status: Text
    #: Why, in one word: ``Answers``, ``Silent`` or ``NotListed``.
    reason: Text = ""
    #: The same as a sentence, with the number of requests without an answer when it fell silent.
    message: Text = ""
    #: Since when.
    last_transition_time: Time | None = None


class AdmissionCheckStatus(Model):
    """Whether it is answered. Written by Muster."""

    #: Queues that list it, the first hundred by name.
    queues: Annotated[tuple[Text, ...], Field(max_length=QUEUES_SHOWN)] = ()
    #: Whether the account answers.
    conditions: tuple[CheckCondition, ...] = ()


class AdmissionCheck(Model):
    """An AdmissionCheck."""

    api_version: Literal["muster.dev/v1alpha1"] = MUSTER
    kind: Literal["AdmissionCheck"] = "AdmissionCheck"
    metadata: ObjectMeta = ObjectMeta()
    spec: AdmissionCheckSpec
    status: AdmissionCheckStatus = AdmissionCheckStatus()


class AskedWorkload(Model):
    """A workload that a check is asked about. Its object is in the namespace of the request, and owns it."""

    #: As in names of workloads, such as ``job``.
    kind: _Name
    #: Of its object.
    name: _Name
    #: Of its object.
    uid: _Name


class CheckRequestSpec(Model):
    """What is asked. Written by Muster."""

    #: Name of the AdmissionCheck.
    check: _Name
    #: User name of the service account that answers.
    answered_by: _Name
    #: What it is about.
    workload: AskedWorkload
    #: The queue in which it waits.
    queue: _Name
    #: Changes with what the workload asks: then it is asked again.
    generation: Annotated[Text, Field(max_length=253)] = ""
    #: Goes up when the same is asked again, after a ``Retry``.
    attempt: Count = 1
    #: When it was asked.
    asked_at: Time


class CheckRequestStatus(Model):
    """The answer. Written by the service account of the check."""

    #: ``Ready``: it may be admitted; ``Pending``: the account is at it and will say more; ``Rejected``: it may not;
    #: ``Retry``: it is to be asked again later. The account may change its answer at any time.
    answer: Literal["Ready", "Pending", "Rejected", "Retry"] | None = None
    #: Why, for people.
    message: Annotated[Text, Field(max_length=1000)] = ""
    #: After ``Retry``: how long after ``answeredAt`` it is asked again.
    retry_after: Duration = "1m"
    #: When it was answered. Absent: with ``Retry`` it is asked again ``retryAfter`` after it was asked.
    answered_at: Time | None = None
    #: ``metadata.generation`` of the request that is answered; an answer to an earlier one does not count.
    observed_generation: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] = 0


class CheckRequest(Model):
    """A CheckRequest."""

    api_version: Literal["muster.dev/v1alpha1"] = MUSTER
    kind: Literal["CheckRequest"] = "CheckRequest"
    metadata: ObjectMeta = ObjectMeta()
    spec: CheckRequestSpec
    status: CheckRequestStatus = CheckRequestStatus()
