"""Rights at the API server: of Muster itself, with nothing that it does not use, and ready-made roles for people.

Pure: options in, documents out. The rules are in ``rights.yaml``: each serves one purpose and says which. In Kubernetes
users grant only rights that they have, so an administrator who installs Muster needs all of these as well
(cluster-admin has).
"""

from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from typing import Final

import msgspec

from queues.api.api_resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    ApiResource,
    Document,
)
from queues.api.names import AGENT_NAMESPACE
from queues.api.types.workload_kind import WorkloadKindSpec
from queues.api.workload_kinds import OPERATOR_KINDS

ACCOUNT: Final = "muster"
#: The role by which every user may ask the read API.
READER: Final = "muster-reader"
#: Service account of the node agents. It has a namespace of its own: agents need host paths and the host's processes,
#: which the level "restricted" of Muster's namespace does not let pods have.
AGENT_ACCOUNT: Final = "muster-agent"
#: Where the API server states how its proxy identifies itself, and the role that may read it.
PROXY_NAMESPACE: Final = "kube-system"
_GROUP: Final = "rbac.authorization.k8s.io"
_PROXY_READER: Final = {
    "apiGroup": _GROUP,
    "kind": "Role",
    "name": "extension-apiserver-authentication-reader",
}
#: For users and groups in ``access.admins`` of a queue. RBAC cannot say which queues are theirs: a webhook that fails
#: closed does (``admission.kube.webhook.configuration``).
TENANT_ADMIN: Final = "muster-tenant-admin"


class PolicyRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One purpose, and what it takes."""

    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    group: str = ""
    #: Other groups that have some of the resources. No two have one of the same name.
    more_groups: tuple[str, ...] = ()
    #: Only objects of these names.
    names: tuple[str, ...] = ()
    #: A word for what Muster needs it for, unique; tests and messages use it. "": it is for people.
    purpose: str = ""
    why: str = ""

    def document(self) -> Document:
        """As RBAC writes it."""
        names = {"resourceNames": list(self.names)} if self.names else {}
        return {
            "apiGroups": [self.group, *self.more_groups],
            "resources": list(self.resources),
            "verbs": list(self.verbs),
            **names,
        }


class PeoplesRole(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A role for people, bound by administrators, or part of one of Kubernetes' own."""

    rules: tuple[PolicyRule, ...]
    #: Kubernetes' role whose part it is: ``view`` or ``edit``; "": none's.
    joins: str = ""


