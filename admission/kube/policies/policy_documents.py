"""Admission policies that run inside the API server: what waits in queues, and what only Muster may write.

The policies are documents in the folder ``documents``, one file for each topic: YAML with expressions in CEL. ``${…}``
stands for a value, or for an expression that several policies use (``expressions.jinja``); the names of labels,
annotations and kinds are those of ``queues.api``. Each entry has the fields of a policy's spec, and of its metadata the
name. What all have in common is left out and filled in here:

- ``patches``: the list of JSON patches of a mutating policy, which fails closed; or several of them, each of what the
  one before leaves;
- ``validations`` without ``message`` and ``reason``, of a policy that denies;
  ``concerns``: which requests it is about; ``kept_if``, ``rare`` (``guard``);
- ``matchConditions`` and ``variables`` as mappings of a name to an expression;
- ``bindings``: the name of each to what it matches; absent: one with the policy's name, for all objects of its kinds.

Pure: options in, documents out. The API server itself evaluates the policies, so things wait also while Muster is down.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, Final

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from admission.kube.policies.cel import (
    CONTROLLER_MANAGER,
    GARBAGE_COLLECTOR,
    JOB_CONTROLLER,
    MAY_ADMINISTER,
    not_by,
    text,
    texts,
)
from admission.kube.policies.fixed_fields import change_variables
from admission.kube.policies.operator_templates import (
    USUAL_LABELS,
    demands_by_kind,
    depth,
    own_value,
    path_of,
    places_by_kind,
)
from queues.api import api_resources, kueue_names, names
from queues.api.api_resources import (
    POLICIES,
    POLICY_BINDINGS,
    ApiResource,
    Document,
)
from queues.api.json_patch import escaped
from queues.api.node_affinity import REQUIRED
from queues.api.types.workload_kind import WorkloadKindSpec
from queues.api.validation import command_rules, queued_work
from queues.api.workload_kinds import SHIPPED_KINDS

#: The verb of users who may delete by force pods that run: of administrators, who may do everything.
FORCE: Final = "force-delete"
#: Annotations of pods that name their admission and seat, and what they got with it.
SIGNS: Final = (names.ADMISSION_ID, names.SEAT, names.DEVICES, names.FLAVOR_TOLERATIONS, names.RECREATED_FROM)
#: The documents, in the order in which they are installed: what makes work wait, and what guards it.
_TOPICS: Final = (
    *("waiting", "requesters", "owners", "kinds", "kept_names", "holds"),
    *("kueue_names", "pods", "jobs", "volcano", "namespaces", "checks"),
)
#: The parser in C, where PyYAML was built with it.
_Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_GUARDED: Final = "Only Muster may do this: it would release what waits in a queue."


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOptions:
    """What differs between clusters."""

    #: User name of Muster at the API server; no other user may release pods.
    identity: str
    #: The scheduler that binds what Muster releases.
    scheduler: str = names.DEFAULT_SCHEDULER
    #: Scheduler names that mean "through the queues": replaced by ``scheduler`` at creation.
    aliases: tuple[str, ...] = (names.VOLCANO_SCHEDULER,)


def kind_policies(options: PolicyOptions, kind: WorkloadKindSpec) -> list[Document]:
    """The policies of a kind that administrators have added, with their bindings: the pair that suspends and guards,
    the validating one first; or the one by which its objects hand their queue on."""
    documents = _rendered("kinds", _values(options, [kind], f"kind-{kind.kind}", kind.kind))
    return sorted(documents, key=lambda each: bool(each["kind"].startswith("Mutating")))


def mutating_policies(options: PolicyOptions) -> list[Document]:
    """The mutating policies with their bindings: gate, suspend, rename the scheduler, note the requester."""
    return [each for each in _all(options) if each["kind"].startswith("Mutating")]


def validating_policies(options: PolicyOptions) -> list[Document]:
    """The validating policies with their bindings: only Muster ends the waiting, and only it signs."""
    return [each for each in _all(options) if each["kind"].startswith("Validating")]


def agent_policies(identity: str, namespace: str) -> list[Document]:
    """The policy of the node agents with its bindings. ``identity``: their user; ``namespace``: of their leases."""
    return _rendered("agents", {"identity": identity, "namespace": namespace})


def guard(identity: str, entry: Document) -> Document:
    """The spec of a policy that denies. Requests of Muster itself are never looked at.

    Others are left out by a condition and not by a selector: a selector sees labels, and what is guarded may stand in
    annotations, or in a template. The condition asks all rules already, and leaves out a request that breaks none. The
    API server copies the whole object, which may have megabytes, once for the conditions of a policy, and three times
    more for its validations, their messages and audit annotations: it works all of them out even where nothing is to be
    said. Conditions have no variables, so the expressions stand in their place; or instead of a rule what is true only
    where the rule is kept (``kept_if``).
    """
    asked = [not_by(identity)["expression"], *([entry["concerns"]] if "concerns" in entry else [])]
    if not entry.get("rare"):
        variables = {name: f"({expression})" for name, expression in entry.get("variables", {}).items()}
        kept = _conjunction(rule.get("kept_if", rule["expression"]) for rule in entry["validations"])
        asked.append(re.sub(r"\bvariables\.(\w+)", lambda match: variables[match[1]], f"!({kept})"))
    return {**entry, "matchConditions": {"breaks-a-rule": _conjunction(asked)}}


def _values(
    options: PolicyOptions, kinds: Sequence[WorkloadKindSpec], pair: str, of_kind: str = ""
) -> Mapping[str, Any]:
    """What differs between clusters, and between the policies of ``kinds``. ``pair``: ends their names.
    ``of_kind``: the WorkloadKind without which they do nothing."""
    known = {each.kind: each for each in (*SHIPPED_KINDS, *kinds)}.values()
    parents = [each.resource for each in known if not each.passes_on]
    suspending = [maker for each in known for maker in each.suspended_with]
    return {
        "identity": options.identity,
        "scheduler": options.scheduler,
        "aliases": options.aliases,
        "operators": [each for each in kinds if not each.passes_on],
        # They are suspended with what is made of them; the others have nothing to do with that.
        "makers": [each for each in kinds if each.passes_on and each.resource in suspending],
        "passing": [each for each in kinds if each.passes_on and each.resource not in suspending],
        "pair": pair,
        "of_kind": of_kind,
        # Kinds whose controllers make objects that wait with theirs, and all that suspend what they make.
        "parents": parents,
        "suspending": [*parents, *suspending],
    }


def _all(options: PolicyOptions) -> list[Document]:
    values = _values(options, SHIPPED_KINDS, "kinds")
    return [document for topic in _TOPICS for document in _rendered(topic, values)]


def _rendered(topic: str, values: Mapping[str, Any]) -> list[Document]:
    """The policies of one file with their bindings."""
    environment = _environment()
    expressions = vars(environment.get_template("expressions.jinja").make_module(dict(values)))
    written = environment.get_template(f"{topic}.yaml").render(expressions, **values)
    return [
        document
        for entry in yaml.load(written, _Loader)
        for document in _documents(entry, values["identity"])
    ]


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("admission.kube.policies", "documents"),
        undefined=StrictUndefined,
        finalize=_on_one_line,
        trim_blocks=True,
        lstrip_blocks=True,
        block_start_string="<%",
        block_end_string="%>",
        variable_start_string="${",
        variable_end_string="}",
        comment_start_string="<#",
        comment_end_string="#>",
    )
    environment.globals.update(_NAMES)
    return environment


def _documents(entry: Document, identity: str) -> list[Document]:
    """A policy with its bindings, with all that policies have in common."""
    is_guard = "validations" in entry
    policy, binding = POLICIES[is_guard], POLICY_BINDINGS[is_guard]
    if is_guard and "matchConditions" not in entry:
        entry = guard(identity, entry)
    spec: Document = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "matchPolicy": entry.get("matchPolicy", "Equivalent"),
            "resourceRules": entry["resourceRules"],
        },
        **({"paramKind": entry["paramKind"]} if "paramKind" in entry else {}),
    }
    for field in ("matchConditions", "variables"):
        if field in entry:
            spec[field] = [
                {"name": name, "expression": expression} for name, expression in entry[field].items()
            ]
    bound: Document = {"policyName": entry["name"]}
    if is_guard:
        said = {"message": entry.get("message", _GUARDED), "reason": "Forbidden"}
        spec["validations"] = [
            {**{field: value for field, value in rule.items() if field != "kept_if"}, **said}
            for rule in entry["validations"]
        ]
        bound["validationActions"] = ["Deny"]
    else:
        spec["reinvocationPolicy"] = "IfNeeded"
        patches = entry["patches"] if isinstance(entry["patches"], list) else [entry["patches"]]
        spec["mutations"] = [
            {"patchType": "JSONPatch", "jsonPatch": {"expression": each}} for each in patches
        ]
    if "paramRef" in entry:
        bound["paramRef"] = entry["paramRef"]
    return [
        policy.document(entry["name"], spec=spec),
        *(
            binding.document(name, spec={**bound, **({"matchResources": matched} if matched else {})})
            for name, matched in entry.get("bindings", {entry["name"]: None}).items()
        ),
    ]


# -- what documents may use -----------------------------------------------------------------------------------


def _rules(kinds: Iterable[ApiResource], *operations: str) -> str:
    """``resourceRules`` about objects of these kinds: one for each version. No group serves a resource by the name that
    another one of the same version has here."""
    rules: dict[str, Document] = {}
    for kind in kinds:
        of_version = {**kind.rule(operations), "apiGroups": [], "resources": []}
        rule = rules.setdefault(kind.version, of_version)
        rule["apiGroups"] = [*dict.fromkeys((*rule["apiGroups"], kind.group))]
        rule["resources"].append(kind.plural)
    return json.dumps([*rules.values()])


def _rule_of(kind: ApiResource, *operations: str, part: str = "") -> str:
    """One of ``resourceRules``: about objects of this kind, or about a subresource of theirs."""
    resource = f"{kind.plural}/{part}" if part else kind.plural
    return json.dumps({**kind.rule(operations), "resources": [resource]})


def _on_one_line(value: Any) -> Any:
    """What stands for ``${…}``: a block of YAML goes on after it."""
    return re.sub(r"\s+", " ", value).strip() if isinstance(value, str) else value


def _quoted(expression: str) -> str:
    """An expression as YAML, on one line."""
    return json.dumps(_on_one_line(expression))


def _conjunction(expressions: Iterable[str]) -> str:
    return "\n&& ".join(f"({each})" for each in expressions)


def _constants(module: ModuleType) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if name.isupper()}


_NAMES: Final[dict[str, Any]] = {
    **_constants(names),
    **_constants(kueue_names),
    **_constants(command_rules),
    **_constants(queued_work),
    # The kind of Devices has the name of an annotation, which is among SIGNS.
    **_constants(api_resources),
    "CONTROLLER_MANAGER": CONTROLLER_MANAGER,
    "FORCE": FORCE,
    "GARBAGE_COLLECTOR": GARBAGE_COLLECTOR,
    "JOB_CONTROLLER": JOB_CONTROLLER,
    "MAY_ADMINISTER": MAY_ADMINISTER,
    "REQUIRED": REQUIRED,
    "SIGNS": SIGNS,
    "USUAL_LABELS": USUAL_LABELS,
    "own_annotations": (*SIGNS, names.USER),
    "escaped": escaped,
    "groups_and_kinds": lambda kinds: [f"{each.group}/{each.kind}" for each in kinds],
    "change_variables": change_variables,
    "demands_by_kind": demands_by_kind,
    "depth": depth,
    "own_value": own_value,
    "path_of": path_of,
    "places_by_kind": places_by_kind,
    "quoted": _quoted,
    "rule_of": _rule_of,
    "rules": _rules,
    "text": text,
    "texts": texts,
}
