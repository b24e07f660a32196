"""Webhook configurations: where the API server finds the webhook, and which requests it asks about.

Pure: options in, documents out. ``failurePolicy`` is Ignore throughout: while no replica answers, work can still
be submitted; it waits (the policies see to that without a webhook), and the controller puts what a refusal
would have shown on the object as a reason. See docs/decisions/0002-the-webhook-fails-open.md.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from admission.kube.policies.policy_forms import not_by
from queues.api.api_resources import (
    HYPERNODES,
    JOB_FLOWS,
    JOB_TEMPLATES,
    POD_GROUPS,
    QUEUES,
    VOLCANO_CRON_JOBS,
    VOLCANO_JOBS,
    WEBHOOK_CONFIGURATIONS,
    ApiResource,
    Document,
)

#: Name of the mutating and of the validating configuration.
CONFIGURATION: Final = "muster"
SERVICE: Final = "muster-webhook"
READ_SERVICE: Final = "muster"
#: Where the replicas share the certificates.
SECRET: Final = "muster-webhook"
#: What an unreachable webhook may cost each request.
TIMEOUT_SECONDS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Callee:
    """Where the API server finds the webhook: a URL, or else the Service in this namespace."""

    namespace: str
    url: str | None = None

    @property
    def read_host(self) -> str:
        """The name by which the API server and replicas know the read API."""
        return f"{READ_SERVICE}.{self.namespace}.svc"

    def names(self) -> frozenset[str]:
        """What its certificate has to be good for; the read API has the same one."""
        host = f"{SERVICE}.{self.namespace}.svc"
        own = {f"{name}{ending}" for name in (host, self.read_host) for ending in ("", ".cluster.local")}
        at = urlsplit(self.url).hostname if self.url is not None else None
        return frozenset(own | ({at} if at else set()))

    def client_config(self, path: str, bundle: bytes) -> Document:
        """The ``clientConfig`` of one webhook."""
        trust = {"caBundle": base64.b64encode(bundle).decode()}
        if self.url is not None:
            return {"url": f"{self.url.rstrip('/')}{path}", **trust}
        service = {"namespace": self.namespace, "name": SERVICE, "path": path, "port": 443}
        return {"service": service, **trust}


def webhook_configurations(callee: Callee, bundle: bytes, identity: str) -> list[Document]:
    """The mutating and the validating configuration. ``bundle``: PEM that the API server shall believe."""

    def webhook(name: str, kind: ApiResource, operations: Sequence[str], path: str) -> Document:
        conditions: list[dict[str, Any]] = [not_by(identity)]
        if "UPDATE" in operations:
            # Statuses, labels and finalizers are none of its business.
            changed = (
                "request.operation != 'UPDATE' || object.metadata.generation != oldObject.metadata.generation"
            )
            conditions.append({"name": "spec-changed", "expression": changed})
        return {
            "name": f"{name}.muster.dev",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Ignore",
            "timeoutSeconds": TIMEOUT_SECONDS,
            "matchPolicy": "Equivalent",
            "clientConfig": callee.client_config(path, bundle),
            "rules": [kind.rule(operations)],
            "matchConditions": conditions,
        }

    kinds = (("jobs.batch-volcano", VOLCANO_JOBS), ("podgroups", POD_GROUPS), ("queues", QUEUES))
    # They have no defaults.
    checked = (
        *kinds,
        ("hypernodes", HYPERNODES),
        ("cronjobs.batch-volcano", VOLCANO_CRON_JOBS),
        ("jobflows", JOB_FLOWS),
        ("jobtemplates", JOB_TEMPLATES),
    )
    asked: dict[ApiResource, list[str]] = {kind: ["CREATE", "UPDATE"] for _, kind in checked}
    asked[QUEUES] = ["CREATE", "UPDATE", "DELETE"]
    mutating, validating = WEBHOOK_CONFIGURATIONS
    return [
        mutating.document(
            CONFIGURATION,
            webhooks=[webhook(f"default.{name}", kind, ["CREATE"], "/mutate") for name, kind in kinds],
        ),
        validating.document(
            CONFIGURATION,
            webhooks=[webhook(f"validate.{name}", kind, asked[kind], "/validate") for name, kind in checked],
        ),
    ]
