"""ProvisioningRequests as the API server shows them, read for what Muster decides on. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from queues.api.names import PROVISIONING_ATTEMPT, PROVISIONING_FOR

#: Characters of a message of the autoscaler that are shown.
_LONGEST_MESSAGE: Final = 300
#: Reason of Kubernetes' Cluster Autoscaler for ``Provisioned: False``: no group of nodes has room, it will look again.
_NOT_FOUND: Final = "CapacityIsNotFound"
#: What ``NodeWish.name`` gives: a digest, and the attempt.
_NAME: Final = re.compile(r"muster-[0-9a-f]{12}-([1-9][0-9]{0,4})")


class RequestPhase(StrEnum):
    """How far a request has come, by its conditions."""

    #: The autoscaler has not decided.
    OPEN = "Open"
    #: There is room for the gang, and the autoscaler keeps it for a while.
    PROVISIONED = "Provisioned"
    #: The autoscaler found no way to make room.
    FAILED = "Failed"
    #: The room was kept for as long as it is kept, and is not any more.
    BOOKING_EXPIRED = "BookingExpired"
    #: Nodes of the room are gone.
    CAPACITY_REVOKED = "CapacityRevoked"


#: Conditions by weight: what came last counts, and these come in this order.
_BY_WEIGHT: Final = (
    RequestPhase.FAILED,
    RequestPhase.CAPACITY_REVOKED,
    RequestPhase.BOOKING_EXPIRED,
    RequestPhase.PROVISIONED,
)


def owner_value(kind: str, uid: str) -> str:
    """A workload in the value of the label: ``job.8fd1…``."""
    return f"{kind}.{uid}"[:63]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRequest:
    """One ProvisioningRequest that names a workload of Muster's."""

    namespace: str
    name: str
    uid: str
    #: Value of its label: the workload.
    owner: str
    #: From 1 on; 0: it cannot be read.
    attempt: int
    #: Seconds since the epoch.
    created: int
    phase: RequestPhase = RequestPhase.OPEN
    #: When it entered the phase: seconds since the epoch.
    since: int = 0
    #: The autoscaler has looked, and found no room so far.
    not_found: bool = False
    #: What the autoscaler says about it; "": nothing.
    message: str = ""
    #: Names of its PodTemplates.
    templates: tuple[str, ...] = ()

    @property
    def is_refused(self) -> bool:
        """Whether the autoscaler's last word is that there are no such nodes."""
        return self.phase is RequestPhase.FAILED or (self.phase is RequestPhase.OPEN and self.not_found)


def found_request(document: Mapping[str, Any]) -> FoundRequest:
    """A request as the API server has it. Parts that other programs wrote may be of any form."""
    metadata = document["metadata"]
    attempt = (metadata.get("annotations") or {}).get(PROVISIONING_ATTEMPT, "")
    created = _second(metadata.get("creationTimestamp"))
    phase, since, message = _phase(document, created)
    not_found, why = _not_found(document)
    sets = (document.get("spec") or {}).get("podSets") or []
    return FoundRequest(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        owner=(metadata.get("labels") or {}).get(PROVISIONING_FOR, ""),
        attempt=int(attempt) if attempt.isascii() and attempt.isdigit() and len(attempt) < 6 else 0,
        created=created,
        phase=phase,
        since=since,
        not_found=not_found,
        message=message or (why if phase is RequestPhase.OPEN else ""),
        templates=tuple((each.get("podTemplateRef") or {}).get("name", "") for each in sets),
    )


def is_made_by_muster(document: Mapping[str, Any]) -> bool:
    """Whether a request with Muster's label is in all its parts as Muster makes them.

    Users may write the label on their own requests, and name in them PodTemplates of others. Such a request is none of
    Muster's: it is neither looked at nor deleted.
    """
    metadata = document["metadata"]
    name, labels = metadata["name"], metadata.get("labels") or {}
    named = _NAME.fullmatch(name)
    if named is None or (metadata.get("annotations") or {}).get(PROVISIONING_ATTEMPT) != named[1]:
        return False
    sets = (document.get("spec") or {}).get("podSets") or []
    templates = [(each.get("podTemplateRef") or {}).get("name") for each in sets]
    is_named = templates == [f"{name}-{index}" for index in range(len(templates))]
    return is_named and _owned_by(metadata, labels.get(PROVISIONING_FOR, ""))


def is_template_of(document: Mapping[str, Any], request: FoundRequest) -> bool:
    """Whether a PodTemplate with a name of the request's is the one that was made for it."""
    metadata = document["metadata"]
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    is_labelled = labels.get(PROVISIONING_FOR) == request.owner
    is_same = annotations.get(PROVISIONING_ATTEMPT) == str(request.attempt)
    return is_labelled and is_same and _owned_by(metadata, request.owner)


def _owned_by(metadata: Mapping[str, Any], owner: str) -> bool:
    """Whether the workload of the label is the one owner."""
    kind, _, _ = owner.partition(".")
    owners = metadata.get("ownerReferences") or []
    return len(owners) == 1 and owner_value(kind, owners[0]["uid"]) == owner


def _phase(document: Mapping[str, Any], created: int) -> tuple[RequestPhase, int, str]:
    conditions = (document.get("status") or {}).get("conditions") or []
    true = {each.get("type"): each for each in conditions if each.get("status") == "True"}
    for phase in _BY_WEIGHT:
        if (found := true.get(phase)) is not None:
            return phase, _second(found.get("lastTransitionTime")) or created, _message(found)
    return RequestPhase.OPEN, created, ""


def _not_found(document: Mapping[str, Any]) -> tuple[bool, str]:
    """Whether the autoscaler says that it found no room so far, and its words."""
    conditions = (document.get("status") or {}).get("conditions") or []
    for each in conditions:
        is_not_provisioned = each.get("type") == RequestPhase.PROVISIONED and each.get("status") == "False"
        if is_not_provisioned and each.get("reason") == _NOT_FOUND:
            return True, _message(each)
    return False, ""


def _message(condition: Mapping[str, Any]) -> str:
    return " ".join(str(condition.get("message") or "").split())[:_LONGEST_MESSAGE]


def _second(text: object) -> int:
    """Seconds since the epoch; 0: not a time."""
    try:
        return int(datetime.fromisoformat(str(text)).timestamp())
    except ValueError:
        return 0
