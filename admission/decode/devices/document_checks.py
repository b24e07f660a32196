"""``muster check`` for kinds of dynamic resource allocation, read as the objects of the cluster are. Pure."""

import json
from typing import Any, Final

import msgspec

from admission.decode.devices.resource_claims import WireResourceClaimTemplate, resource_claim_template_fact
from admission.decode.devices.resource_slices import WireDeviceClass, device_class_fact
from queues.api.api_resources import CLAIM_TEMPLATES, DEVICE_CLASSES, RESOURCE_CLAIMS
from queues.api.check.finding import Finding, Subject

_OF_PODS: Final = "; no pod in a queue is admitted with %s"


def check_device_kind(subject: Subject) -> list[Finding] | None:
    """Findings about what pods claim devices by: why it cannot be counted. None if it is another kind."""
    match subject.value["apiVersion"], subject.value["kind"]:
        case DEVICE_CLASSES.api_version, DEVICE_CLASSES.kind:
            return _problem_of(subject, WireDeviceClass, device_class_fact, "spec.selectors", "this class")
        case CLAIM_TEMPLATES.api_version, CLAIM_TEMPLATES.kind:
            place = "spec.spec.devices.requests"
            read = resource_claim_template_fact
            return _problem_of(subject, WireResourceClaimTemplate, read, place, "this template")
        case RESOURCE_CLAIMS.api_version, RESOURCE_CLAIMS.kind:
            expected = f"a ResourceClaimTemplate{_OF_PODS % 'a claim that others may share'}"
            return [subject.finding("warning", "kind", RESOURCE_CLAIMS.kind, expected)]
    return None


def _problem_of(subject: Subject, struct: Any, read: Any, path: str, what: str) -> list[Finding]:
    """A warning: pods outside of queues may use it all the same."""
    try:
        fact = read(msgspec.json.decode(json.dumps(subject.value).encode(), type=struct))
    except (msgspec.DecodeError, TypeError, ValueError) as error:
        return [subject.finding("error", "", str(error), f"a {subject.value['kind']}")]
    before, _, problem = fact.problem.partition("found ")
    if not problem:
        return []
    found, _, expected = problem.partition(", expected ")
    return [subject.finding("warning", path, f"{before}{found}", f"{expected}{_OF_PODS % what}")]
