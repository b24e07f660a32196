"""Pod templates that are tried by a dry run: which of them are equal, and what the API server's answers mean. Pure."""

import re
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Final

import msgspec

from admission.decode.affinity import affinity_of, is_of_possible_size
from admission.decode.pod_rules import PodOwner, with_rules
from admission.decode.pod_templates import ReadOnce, affinity_as_written, directed_by
from admission.decode.topology_requests import pod_shape_of
from admission.facts.pods import PodShape
from admission.wire import WirePod, WireStruct
from queues.api import names
from queues.api.flavor_tolerations import own_tolerations
from queues.api.reading.user_values import LONGEST_MESSAGE, UserValues, shortened
from queues.errors import ApiError, ApiRefused

#: Labels in which templates of different Jobs differ always: the API server writes the Job's name and uid there.
_OF_ONE_JOB: Final = frozenset((*names.CONTROLLER_LABELS, *names.OWN_NAMES))
#: Fields of a container in which the Jobs of a series differ, and on which no default and no check rests as a rule.
_OF_ONE_RUN: Final = ("command", "args")

#: What begins an answer and differs from one dry run to the next: the name that the pod would have had.
_NAMED: Final = re.compile(r'^[Pp]ods? "[^"]*" is (?:forbidden|invalid): ')
#: Refusals that say nothing of the pod: Muster may not ask, or a webhook does not take part.
_SAYS_NOTHING: Final = ('cannot create resource "pods"', "does not support dry run")
#: How a refusal begins for which nothing needs to change but what other pods of the namespace use.
_USED_UP: Final = "exceeded quota: "
#: Unauthorized, and such.
_OF_THE_CALLER: Final = (401, 405, 408)


class DryRunOutcome(StrEnum):
    """What came of a dry run."""

    #: The API server would make the pod.
    ACCEPTED = "accepted"
    #: It would not.
    REFUSED = "refused"
    #: No usable answer: none in time, an error, or one that says nothing of the pod.
    UNANSWERED = "unanswered"


class _Metadata(WireStruct):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Template(msgspec.Struct):
    metadata: _Metadata | None = None
    spec: dict[str, msgspec.Raw] = {}


_TEMPLATE: Final = msgspec.json.Decoder(_Template)
_CONTAINERS: Final = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_AFFINITY: Final = msgspec.json.Decoder(dict[str, Any] | None)
_TOLERATIONS: Final = msgspec.json.Decoder(list[dict[str, Any]] | None)
_POD: Final = msgspec.json.Decoder(WirePod)


@ReadOnce
def template_digest(template: bytes) -> str:
    """A digest that is equal for templates with equal pods; "" if the template cannot be read.

    ``template``: as the API server writes it, with fields in its order. Commands and their arguments do not count, nor
    do nodes that an earlier admission wrote, nor its gate.
    """
    try:
        read = _TEMPLATE.decode(template)
        spec: dict[str, Any] = dict(read.spec)
        meta = read.metadata or _Metadata()
        written = spec.pop("affinity", msgspec.Raw(b"null"))
        pinned = directed_by(template) is not None
        if not is_of_possible_size(len(written), UserValues(), "", pinned=pinned):
            return ""  # its workload is refused as well
        affinity = affinity_as_written(template, _AFFINITY.decode(written))
        if "tolerations" in spec:
            tolerations = {"tolerations": _TOLERATIONS.decode(spec.pop("tolerations"))}
            own = own_tolerations(tolerations, meta.annotations)
            spec.update({"tolerations": own} if own else {})
        if "schedulingGates" in spec and msgspec.json.decode(spec["schedulingGates"]) == [
            {"name": names.GATE}
        ]:
            del spec["schedulingGates"]
        for field in ("containers", "initContainers"):
            if field in spec:
                spec[field] = [
                    {name: value for name, value in each.items() if name not in _OF_ONE_RUN}
                    for each in _CONTAINERS.decode(spec[field])
                ]
    except (msgspec.DecodeError, RecursionError):
        return ""
    said = [_of_every_job(meta.labels), _of_every_job(meta.annotations), affinity]
    return blake2b(msgspec.json.encode((said, spec), order="deterministic"), digest_size=8).hexdigest()


def _of_every_job(said: dict[str, str] | None) -> list[tuple[str, str]]:
    return sorted((key, value) for key, value in (said or {}).items() if key not in _OF_ONE_JOB)


def shape_answered(answer: bytes) -> PodShape | None:
    """What the pod in an answer asks; None if it cannot be read."""
    values = UserValues()
    try:
        pod = _POD.decode(answer)
    except (msgspec.DecodeError, RecursionError):
        return None
    affinity = affinity_of(pod.spec.affinity, values, "spec", namespace=pod.metadata.namespace, pinned=False)
    shape = pod_shape_of(pod.spec, pod.metadata.annotations, values, affinity=affinity, pinned=False)
    owner = PodOwner(pod.metadata.namespace, pod.metadata.labels or {})
    shape = with_rules(shape, pod.spec, affinity, values, owner=owner)
    return shape if values.obstacle is None else None


def refusal_answered(error: ApiError) -> str:
    """Why the API server would refuse the pods of a template; "": its answer does not say that it would.

    Checks refuse with any code below 500. Not a refusal: no answer, too many requests, what says nothing of the pod
    itself, and the answer to anything but the pod's creation.
    """
    if error.facts.get("method") != "POST" or not isinstance(error, ApiRefused):
        return ""
    if error.facts.get("status") in _OF_THE_CALLER:
        return ""
    said = str(error.facts.get("reason"))
    if any(each in said for each in _SAYS_NOTHING):
        return ""
    return shortened(_NAMED.sub("", said), LONGEST_MESSAGE)


def is_lack_of_quota(refusal: str) -> bool:
    """Whether the pods would be refused as long as others of the namespace use up a ResourceQuota."""
    return refusal.startswith(_USED_UP)
