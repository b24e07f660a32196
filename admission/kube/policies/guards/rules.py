"""What the guards of all kinds share: forms of policies and rules, and the names that only Muster writes. Pure."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal

from admission.kube.policies.cel import annotation, has_any
from admission.kube.policies.mutating import PolicyOptions
from admission.kube.policies.policy_forms import not_by
from queues.api.api_resources import POLICIES, POLICY_BINDINGS, ApiResource, Document
from queues.api.names import ADMISSION_ID, DEVICES, RECREATED_FROM, RELEASED, SEAT, USER
from queues.api.validation.queued_work import NO_NODE_NAME, NO_SYSTEM_CLASS

WHO: Final = "request.userInfo.username"
CREATED: Final = "request.operation == 'CREATE'"
#: Annotations of pods that name their admission and seat.
SIGNS: Final = (ADMISSION_ID, SEAT, DEVICES, RECREATED_FROM)
#: ``label`` or ``annotation``: (key, of what) → a CEL expression for its value.
Reader = Callable[[str, str], str]


def guard(
    name: str,
    rules: Sequence[Document],
    validations: Iterable[Document],
    options: PolicyOptions,
    *,
    concerns: str = "",
    variables: Sequence[Document] = (),
    action: Literal["Deny", "Warn"] = "Deny",
) -> list[Document]:
    """A policy that denies, or warns, with its binding. ``rules``: kinds and operations; ``concerns``: CEL, which
    requests.

    Requests of Muster itself are never looked at. Others are left out by a condition and not by a selector: a
    selector sees labels, and what is guarded may stand in annotations, or in a template.

    The condition asks all rules already, and leaves out a request that breaks none. The API server copies the whole
    object, which may have megabytes, once for the conditions of a policy, and three times more for its validations,
    their messages and audit annotations: it works all of them out even where nothing is to be said.
    """
    validations = list(validations)
    kept = _all(each["expression"] for each in validations)
    asked = [not_by(options.identity)["expression"], *([concerns] if concerns else [])]
    breaks_a_rule = _all([*asked, f"!({_inlined(kept, variables)})"])
    spec: Document = {
        "failurePolicy": "Fail",
        "matchConstraints": {"matchPolicy": "Equivalent", "resourceRules": list(rules)},
        "matchConditions": [{"name": "breaks-a-rule", "expression": breaks_a_rule}],
        **({"variables": list(variables)} if variables else {}),
        "validations": validations,
    }
    binding = {"policyName": name, "validationActions": [action]}
    return [POLICIES[1].document(name, spec=spec), POLICY_BINDINGS[1].document(name, spec=binding)]


def _all(expressions: Iterable[str]) -> str:
    return "\n&& ".join(f"({each})" for each in expressions)


def _inlined(expression: str, variables: Sequence[Document]) -> str:
    """An expression without variables, which conditions do not have."""
    inlined = {each["name"]: f"({each['expression']})" for each in variables}
    return re.sub(r"\bvariables\.(\w+)", lambda found: inlined[found[1]], expression)


def subresource_rule(kind: ApiResource, subresource: str) -> Document:
    """The rule of a policy that is about updates of a subresource."""
    return {**kind.rule(["UPDATE"]), "resources": [f"{kind.plural}/{subresource}"]}


def rule(expression: str, message: str) -> Document:
    """``message`` is CEL: found, expected, what to do. The plain one is used should CEL fail."""
    return {
        "expression": expression,
        "messageExpression": message,
        "message": "Only Muster may do this: it would release what waits in a queue.",
        "reason": "Forbidden",
    }


def unchanged(what: str, key: str, read: Reader, of: str = "", unless: str = "") -> Document:
    """A label or annotation keeps its value on update. ``of``: ``.spec.template`` for a pod template's.

    ``unless``: CEL, when it may change.
    """
    now, before = read(key, f"object{of}"), read(key, f"oldObject{of}")
    place = " of the pod template" if of else ""
    return rule(
        f"{CREATED} || {now} == {before}" + (f" || {unless}" if unless else ""),
        f"'{what} {key}{place}: found ' + {shown(now)} + ' written by ' + {WHO}"
        f" + ', expected ' + {shown(before)} + ', which only Muster writes. Leave it as it is.'",
    )


def carries_own_names(of: str) -> str:
    """Whether metadata has a label or an annotation that only Muster writes on workloads, pods and templates."""
    return has_any(of, labels=(RELEASED,), annotations=(*SIGNS, USER))


def unsigned(of: str) -> str:
    """Whether no annotation names an admission or a seat."""
    return " && ".join(f"{annotation(key, of)} == ''" for key in SIGNS)


def own_user(of: str = "", unless: str = "") -> Document:
    """No object is created with another user's name on it. Where the name counts, it was just overwritten.

    ``of``: ``.spec.template`` for a pod template's; ``unless``: CEL, who may copy a name.
    """
    user = annotation(USER, f"object{of}")
    place = " of the pod template" if of else ""
    return rule(
        f"!({CREATED}) || {user} in ['', {WHO}]" + (f" || {unless}" if unless else ""),
        f"'Annotation {USER}{place}: found \"' + {user} + '\" written by ' + {WHO}"
        f" + ', expected none, only Muster writes it. Remove it.'",
    )


def no_node_name(spec: str, where: str, unless: str) -> Document:
    """A template names no node: its pods would go there past their seats."""
    node = f"{spec}.?nodeName.orValue('')"
    return rule(
        f"{node} == '' || {unless}",
        f"'{where}.nodeName: found \"' + {node} + '\", expected {NO_NODE_NAME.expected}.'",
    )


def no_system_priority(spec: str, where: str, unless: str = "", kept: str = f"!({CREATED})") -> Document:
    """What waits in a queue does not rank as a part of the cluster itself, above all work of all queues.

    ``kept``: CEL, when a class stays as it was before and is not asked about again.
    """
    name = f"{spec}.?priorityClassName.orValue('')"
    return rule(
        f"({kept}) || !{name}.startsWith('{NO_SYSTEM_CLASS.beginning}')"
        + (f" || {unless}" if unless else ""),
        f"'{where}.priorityClassName: found \"' + {name} + '\", expected {NO_SYSTEM_CLASS.expected}.'",
    )


def same_class(spec: str, before: str) -> str:
    """Whether the priority class of a spec stays as it was, where Kubernetes lets it change."""
    name = ".?priorityClassName.orValue('')"
    return f"!({CREATED}) && {before}{name} == {spec}{name}"


def shown(value: str) -> str:
    """A value in a message."""
    return f"({value} == '' ? 'none' : '\"' + {value} + '\"')"


def variable(name: str, expression: str) -> Document:
    """A variable of a policy: worked out when it is first used."""
    return {"name": name, "expression": expression}
