"""What node agents may write: only what is about the Node that their token names. Pure.

All agents share one account, so RBAC alone would let the agent of one node write for every other. Since Kubernetes 1.32
the token of a pod names the pod's node, and the API server passes the name on with each request. The policy compares:

- a Device, and its status, of that node's name, which no other Node owns and nothing keeps from being deleted; a Lease
  of that name;
- of the Node its labels about devices (``AGENT_NODE_LABELS``), and nothing else of it.

A token that names no node writes nothing. RBAC decides about the writes of all others: only cluster administrators have
the right to write Devices unless they grant it, and where Koordinator runs, its account is granted it.
"""

from typing import Final

from admission.kube.policies.cel import text, texts
from queues.api.api_resources import (
    DEVICES,
    LEASES,
    NODES,
    POLICIES,
    POLICY_BINDINGS,
    ApiResource,
    Document,
)
from queues.api.names import AGENT_NODE_LABELS

NAME: Final = "muster-guard-agents"
#: Where the API server names the node that a token is bound to.
NODE_OF_TOKEN: Final = "authentication.kubernetes.io/node-name"

_NODE: Final = f"request.userInfo.?extra[?{text(NODE_OF_TOKEN)}][?0].orValue('')"
_WRITES: Final = ("CREATE", "UPDATE", "DELETE")
#: Names of deleted objects are in the request only, those of created ones in the object only.
_NAMED: Final = "request.?name.orValue('') != '' ? request.name : object.metadata.?name.orValue('')"
#: The subresource; "": the object itself.
_PART: Final = "request.?subResource.orValue('')"
_OWN_LABELS: Final = texts(AGENT_NODE_LABELS)


def agent_policies(identity: str, namespace: str) -> list[Document]:
    """The policy with its bindings. ``identity``: the agents' user name; ``namespace``: of their leases.

    Each write that is looked at takes the API server's time. So leases are looked at in that namespace only:
    kubelets renew hundreds a second in another one. Statuses of Nodes are not: agents have no right to write them.
    """
    # Definitions of Devices are Koordinator's as well, and may serve other versions.
    devices = {**_rule(DEVICES), "apiVersions": ["*"]}
    everywhere = [devices, NODES.rule(_WRITES)]
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"matchPolicy": "Exact", "resourceRules": [*everywhere, _rule(LEASES)]},
        "matchConditions": [
            {"name": "by-an-agent", "expression": f"request.userInfo.username == {text(identity)}"}
        ],
        "variables": [
            {"name": "node", "expression": _NODE},
            {"name": "named", "expression": _NAMED},
            {"name": "part", "expression": _PART},
        ],
        "validations": [
            *_names_a_node(),
            *_is_of_that_node(),
            *_goes_with_that_node(),
            *_changes_only_labels(),
        ],
    }
    home = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    return [
        POLICIES[1].document(NAME, spec=spec),
        _binding(NAME, {"resourceRules": everywhere}),
        _binding(f"{NAME}-leases", {"resourceRules": [_rule(LEASES)], **home}),
    ]


def _rule(kind: ApiResource) -> Document:
    """All writes of objects of a kind, and of their subresources."""
    return {**kind.rule(_WRITES), "resources": [kind.plural, f"{kind.plural}/*"]}


def _binding(name: str, matched: Document) -> Document:
    spec = {"policyName": NAME, "validationActions": ["Deny"], "matchResources": matched}
    return POLICY_BINDINGS[1].document(name, spec=spec)


def _names_a_node() -> list[Document]:
    return [
        _validation(
            "variables.node != ''",
            "'The token of this node agent names no node, expected one of a pod (Kubernetes 1.32 or newer).'",
        )
    ]


def _is_of_that_node() -> list[Document]:
    kept = "request.operation != 'DELETE' && (request.resource.resource != 'nodes' || variables.part == '')"
    return [
        _validation(
            f"{kept} && variables.named == variables.node",
            "request.resource.resource + (variables.part == '' ? '' : '/' + variables.part) + ' '"
            " + variables.named + ': found ' + request.operation + ' by the agent of node ' + variables.node"
            " + ', expected one of the object with its name.'",
        )
    ]


def _goes_with_that_node() -> list[Document]:
    """Otherwise the deletion of another Node would wait for the Device, or that of the Device for its writer."""
    owners, finalizers = (
        f"object.metadata.?{field}.orValue([])"
        f".all(each, each in (request.operation == 'UPDATE' ? oldObject.metadata.?{field}.orValue([]) : []){also})"
        for field, also in (
            ("ownerReferences", " || (each.kind == 'Node' && each.name == variables.node)"),
            ("finalizers", ""),
        )
    )
    about_others = "request.resource.resource != 'devices' || request.operation == 'DELETE'"
    return [
        _validation(
            f"{about_others} || ({owners} && {finalizers})",
            "'Device ' + variables.named + ': found another owner than its Node, or a finalizer, expected neither.'",
        )
    ]


def _changes_only_labels() -> list[Document]:
    before, now = (f"{of}.metadata.?labels.orValue({{}})" for of in ("oldObject", "object"))
    same_labels = (
        f"{now}.all(key, key in {_OWN_LABELS} || (key in {before} && {before}[key] == {now}[key]))"
        f" && {before}.all(key, key in {_OWN_LABELS} || key in {now})"
    )
    rest = " && ".join(
        f"object.metadata.?{field}.orValue({empty}) == oldObject.metadata.?{field}.orValue({empty})"
        for field, empty in (("annotations", "{}"), ("finalizers", "[]"), ("ownerReferences", "[]"))
    )
    whole = f"request.operation == 'UPDATE' && object.?spec == oldObject.?spec && {rest} && {same_labels}"
    return [
        _validation(
            f"request.resource.resource != 'nodes' || request.operation == 'DELETE' || ({whole})",
            "'Node ' + variables.named + ': found another change, expected one of the labels about devices only.'",
        )
    ]


def _validation(expression: str, message: str) -> Document:
    return {
        "expression": expression,
        "messageExpression": message,
        "message": "A node agent writes only what is about its own Node.",
        "reason": "Forbidden",
    }
