"""Rights at the API server: of Muster itself, with nothing that it does not use, and ready-made roles for people.

Pure: options in, documents out. The rules are in ``rights.yaml``: each serves one purpose and says which. In Kubernetes
users grant only rights that they have, so an administrator who installs Muster needs all of these as well
(cluster-admin has).
"""

from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Final

import msgspec

from admission.kube.policies.policy_forms import ADMINISTER
from admission.workloads.kinds import OPERATOR_KINDS
from queues.api.api_resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    Document,
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


class PolicyRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One purpose, and what it takes."""

    #: A word for it, unique; tests and messages use it.
    purpose: str
    why: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    group: str = ""
    #: Only objects of these names.
    names: tuple[str, ...] = ()

    def document(self) -> Document:
        """As RBAC writes it."""
        return _rule(self.group, self.resources, self.verbs, self.names)


def _rule(group: str, resources: Sequence[str], verbs: Sequence[str], names: Sequence[str] = ()) -> Document:
    rule = {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
    return rule | ({"resourceNames": list(names)} if names else {})


_RIGHTS: Final = msgspec.yaml.decode(
    files(__package__).joinpath("rights.yaml").read_bytes(), type=dict[str, tuple[PolicyRule, ...]]
)


def _operator_rules() -> Iterator[PolicyRule]:
    """Rights for kinds of other projects, by their API groups."""
    groups: dict[str, list[str]] = {}
    for description in OPERATOR_KINDS:
        groups.setdefault(description.resource.group, []).append(description.resource.plural)
        for maker in description.suspended_with:
            why = "suspend and resume it with what its operator makes of it"
            yield PolicyRule(f"patch-{maker.group}", why, (maker.plural,), ("patch",), maker.group)
    for group, found in groups.items():
        plurals = tuple(found)
        yield PolicyRule(f"see-{group}", "what waits or runs", plurals, _SEE, group)
        why = "resume what is admitted, suspend what is evicted"
        yield PolicyRule(f"patch-{group}", why, plurals, ("patch",), group)
        yield PolicyRule(f"read-{group}", "the status that is about to be changed", plurals, ("get",), group)
        statuses = tuple(f"{plural}/status" for plural in plurals)
        yield PolicyRule(f"tell-{group}", "why it waits", statuses, ("patch",), group)


#: Cluster-wide rights of Muster, those for kinds of other projects included.
CONTROLLER: Final = (*_RIGHTS["controller"], *_operator_rules())
#: Rights in Muster's own namespace.
AT_HOME: Final = _RIGHTS["at-home"]
#: Cluster-wide rights for requests to cluster autoscalers (``policy.provisioning``), granted only where that is wanted.
PROVISIONING: Final = _RIGHTS["provisioning"]
#: Cluster-wide rights of the node agents. A policy holds what they write to the Node that their token names
#: (``admission.kube.policies.agents``).
AGENT: Final = _RIGHTS["agent"]
#: Rights of the node agents in their namespace.
AGENT_AT_HOME: Final = _RIGHTS["agent-at-home"]

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
