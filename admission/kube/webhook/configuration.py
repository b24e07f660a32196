"""Webhook configurations: where the API server finds the webhook, and which requests it asks about.

Pure: options in, documents out. ``failurePolicy`` is Ignore for what users submit: while no replica answers, it is
accepted and waits (the policies see to that without a webhook), and the controller puts what a refusal would have shown
on the object as a reason. See docs/decisions/webhook-and-policies.md.

It is Fail for writes of Queues by users who are no platform administrators: only the webhook knows which queues are
theirs. See docs/decisions/quota-and-tenants.md.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from admission.kube.policies.cel import (
    CONTROLLER_MANAGER,
    GARBAGE_COLLECTOR,
    MAY_ADMINISTER,
    not_by,
    text,
    texts,
)
from queues.api.api_resources import (
    COMMANDS,
    DEPLOYMENTS,
    FLAVORS,
    HYPERNODES,
    JOB_FLOWS,
    JOB_TEMPLATES,
    JOBS,
    NODE_DRAINS,
    POD_GROUPS,
    QUEUES,
    REPLICA_SETS,
    RESERVATIONS,
    STATEFUL_SETS,
    TOPOLOGIES,
    VOLCANO_CRON_JOBS,
    VOLCANO_JOBS,
    WEBHOOK_CONFIGURATIONS,
    ApiResource,
    Document,
)
from queues.api.names import AFTER, GROUP_MIN_MEMBER, QUEUE_LABEL
from queues.api.workload_kinds import OPERATOR_KINDS

#: Name of the mutating and of the validating configuration.
CONFIGURATION: Final = "muster"
#: Name of the validating configuration that fails closed. It is installed in any case.
TENANT_CONFIGURATION: Final = "muster-tenants"
SERVICE: Final = "muster-webhook"
READ_SERVICE: Final = "muster"
#: Where the replicas share the certificates.
SECRET: Final = "muster-webhook"
#: What an unreachable webhook may cost each request.
TIMEOUT_SECONDS: Final = 2
_WORK: Final = (JOBS, VOLCANO_JOBS, POD_GROUPS, *(each.resource for each in OPERATOR_KINDS))
#: What is asked about if it comes after other work. Pods are not: there are many, and each says it as its reason.
_MAY_COME_AFTER: Final[Document] = {
    "apiGroups": sorted({each.group for each in _WORK}),
    "apiVersions": sorted({each.version for each in _WORK}),
    "resources": sorted({each.plural for each in _WORK}),
    "operations": ["CREATE", "UPDATE"],
}
#: What may make an owner with pods a gang is warned of: it stays none.
_GANG_OR_QUEUE: Final = (
    f"metadata.?annotations[?{text(GROUP_MIN_MEMBER)}]",
    f"spec.template.metadata.?annotations[?{text(GROUP_MIN_MEMBER)}]",
    f"metadata.?labels[?{text(QUEUE_LABEL)}]",
)
_NEW_JOB_OR_ANOTHER_GANG: Final = (
    "!has(object.metadata.ownerReferences) && (request.operation == 'CREATE' || "
    + " || ".join(f"object.{each} != oldObject.{each}" for each in _GANG_OR_QUEUE)
    + ")"
)
#: What it may take to list all Queues, for one that must be answered.
_TENANT_TIMEOUT_SECONDS: Final = 5


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
    """The mutating and the validating configurations. ``bundle``: PEM that the API server shall believe."""

    def asked_about(name: str, kind: ApiResource, operations: Sequence[str], path: str) -> Document:
        conditions = [not_by(identity)]
        if "UPDATE" in operations:
            # Statuses, labels and finalizers are none of its business. The generation would be counted too late for
            # the defaults.
            changed = "request.operation != 'UPDATE' || object.?spec != oldObject.?spec"
            conditions.append({"name": "spec-changed", "expression": changed})
        config = callee.client_config(path, bundle)
        return _webhook(name, config, [kind.rule(operations)], conditions, "Ignore", TIMEOUT_SECONDS)

    checked = (
        ("jobs.batch-volcano", VOLCANO_JOBS),
        ("podgroups", POD_GROUPS),
        ("queues", QUEUES),
        ("hypernodes", HYPERNODES),
        ("cronjobs.batch-volcano", VOLCANO_CRON_JOBS),
        ("jobflows", JOB_FLOWS),
        ("jobtemplates", JOB_TEMPLATES),
        ("reservations", RESERVATIONS),
        ("nodedrains", NODE_DRAINS),
        ("resourceflavors", FLAVORS),
        ("topologies", TOPOLOGIES),
    )
    after = f"metadata.?annotations[?{text(AFTER)}]"
    comes_after = {"name": "comes-after-others", "expression": f"object.{after}.hasValue()"}
    changed = f"request.operation != 'UPDATE' || object.{after}.orValue('') != oldObject.{after}.orValue('')"
    # Of all other work the API server asks about none.
    dependencies = _webhook(
        "validate.dependencies",
        callee.client_config("/dependencies", bundle),
        [_MAY_COME_AFTER],
        [comes_after, {"name": "comes-after-others-than-before", "expression": changed}],
        "Ignore",
        TIMEOUT_SECONDS,
    )
    asked: dict[ApiResource, list[str]] = {kind: ["CREATE", "UPDATE"] for _, kind in checked}
    asked[QUEUES] = ["CREATE", "UPDATE", "DELETE"]
    mutating, validating = WEBHOOK_CONFIGURATIONS
    return [
        mutating.document(
            CONFIGURATION,
            webhooks=[asked_about("default.queues", QUEUES, ["CREATE", "UPDATE"], "/mutate")],
        ),
        validating.document(
            CONFIGURATION,
            webhooks=[
                *(asked_about(f"validate.{name}", kind, asked[kind], "/validate") for name, kind in checked),
                dependencies,
                _warnings(callee.client_config("/warn", bundle), identity),
            ],
        ),
        tenant_configuration(callee, bundle, identity),
    ]


def _warnings(config: Document, identity: str) -> Document:
    """The webhook that warns of new Jobs in queues, and of owners there that get a gang: neither is refused, they wait.

    What is in no queue is left out by a selector, which costs nothing.
    """
    owners = [kind.rule(["UPDATE"]) for kind in (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS)]
    conditions = [not_by(identity), {"name": "new-or-another-gang", "expression": _NEW_JOB_OR_ANOTHER_GANG}]
    rules = [JOBS.rule(["CREATE"]), *owners]
    found = _webhook("warn.queued", config, rules, conditions, "Ignore", TIMEOUT_SECONDS)
    found["objectSelector"] = {"matchExpressions": [{"key": QUEUE_LABEL, "operator": "Exists"}]}
    return found


def tenant_configuration(callee: Callee, bundle: bytes, identity: str) -> Document:
    """The validating configuration by which a user who is no platform administrator changes a Queue, asks for an
    action on it or reserves nodes for it, only if a replica agrees."""
    # They take owners and finalizers off, of whatever object.
    collectors = texts((GARBAGE_COLLECTOR, CONTROLLER_MANAGER))
    others = [
        not_by(identity),
        {
            "name": "not-by-the-garbage-collector",
            "expression": f"!(request.userInfo.username in {collectors})",
        },
        {"name": "not-by-a-platform-administrator", "expression": f"!{MAY_ADMINISTER}"},
    ]
    on_a_queue = {
        "name": "on-a-queue",
        "expression": f"object.?target.?kind.orValue('') == {text(QUEUES.kind)}",
    }
    with_parts = [
        (
            each.plural,
            {**each.rule(["CREATE", "UPDATE", "DELETE"]), "resources": [each.plural, f"{each.plural}/*"]},
            others,
        )
        for each in (QUEUES, RESERVATIONS)
    ]
    commands = ("commands", COMMANDS.rule(["CREATE", "UPDATE"]), [*others, on_a_queue])
    webhooks = [
        _webhook(
            f"authorize.{name}",
            callee.client_config("/authorize", bundle),
            [rule],
            conditions,
            "Fail",
            _TENANT_TIMEOUT_SECONDS,
        )
        for name, rule, conditions in (*with_parts, commands)
    ]
    return WEBHOOK_CONFIGURATIONS[1].document(TENANT_CONFIGURATION, webhooks=webhooks)


def _webhook(
    name: str, config: Document, rules: list[Document], conditions: list[Document], policy: str, seconds: int
) -> Document:
    return {
        "name": f"{name}.muster.dev",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": policy,
        "timeoutSeconds": seconds,
        "matchPolicy": "Equivalent",
        "clientConfig": config,
        "rules": rules,
        "matchConditions": conditions,
    }
