"""Rights at the API server: of Muster itself, with nothing that it does not use, and ready-made roles for people.

Pure: options in, documents out. Each rule serves one purpose and says which; a test takes them away one by one
and expects what the purpose names to fail. In Kubernetes users grant only rights that they have, so an
administrator who installs Muster needs all of these as well (cluster-admin has).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from admission.kube.policies.policy_forms import ADMINISTER
from admission.kube.webhook.configuration import (
    CONFIGURATION,
    SECRET,
    TENANT_CONFIGURATION,
)
from admission.workloads.kinds import OPERATOR_KINDS
from queues.api.api_resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    Document,
    api_service_name,
)
from queues.api.names import AGENT_NAMESPACE, READ_API

ACCOUNT: Final = "muster"
#: Service account of the node agents. It has a namespace of its own: agents need host paths and the host's processes,
#: which the level "restricted" of Muster's namespace does not let pods have.
AGENT_ACCOUNT: Final = "muster-agent"
#: Where the API server states how its proxy identifies itself, and the role that may read it.
PROXY_NAMESPACE: Final = "kube-system"
_PROXY_READER: Final = {
    "apiGroup": "rbac.authorization.k8s.io",
    "kind": "Role",
    "name": "extension-apiserver-authentication-reader",
}
_VOLCANO_BATCH: Final = "batch.volcano.sh"
_VOLCANO_SCHEDULING: Final = "scheduling.volcano.sh"
_VOLCANO_BUS: Final = "bus.volcano.sh"
_VOLCANO_TOPOLOGY: Final = "topology.volcano.sh"
_VOLCANO_FLOW: Final = "flow.volcano.sh"
_OWN: Final = "muster.dev"
_KOORDINATOR: Final = "scheduling.koordinator.sh"
_SEE: Final = ("list", "watch")


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One purpose, and what it takes."""

    #: A word for it, unique; tests and messages use it.
    purpose: str
    why: str
    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    #: Only objects of these names.
    names: tuple[str, ...] = ()

    def document(self) -> Document:
        """As RBAC writes it."""
        return _rule(self.group, self.resources, self.verbs, self.names)


