"""Forms of mutating policies and their bindings, and expressions about the queue that an object names. Pure."""

from collections.abc import Sequence
from typing import Final

from admission.kube.policies.cel import annotation, label, text
from queues.api.api_resources import POLICIES, POLICY_BINDINGS, QUEUES, Document
from queues.api.kueue_names import KUEUE_QUEUE, LOCAL_QUEUE
from queues.api.names import DEFAULT_QUEUE, GATED_NAMESPACE, KUEUE_NAMES, QUEUE_ANNOTATION, QUEUE_LABEL

#: A right that RBAC grants and the API server itself does not ask for: a user who has it may change every Queue.
ADMINISTER: Final = "administer"
#: Whether who asks has it: a platform administrator.
MAY_ADMINISTER: Final = (
    f"authorizer.group({text(QUEUES.group)}).resource({text(QUEUES.plural)})"
    f".check({text(ADMINISTER)}).allowed()"
)

_POLICY: Final = POLICIES[0]

_POLICY_BINDING: Final = POLICY_BINDINGS[0]


def policy(
    name: str, rules: Sequence[Document], patches: str, *, conditions: Sequence[Document] = ()
) -> Document:
    """A mutating policy. ``rules``: kinds and operations; ``conditions``: which requests, all of them."""
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": {"matchPolicy": "Equivalent", "resourceRules": list(rules)},
        **({"matchConditions": list(conditions)} if conditions else {}),
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patches}}],
    }
    return _POLICY.document(name, spec=spec)


def binding(name: str, policy: str, selector: Document) -> Document:
    """The binding of a policy. ``selector``: the objects that it is about; {}: all of its kinds."""
    spec = {"policyName": policy, **({"matchResources": selector} if selector else {})}
    return _POLICY_BINDING.document(name, spec=spec)


def bindings(noun: str, also: Sequence[Document]) -> list[Document]:
    """The bindings of the policies *noun* and *noun*-volcano; no two of the former's match the same object. ``also``:
    what objects must match as well."""
    named = {"key": QUEUE_LABEL, "operator": "Exists"}
    unnamed = {"key": QUEUE_LABEL, "operator": "DoesNotExist"}
    gated = {"key": GATED_NAMESPACE, "operator": "In", "values": ["true"]}
    understands_kueue = {"key": KUEUE_NAMES, "operator": "In", "values": ["true"]}
    named_for_kueue = {"matchExpressions": [unnamed, {"key": KUEUE_QUEUE, "operator": "Exists"}, *also]}
    ungated = {"key": GATED_NAMESPACE, "operator": "NotIn", "values": ["true"]}
    ordinary = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}
    of_selector, of_volcano = f"muster-{noun}", f"muster-{noun}-volcano"
    without = {"matchExpressions": [unnamed, *also]}
    return [
        binding(
            f"{of_selector}-named", of_selector, {"objectSelector": {"matchExpressions": [named, *also]}}
        ),
        binding(
            f"{of_selector}-namespace",
            of_selector,
            {"objectSelector": without, "namespaceSelector": {"matchExpressions": [gated]}},
        ),
        binding(
            f"{of_selector}-kueue",
            of_selector,
            {
                "objectSelector": named_for_kueue,
                "namespaceSelector": {"matchExpressions": [understands_kueue, ungated]},
            },
        ),
        binding(
            of_volcano,
            of_volcano,
            {"objectSelector": without, "namespaceSelector": {"matchExpressions": [ungated, ordinary]}},
        ),
    ]


def not_by(identity: str) -> Document:
    """A match condition: the request is not Muster's own."""
    return {"name": "not-by-muster", "expression": f"request.userInfo.username != {text(identity)}"}


# -- expressions --------------------------------------------------------------------------------------------


def names_volcano_queue(of: str) -> str:
    """Whether an object names a queue as Volcano has it."""
    return f"({annotation(QUEUE_ANNOTATION, of)} != '' || {label(QUEUE_ANNOTATION, of)} != '')"


def names_queue(of: str) -> str:
    """Whether an object names a queue."""
    return f"({label(QUEUE_LABEL, of)} != '' || {names_volcano_queue(of)})"


def understands_kueue() -> str:
    """Whether Kueue's names count in the namespace of the object. In patches only: conditions see no namespace."""
    return f"namespaceObject.metadata.?labels[?{text(KUEUE_NAMES)}].orValue('') == 'true'"


def local_queue_of(of: str) -> str:
    """The queue of an object by Kueue's label, where that counts: what its namespace says; of a LocalQueue that it
    says nothing of, the Queue of that name. Optional; in patches only."""
    named = label(KUEUE_QUEUE, of)
    leads_to = f"namespaceObject.metadata.?annotations[?({text(LOCAL_QUEUE)} + {named})].orValue({named})"
    counts = f"{named} != '' && {understands_kueue()}"
    return f"({counts} ? optional.of({leads_to}) : optional.none())"


def queue_of(of: str) -> str:
    """The queue of an object without Muster's label: Volcano's, Kueue's, the namespace's default, ``default``."""
    candidates = [
        f"{of}.metadata.?annotations[?{text(QUEUE_ANNOTATION)}]",
        f"{of}.metadata.?labels[?{text(QUEUE_ANNOTATION)}]",
        local_queue_of(of),
        f"namespaceObject.metadata.?annotations[?{text(QUEUE_LABEL)}]",
        f"namespaceObject.metadata.?annotations[?{text(QUEUE_ANNOTATION)}]",
    ]
    chain = candidates[0] + "".join(f".or({candidate})" for candidate in candidates[1:])
    return f"{chain}.orValue({text(DEFAULT_QUEUE)})"
