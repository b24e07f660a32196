"""Texts as expressions in CEL, and who asks: users that admission policies and webhooks know. Pure."""

from collections.abc import Iterable
from typing import Final

from queues.api.api_resources import QUEUES, Document

#: Copies the template of a batch/v1 Job into pods.
JOB_CONTROLLER: Final = "system:serviceaccount:kube-system:job-controller"
#: All controllers, where each has no account of its own.
CONTROLLER_MANAGER: Final = "system:kube-controller-manager"
#: Takes the owner from what outlives it: ``kubectl delete --cascade=orphan``.
GARBAGE_COLLECTOR: Final = "system:serviceaccount:kube-system:generic-garbage-collector"
#: A right that RBAC grants and the API server itself does not ask for: a user who has it may change every Queue.
ADMINISTER: Final = "administer"
#: Whether who asks is a platform administrator.
MAY_ADMINISTER: Final = (
    f"authorizer.group('{QUEUES.group}').resource('{QUEUES.plural}').check('{ADMINISTER}').allowed()"
)


def text(value: str) -> str:
    """A CEL string literal."""
    inside = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{inside}'"


def texts(values: Iterable[str]) -> str:
    """A CEL list of strings."""
    return "[" + ", ".join(text(value) for value in values) + "]"


def not_by(identity: str) -> Document:
    """A match condition: the request is not Muster's own."""
    return {"name": "not-by-muster", "expression": f"request.userInfo.username != {text(identity)}"}