def _rule(group: str, resources: Sequence[str], verbs: Sequence[str], names: Sequence[str] = ()) -> Document:
    rule = {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
    return rule | ({"resourceNames": list(names)} if names else {})


_OWN_RULES: Final = (
    PolicyRule("see-nodes", "places and their size", "", ("nodes",), _SEE),
    PolicyRule(
        "see-namespaces",
        "the queue that a namespace defaults to, and the queues it may use",
        "",
        ("namespaces",),
        _SEE,
    ),
    PolicyRule("see-pods", "members of gangs, and what others take on nodes", "", ("pods",), _SEE),
    PolicyRule(
        "see-priorities",
        "the value of a priority class",
        "scheduling.k8s.io",
        ("priorityclasses",),
        _SEE,
    ),
    PolicyRule("see-jobs", "Jobs that wait or run", "batch", ("jobs",), _SEE),
    PolicyRule("see-volcano-jobs", "Volcano Jobs that wait or run", _VOLCANO_BATCH, ("jobs",), _SEE),
    PolicyRule("see-cron-jobs", "when Volcano Jobs start", _VOLCANO_BATCH, ("cronjobs",), _SEE),
    PolicyRule(
        "see-flows",
        "which Volcano Jobs start after which",
        _VOLCANO_FLOW,
        ("jobflows", "jobtemplates"),
        _SEE,
    ),
    PolicyRule("see-groups", "gangs made of pods", _VOLCANO_SCHEDULING, ("podgroups",), _SEE),
    PolicyRule("see-queues", "tenants and their quota", _VOLCANO_SCHEDULING, ("queues",), _SEE),
    PolicyRule("see-commands", "what people ask of Jobs and queues", _VOLCANO_BUS, ("commands",), _SEE),
    PolicyRule("delete-commands", "those that were carried out", _VOLCANO_BUS, ("commands",), ("delete",)),
    PolicyRule("see-flavors", "kinds of hardware", _OWN, ("resourceflavors",), _SEE),
    PolicyRule("see-topologies", "racks and blocks", _OWN, ("topologies",), _SEE),
    PolicyRule(
        "see-closures",
        "nodes that are kept for a queue, or taken out of service",
        _OWN,
        ("reservations", "nodedrains"),
        _SEE,
    ),
    PolicyRule(
        "tell-closures",
        "phase and nodes",
        _OWN,
        ("reservations/status", "nodedrains/status"),
        ("patch",),
    ),
    PolicyRule(
        "read-a-closure", "the status about to be changed", _OWN, ("reservations", "nodedrains"), ("get",)
    ),
    PolicyRule(
        "see-budgets", "how many pods of an application may go", "policy", ("poddisruptionbudgets",), _SEE
    ),
    PolicyRule("see-quotas", "what a namespace lets its pods ask", "", ("resourcequotas",), _SEE),
    PolicyRule("see-limits", "what a namespace adds to its pods", "", ("limitranges",), _SEE),
    PolicyRule("see-runtimes", "what a runtime adds to its pods", "node.k8s.io", ("runtimeclasses",), _SEE),
    PolicyRule(
        "see-webhooks",
        "when pods may be changed otherwise than before",
        "admissionregistration.k8s.io",
        ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
        _SEE,
    ),
    PolicyRule(
        "see-devices",
        "devices that pods claim, and those that nodes have",
        "resource.k8s.io",
        ("deviceclasses", "resourceslices", "resourceclaimtemplates", "resourceclaims"),
        _SEE,
    ),
    PolicyRule(
        "see-volumes",
        "where pods that wait can use their volumes",
        "",
        ("persistentvolumeclaims", "persistentvolumes"),
        _SEE,
    ),
    PolicyRule(
        "see-storage",
        "where volumes can be made, and how many a node can attach",
        "storage.k8s.io",
        ("storageclasses", "csinodes"),
        _SEE,
    ),
    PolicyRule("see-node-devices", "unhealthy GPUs", _KOORDINATOR, ("devices",), _SEE),
    PolicyRule(
        "take-nodes-out",
        "the taint of nodes that are recovered, and how far that is",
        "",
        ("nodes",),
        ("get", "patch"),
    ),
    PolicyRule("recover-nodes", "Jobs that recover and test nodes", "batch", ("jobs",), ("create", "delete")),
    PolicyRule("read-recoveries", "what these Jobs are made from", "batch", ("cronjobs",), ("get",)),
    PolicyRule(
        "read-heartbeats",
        "when the agent of a node was heard last",
        "coordination.k8s.io",
        ("leases",),
        ("get",),
    ),
    PolicyRule("see-hypernodes", "the network, as Volcano has it", _VOLCANO_TOPOLOGY, ("hypernodes",), _SEE),
    PolicyRule(
        "create-pods",
        "members of Volcano Jobs; pods without an owner that go back; dry runs of pod templates",
        "",
        ("pods",),
        ("create",),
    ),
    PolicyRule("patch-pods", "take the gate off and pin; take the finalizer off", "", ("pods",), ("patch",)),
    PolicyRule(
        "evict-pods", "victims, as their disruption budgets allow", "", ("pods/eviction",), ("create",)
    ),
    PolicyRule("delete-pods", "take back what cannot start; what is lost", "", ("pods",), ("delete",)),
    PolicyRule("read-a-pod", "whose it is, if a pod of that name exists already", "", ("pods",), ("get",)),
    PolicyRule("tell-pods", "why a pod of its own waits", "", ("pods/status",), ("patch",)),
    PolicyRule("patch-jobs", "resume admitted Jobs, suspend evicted ones", "batch", ("jobs",), ("patch",)),
    PolicyRule("tell-jobs", "why a Job waits", "batch", ("jobs/status",), ("patch",)),
    PolicyRule("read-a-job", "the status that is about to be changed", "batch", ("jobs",), ("get",)),
    PolicyRule("tell-volcano-jobs", "phase and counts", _VOLCANO_BATCH, ("jobs/status",), ("patch",)),
    PolicyRule("read-a-volcano-job", "the status about to be changed", _VOLCANO_BATCH, ("jobs",), ("get",)),
    PolicyRule(
        "own-for-volcano-jobs",
        "objects that block their Job's deletion, where the cluster asks for the right to say so",
        _VOLCANO_BATCH,
        ("jobs/finalizers",),
        ("update",),
    ),
    PolicyRule(
        "start-volcano-jobs",
        "Jobs of CronJobs and JobFlows: they start, are replaced, and are not kept for ever",
        _VOLCANO_BATCH,
        ("jobs",),
        ("create", "delete"),
    ),
    PolicyRule(
        "tell-cron-jobs", "their Jobs and last times", _VOLCANO_BATCH, ("cronjobs/status",), ("patch",)
    ),
    PolicyRule("read-a-cron-job", "the status about to be changed", _VOLCANO_BATCH, ("cronjobs",), ("get",)),
    PolicyRule(
        "tell-flows",
        "phase, and Jobs by phase",
        _VOLCANO_FLOW,
        ("jobflows/status", "jobtemplates/status"),
        ("patch",),
    ),
    PolicyRule(
        "read-a-flow",
        "the status about to be changed",
        _VOLCANO_FLOW,
        ("jobflows", "jobtemplates"),
        ("get",),
    ),
    PolicyRule(
        "create-groups",
        "the PodGroup of a Volcano Job, or of another owner of pods",
        _VOLCANO_SCHEDULING,
        ("podgroups",),
        ("create",),
    ),
    PolicyRule(
        "resize-groups",
        "the PodGroup of a Volcano Job or another owner that says another number of pods now",
        _VOLCANO_SCHEDULING,
        ("podgroups",),
        ("patch",),
    ),
    PolicyRule(
        "remove-groups",
        "the PodGroup of pods without an owner, when none of them is left",
        _VOLCANO_SCHEDULING,
        ("podgroups",),
        ("delete",),
    ),
    PolicyRule(
        "read-owners",
        "whose pods are one gang",
        "apps",
        ("replicasets", "statefulsets"),
        ("get",),
    ),
    PolicyRule("tell-groups", "phase and counts", _VOLCANO_SCHEDULING, ("podgroups/status",), ("patch",)),
    PolicyRule(
        "read-a-group", "the status about to be changed", _VOLCANO_SCHEDULING, ("podgroups",), ("get",)
    ),
    PolicyRule("tell-queues", "state and use", _VOLCANO_SCHEDULING, ("queues/status",), ("patch",)),
    PolicyRule(
        "read-a-queue",
        "one too young for the watch; the status about to be changed",
        _VOLCANO_SCHEDULING,
        ("queues",),
        ("get",),
    ),
    PolicyRule("create-services", "plugin svc: names of members", "", ("services",), ("create", "get")),
    PolicyRule(
        "create-config-maps", "plugin svc: lists of members", "", ("configmaps",), ("create", "get", "patch")
    ),
    PolicyRule("create-secrets", "plugin ssh: keys of a Job; it reads none", "", ("secrets",), ("create",)),
    PolicyRule("create-claims", "volumes of a Job", "", ("persistentvolumeclaims",), ("create", "get")),
    PolicyRule(
        "create-network-policies",
        "plugin svc: members reach one another",
        "networking.k8s.io",
        ("networkpolicies",),
        ("create", "get"),
    ),
    PolicyRule("tell-events", "what happened, for `kubectl describe`", "", ("events",), ("create",)),
    PolicyRule(
        "publish-certificates",
        "the bundle by which the API server believes the webhook",
        "admissionregistration.k8s.io",
        ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
        ("get", "patch"),
        (CONFIGURATION, TENANT_CONFIGURATION),
    ),
    PolicyRule(
        "publish-read-api",
        "the bundle by which the API server believes the read API",
        "apiregistration.k8s.io",
        ("apiservices",),
        ("get", "patch"),
        (api_service_name(READ_API),),
    ),
    PolicyRule(
        "know-users",
        "who asks the read API with a token",
        "authentication.k8s.io",
        ("tokenreviews",),
        ("create",),
    ),
    PolicyRule(
        "ask-rights",
        "what a user of the read API may see",
        "authorization.k8s.io",
        ("subjectaccessreviews",),
        ("create",),
    ),
)


def _operator_rules() -> Iterator[PolicyRule]:
    """Rights for kinds of other projects, by their API groups."""
    groups: dict[str, list[str]] = {}
    for description in OPERATOR_KINDS:
        groups.setdefault(description.resource.group, []).append(description.resource.plural)
        for maker in description.suspended_with:
            why = "suspend and resume it with what its operator makes of it"
            yield PolicyRule(f"patch-{maker.group}", why, maker.group, (maker.plural,), ("patch",))
    for group, found in groups.items():
        plurals = tuple(found)
        yield PolicyRule(f"see-{group}", "what waits or runs", group, plurals, _SEE)
        yield PolicyRule(
            f"patch-{group}", "resume what is admitted, suspend what is evicted", group, plurals, ("patch",)
        )
        yield PolicyRule(f"read-{group}", "the status that is about to be changed", group, plurals, ("get",))
        statuses = tuple(f"{plural}/status" for plural in plurals)
        yield PolicyRule(f"tell-{group}", "why it waits", group, statuses, ("patch",))


#: Cluster-wide rights of Muster, those for kinds of other projects included.
CONTROLLER: Final = (*_OWN_RULES, *_operator_rules())
#: Rights in Muster's own namespace.
AT_HOME: Final = (
    PolicyRule("make-certificates", "the first keyring", "", ("secrets",), ("create",)),
    PolicyRule("keep-certificates", "the shared keyring", "", ("secrets",), ("get", "update"), (SECRET,)),
)

#: Cluster-wide rights for requests to cluster autoscalers (``policy.provisioning``), granted only where that is wanted.
PROVISIONING: Final = (
    PolicyRule(
        "see-requests", "how far they are", "autoscaling.x-k8s.io", ("provisioningrequests",), ("list",)
    ),
    PolicyRule(
        "ask-for-nodes",
        "requests of gangs that wait for nodes",
        "autoscaling.x-k8s.io",
        ("provisioningrequests",),
        ("create", "delete"),
    ),
    PolicyRule(
        "describe-pods",
        "what these requests are about; read before they are deleted, since users make some too",
        "",
        ("podtemplates",),
        ("create", "get", "delete"),
    ),
)

#: Cluster-wide rights of the node agents. A policy holds what they write to the Node that their token names
#: (``admission.kube.policies.agents``).
AGENT: Final = (
    PolicyRule("read-device", "what was reported before", _KOORDINATOR, ("devices",), ("get",)),
    PolicyRule(
        "report-devices",
        "devices, links and health of the node, and which pod uses which",
        _KOORDINATOR,
        ("devices",),
        ("create", "update"),
    ),
    PolicyRule(
        "watch-node",
        "its uid and labels, and a person's word that a device is unhealthy",
        "",
        ("nodes",),
        _SEE,
    ),
    PolicyRule("label-node", "vendor, model and driver", "", ("nodes",), ("patch",)),
    PolicyRule(
        "own-by-node",
        "Devices go with their Node, where the cluster asks for the right to say so",
        "",
        ("nodes/finalizers",),
        ("update",),
    ),
    PolicyRule("watch-pods", "whose devices are used, and what was admitted", "", ("pods",), _SEE),
)
#: Rights of the node agents in their namespace.
AGENT_AT_HOME: Final = (
    PolicyRule("beat", "the agent of a node lives", "coordination.k8s.io", ("leases",), ("create", "patch")),
)

#: For people, bound by administrators or by way of Kubernetes' own view, edit and admin.
_QUEUED: Final = (
    (_VOLCANO_BATCH, "jobs"),
    (_VOLCANO_BATCH, "cronjobs"),
    (_VOLCANO_FLOW, "jobflows"),
    (_VOLCANO_FLOW, "jobtemplates"),
    (_VOLCANO_SCHEDULING, "podgroups"),
    # A policy asks whether the author of a Command may update its target.
    (_VOLCANO_BUS, "commands"),
)
#: Work of Kubernetes' own kinds. Its role "view" shows these too: the rules are for who has only Muster's.
_PLAIN_WORK: Final = (("batch", "jobs"), ("batch", "cronjobs"), ("", "pods"))
_SHOWN: Final = (
    (_VOLCANO_SCHEDULING, "queues"),
    (_OWN, "resourceflavors"),
    (_OWN, "topologies"),
    (_OWN, "reservations"),
    (_OWN, "nodedrains"),
    (_VOLCANO_TOPOLOGY, "hypernodes"),
)
#: What `kubectl muster nodes` reads besides: unhealthy GPUs, GPUs that pods claim, and when agents were heard last.
_HARDWARE: Final = (("", "nodes"), (_KOORDINATOR, "devices"), ("resource.k8s.io", "resourceslices"))
_HEARTBEATS: Final = ("coordination.k8s.io", "leases")
#: For users and groups in ``access.admins`` of a queue. RBAC cannot say which queues are theirs: a webhook that fails
#: closed does (``admission.kube.webhook.configuration``).
TENANT_ADMIN: Final = "muster-tenant-admin"
_READ: Final = ("get", "list", "watch")
_WRITE: Final = ("create", "update", "patch", "delete", "deletecollection")


def rbac(namespace: str, identity: str) -> list[Document]:
    """Roles and bindings. ``identity``: Muster's user name at the API server."""
    subjects = [_subject(identity)]
    everywhere, at_home = (
        {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": ACCOUNT}
        for kind in ("ClusterRole", "Role")
    )
    return [
        CLUSTER_ROLES.document(ACCOUNT, rules=[rule.document() for rule in CONTROLLER]),
        CLUSTER_ROLE_BINDINGS.document(ACCOUNT, roleRef=everywhere, subjects=subjects),
        ROLES.document(ACCOUNT, namespace, rules=[rule.document() for rule in AT_HOME]),
        ROLE_BINDINGS.document(ACCOUNT, namespace, roleRef=at_home, subjects=subjects),
        # Kubernetes' own role: how the API server's proxy identifies itself to the read API.
        ROLE_BINDINGS.document(ACCOUNT, PROXY_NAMESPACE, roleRef=_PROXY_READER, subjects=subjects),
        *people(),
    ]


def provisioning_rbac(identity: str) -> list[Document]:
    """Role and binding for requests to cluster autoscalers. ``identity``: Muster's user name at the API server."""
    name = f"{ACCOUNT}-provisioning"
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    return [
        CLUSTER_ROLES.document(name, rules=[rule.document() for rule in PROVISIONING]),
        CLUSTER_ROLE_BINDINGS.document(name, roleRef=role, subjects=[_subject(identity)]),
    ]


def agent_rbac() -> list[Document]:
    """The node agents' account, with its roles and bindings."""
    subjects = [_subject(agent_identity())]
    everywhere, at_home = (
        {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": AGENT_ACCOUNT}
        for kind in ("ClusterRole", "Role")
    )
    home = AGENT_NAMESPACE
    return [
        SERVICE_ACCOUNTS.document(AGENT_ACCOUNT, home),
        CLUSTER_ROLES.document(AGENT_ACCOUNT, rules=[rule.document() for rule in AGENT]),
        CLUSTER_ROLE_BINDINGS.document(AGENT_ACCOUNT, roleRef=everywhere, subjects=subjects),
        ROLES.document(AGENT_ACCOUNT, home, rules=[rule.document() for rule in AGENT_AT_HOME]),
        ROLE_BINDINGS.document(AGENT_ACCOUNT, home, roleRef=at_home, subjects=subjects),
    ]


def agent_identity() -> str:
    """The node agents' user name at the API server."""
    return f"system:serviceaccount:{AGENT_NAMESPACE}:{AGENT_ACCOUNT}"


def people() -> list[Document]:
    """Roles for tenants and administrators. Every user may ask the read API: other rights decide what it shows."""
    # Of kinds of other projects as well, installed or not: who may list them all sees everything.
    operators = ((each.resource.group, each.resource.plural) for each in OPERATOR_KINDS)
    seen = [
        _rule(group, [resource], _READ) for group, resource in (*_QUEUED, *_PLAIN_WORK, *operators, *_SHOWN)
    ]
    shown = [_rule(group, [resource], _READ) for group, resource in _SHOWN]
    submitted = [_rule(group, [resource], _WRITE) for group, resource in _QUEUED]
    kept = [_rule(group, [resource], (*_READ, *_WRITE)) for group, resource in _SHOWN]
    kept.append(_rule(_VOLCANO_SCHEDULING, ["queues"], [ADMINISTER]))
    # What is free or faulty, and what a drain is about.
    kept += [_rule(group, [resource], _READ) for group, resource in (*_HARDWARE, _HEARTBEATS)]
    kept.append(_rule(_VOLCANO_SCHEDULING, ["queues/status"], ("get", "update", "patch")))
    # Queues are closed and opened by Commands.
    asked_of_queues = _rule(_VOLCANO_BUS, ["commands"], ("create",))
    kept.append(asked_of_queues)
    administered = [_rule(group, [resource], _READ) for group, resource in _SHOWN]
    administered.append(_rule(_VOLCANO_SCHEDULING, ["queues"], ("create", "update", "patch", "delete")))
    administered.append(_rule(_OWN, ["reservations"], ("create", "update", "patch", "delete")))
    administered.append(asked_of_queues)
    group = READ_API.partition("/")[0]
    # A stream of events is asked for as a watch, which the API server does not cut off. A trial is a question with a
    # body: it changes nothing.
    asked = [_rule(group, ["*"], ("get", "list", "watch")), _rule(group, ["trials"], ("create",))]
    reader = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "muster-reader"}
    everybody = {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:authenticated"}
    return [
        CLUSTER_ROLES.document("muster-viewer", labels=_joins("view"), rules=seen),
        # To be bound in the whole cluster: queues have no namespace, and it shows no workloads.
        CLUSTER_ROLES.document("muster-queue-viewer", rules=shown),
        CLUSTER_ROLES.document("muster-submitter", labels=_joins("edit"), rules=submitted),
        CLUSTER_ROLES.document(TENANT_ADMIN, rules=administered),
        CLUSTER_ROLES.document("muster-queue-admin", rules=kept),
        CLUSTER_ROLES.document("muster-reader", rules=asked),
        CLUSTER_ROLE_BINDINGS.document("muster-reader", roleRef=reader, subjects=[everybody]),
    ]


def _joins(role: str) -> dict[str, str]:
    """The label by which a role's rules become part of one of Kubernetes' own roles."""
    return {f"rbac.authorization.k8s.io/aggregate-to-{role}": "true"}


def _subject(identity: str) -> Document:
    """A service account if the name is one's, else a user."""
    prefix, _, rest = identity.partition("system:serviceaccount:")
    if not prefix and rest.count(":") == 1:
        namespace, name = rest.split(":")
        return {"kind": "ServiceAccount", "namespace": namespace, "name": name}
    return {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": identity}