class GrantedRights(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """The rights of all accounts, and of people."""

    controller: tuple[PolicyRule, ...]
    at_home: tuple[PolicyRule, ...]
    provisioning: tuple[PolicyRule, ...]
    agent: tuple[PolicyRule, ...]
    agent_at_home: tuple[PolicyRule, ...]
    people: dict[str, PeoplesRole]


_RIGHTS: Final = msgspec.yaml.decode(
    files(__package__).joinpath("rights.yaml").read_bytes(), type=GrantedRights
)


def kind_rules(kinds: Iterable[WorkloadKindSpec]) -> Iterator[PolicyRule]:
    """Muster's rights for kinds of other projects."""
    waiting = [kind for kind in kinds if not kind.passes_on]
    for maker in dict.fromkeys(maker for kind in waiting for maker in kind.suspended_with):
        why = "suspend and resume it with what its operator makes of it"
        yield _right_to([maker], "patch", purpose=f"hold-{maker.group}", why=why)
    if resources := [kind.resource for kind in waiting]:
        why = "see what waits or runs, resume what is admitted, suspend what is evicted"
        yield _right_to(resources, "get", "list", "watch", "patch", purpose="hold-objects", why=why)
        yield _right_to(resources, "patch", part="/status", purpose="tell-objects", why="why it waits")


def _right_to(
    resources: Sequence[ApiResource], *verbs: str, part: str = "", purpose: str = "", why: str = ""
) -> PolicyRule:
    """A right to objects of these kinds, or to a part of them."""
    plurals = tuple(f"{each.plural}{part}" for each in resources)
    group, *others = dict.fromkeys(each.group for each in resources)
    return PolicyRule(plurals, verbs, group, tuple(others), purpose=purpose, why=why)


#: Cluster-wide rights of Muster, those for kinds of other projects included.
CONTROLLER: Final = (*_RIGHTS.controller, *kind_rules(OPERATOR_KINDS))
#: Rights in Muster's own namespace.
AT_HOME: Final = _RIGHTS.at_home
#: Cluster-wide rights for requests to cluster autoscalers (``policy.provisioning``), granted only where that is wanted.
PROVISIONING: Final = _RIGHTS.provisioning
#: Cluster-wide rights of the node agents. A policy holds what they write to the Node that their token names
#: (``admission.kube.policies.policy_documents``).
AGENT: Final = _RIGHTS.agent
#: Rights of the node agents in their namespace.
AGENT_AT_HOME: Final = _RIGHTS.agent_at_home


def rbac(namespace: str, identity: str) -> list[Document]:
    """Roles and bindings. ``identity``: Muster's user name at the API server."""
    return [
        *_granted(ACCOUNT, identity, CONTROLLER),
        *_granted(ACCOUNT, identity, AT_HOME, namespace),
        # Kubernetes' own role: how the API server's proxy identifies itself to the read API.
        ROLE_BINDINGS.document(
            ACCOUNT, PROXY_NAMESPACE, roleRef=_PROXY_READER, subjects=[_subject(identity)]
        ),
        *people(),
    ]


def kind_rbac(kind: WorkloadKindSpec, identity: str) -> list[Document]:
    """The roles of a kind that administrators have added: Muster's with its binding, and a part of Kubernetes' view."""
    name = f"{ACCOUNT}-kind-{kind.kind}"
    if kind.passes_on:
        return []
    return [
        *_granted(name, identity, tuple(kind_rules([kind]))),
        CLUSTER_ROLES.document(f"{name}-viewer", labels=_part_of("view"), rules=_seen([kind])),
    ]


def provisioning_rbac(identity: str) -> list[Document]:
    """Role and binding for requests to cluster autoscalers. ``identity``: Muster's user name at the API server."""
    return _granted(f"{ACCOUNT}-provisioning", identity, PROVISIONING)


def agent_rbac() -> list[Document]:
    """The node agents' account, with its roles and bindings."""
    return [
        SERVICE_ACCOUNTS.document(AGENT_ACCOUNT, AGENT_NAMESPACE),
        *_granted(AGENT_ACCOUNT, agent_identity(), AGENT),
        *_granted(AGENT_ACCOUNT, agent_identity(), AGENT_AT_HOME, AGENT_NAMESPACE),
    ]


def _granted(name: str, identity: str, rules: Sequence[PolicyRule], namespace: str = "") -> list[Document]:
    """A role and its binding, in a namespace or, "", in the whole cluster."""
    role, binding = (ROLES, ROLE_BINDINGS) if namespace else (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)
    ref = {"apiGroup": _GROUP, "kind": role.kind, "name": name}
    return [
        role.document(name, namespace, rules=[rule.document() for rule in rules]),
        binding.document(name, namespace, roleRef=ref, subjects=[_subject(identity)]),
    ]


def agent_identity() -> str:
    """The node agents' user name at the API server."""
    return f"system:serviceaccount:{AGENT_NAMESPACE}:{AGENT_ACCOUNT}"


def people() -> list[Document]:
    """Roles for tenants and administrators. Every user may ask the read API: other rights decide what it shows."""
    # Of kinds of other projects as well, installed or not: who may list them all sees everything.
    operators = _seen(OPERATOR_KINDS)
    roles = []
    for name, role in _RIGHTS.people.items():
        rules = [*(rule.document() for rule in role.rules), *(operators if role.joins == "view" else ())]
        labels = _part_of(role.joins) if role.joins else {}
        roles.append(CLUSTER_ROLES.document(name, labels=labels, rules=rules))
    reader = {"apiGroup": _GROUP, "kind": "ClusterRole", "name": READER}
    everybody = {"kind": "Group", "apiGroup": _GROUP, "name": "system:authenticated"}
    return [*roles, CLUSTER_ROLE_BINDINGS.document(READER, roleRef=reader, subjects=[everybody])]


def _seen(kinds: Iterable[WorkloadKindSpec]) -> list[Document]:
    """The right to see objects of these kinds."""
    return [_right_to([kind.resource for kind in kinds], "get", "list", "watch").document()]


def _part_of(role: str) -> dict[str, str]:
    """The label by which a role's rules become part of one of Kubernetes' own roles."""
    return {f"{_GROUP}/aggregate-to-{role}": "true"}


def _subject(identity: str) -> Document:
    """A service account if the name is one's, else a user."""
    prefix, _, rest = identity.partition("system:serviceaccount:")
    if not prefix and rest.count(":") == 1:
        namespace, name = rest.split(":")
        return {"kind": "ServiceAccount", "namespace": namespace, "name": name}
    return {"kind": "User", "apiGroup": _GROUP, "name": identity}
