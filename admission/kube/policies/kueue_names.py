"""Policies that write Kueue's names as Muster's, in namespaces that say so. Pure.

In a Namespace with the label ``muster.dev/kueue-names: "true"`` Kueue's label for a queue counts as Muster's, on what
is created: it names the Queue to which the Namespace's annotation ``local-queue.muster.dev/NAME`` leads, without one
the Queue of that name. In others, objects with Kueue's label are Kueue's, and are passed over. What Kueue has
suspended before stays Kueue's.

The queue itself is written by the policies that make things wait (``queue_of`` and the bindings in ``policy_forms``);
the ones here write topology, priority, and groups of bare pods. All other parts see Muster's names of these only.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from admission.kube.policies.cel import add, annotation, join, label, map_exists, only_if, remove, text
from admission.kube.policies.policy_forms import binding, policy, queue_of
from admission.workloads.kinds.operators import OPERATOR_KINDS
from admission.workloads.kinds.operators.json_parts import Path
from admission.workloads.kinds.operators.support import Each, OperatorKind, Templates
from queues.api.api_resources import (
    DEPLOYMENTS,
    JOBS,
    LEADER_WORKER_SETS,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    STATEFUL_SETS,
    ApiResource,
    Document,
)
from queues.api.json_patch import escaped
from queues.api.kueue_names import (
    KUEUE_POD_GROUP,
    KUEUE_POD_GROUP_SIZE,
    KUEUE_PREFERRED,
    KUEUE_PRIORITY,
    KUEUE_QUEUE,
    KUEUE_REQUIRED,
    KUEUE_SLICE_LEVEL,
    KUEUE_SLICE_SIZE,
    KUEUE_TOGETHER,
)
from queues.api.names import (
    AUTOMATIC_GROUP_OF_PODS,
    GATED_NAMESPACE,
    GROUP_ANNOTATION,
    GROUP_MIN_MEMBER,
    KUEUE_NAMES,
    PARTITIONS,
    PREFERRED_TOPOLOGY,
    QUEUE_LABEL,
    RELEASED,
    REQUIRED_TOPOLOGY,
    TOGETHER,
)

#: Kueue's annotation → Muster's with the same value, of pod templates.
_SAME_VALUE: Final = {
    KUEUE_REQUIRED: REQUIRED_TOPOLOGY,
    KUEUE_PREFERRED: PREFERRED_TOPOLOGY,
    KUEUE_TOGETHER: TOGETHER,
}
#: Annotations of pod templates begin so.
_ABOUT_PODS: Final = "kueue.x-k8s.io/podset-"
#: The size of a group.
_SIZE: Final = "^[1-9][0-9]{0,5}$"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Translated:
    """Kinds whose pod templates are translated by one policy."""

    name: str
    kinds: Sequence[ApiResource]
    #: Expression: a list of the templates, each with its path and itself.
    templates: str
    #: Expression: whether an object says anything in Kueue's words besides its queue.
    says: str = "true"
    is_pod: bool = False


def kueue_policies() -> list[Document]:
    """The policies with their bindings."""
    operators = [description for description in OPERATOR_KINDS if _has_templates(description.templates)]
    translated = (
        _Translated(
            name="pods",
            kinds=[PODS],
            templates=f"[{_template(text(''), 'object')}]",
            says=f"{_about_pods('object')} || {label(KUEUE_POD_GROUP)} != ''",
            is_pod=True,
        ),
        _Translated(
            name="jobs",
            kinds=[JOBS],
            templates=_one(("spec", "template")),
            says=f"{_about_pods('object.spec.template')} || {label(KUEUE_PRIORITY)} != ''",
        ),
        _Translated(
            name="owners",
            kinds=[DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS],
            templates=_one(("spec", "template")),
        ),
        _Translated(
            name="leader-worker-sets",
            kinds=[LEADER_WORKER_SETS],
            templates=_of_leader_worker_set(),
        ),
        _Translated(
            name="operators",
            kinds=[description.resource for description in operators],
            templates=_of_operators(operators),
        ),
    )
    return [document for each in translated for document in _documents(each)] + list(_priority_of_pods())


def _documents(translated: _Translated) -> Iterator[Document]:
    name = f"muster-kueue-{translated.name}"
    rules = [kind.rule(["CREATE"]) for kind in translated.kinds]
    conditions = [{"name": "says-something", "expression": translated.says}]
    document = policy(name, rules, _changes(is_pod=translated.is_pod), conditions=conditions)
    document["spec"]["variables"] = [{"name": "templates", "expression": translated.templates}]
    yield document
    yield _binding(name)


def _binding(name: str, *also: Document) -> Document:
    """Objects of namespaces where Kueue's names count. ``also``: what their labels must match as well."""
    unreleased = {"key": RELEASED, "operator": "NotIn", "values": ["true"]}
    selector = {
        "objectSelector": {"matchExpressions": [unreleased, *also]},
        "namespaceSelector": {"matchLabels": {KUEUE_NAMES: "true"}},
    }
    return binding(name, name, selector)


def _priority_of_pods() -> Iterator[Document]:
    """Pods get the class. Its value and policy are looked up by the API server, which asks its plugins once more."""
    name = "muster-kueue-priority"
    is_it = f"{label(KUEUE_PRIORITY)} == params.metadata.name"
    other = "object.spec.?priorityClassName.orValue('') != params.metadata.name"
    conditions = [{"name": "names-the-class", "expression": f"{is_it} && {other}"}]
    patches = join(
        add("/spec/priorityClassName", "params.metadata.name"),
        only_if("has(object.spec.priority)", remove("/spec/priority")),
        only_if("has(object.spec.preemptionPolicy)", remove("/spec/preemptionPolicy")),
    )
    document = policy(name, [PODS.rule(["CREATE"])], patches, conditions=conditions)
    document["spec"]["paramKind"] = {
        "apiVersion": PRIORITY_CLASSES.api_version,
        "kind": PRIORITY_CLASSES.kind,
    }
    yield document
    bound = _binding(name, {"key": KUEUE_PRIORITY, "operator": "Exists"})
    bound["spec"]["paramRef"] = {"selector": {}, "parameterNotFoundAction": "Allow"}
    yield bound


# -- expressions --------------------------------------------------------------------------------------------


def _about_pods(of: str) -> str:
    """Whether metadata has Kueue's annotations for pods."""
    return f"{of}.metadata.?annotations.orValue({{}}).exists(k, k.startsWith({text(_ABOUT_PODS)}))"


def _changes(*, is_pod: bool) -> str:
    """Patches of all templates. ``t``: one of them, with its path ``at`` and itself ``of``."""
    pairs = [_pair(key, _annotation(kueue)) for kueue, key in _SAME_VALUE.items()]
    size, level = _annotation(KUEUE_SLICE_SIZE), _annotation(KUEUE_SLICE_LEVEL)
    pairs.append(_pair(PARTITIONS, f"({size} != '' && {level} != '' ? {size} + '=' + {level} : '')"))
    if is_pod:
        group, count = f"({_waits()} ? {label(KUEUE_POD_GROUP)} : '')", annotation(KUEUE_POD_GROUP_SIZE)
        sized = f"({group} != '' && {count}.matches({text(_SIZE)}))"
        pairs.append(
            _pair(GROUP_ANNOTATION, f"({group} != '' ? {text(AUTOMATIC_GROUP_OF_PODS)} + {group} : '')")
        )
        pairs.append(_pair(GROUP_MIN_MEMBER, f"({sized} ? {count} : '')"))
    missing = f"[{', '.join(pairs)}].filter(p, p[1] != '' && {_annotation_by('p[0]')} == '')"
    written = (
        "JSONPatch{op: 'add', path: t.at + '/metadata/annotations/' + jsonpatch.escapeKey(p[0]), value: p[1]}"
    )
    annotations = (
        f"({missing}.size() == 0 ? [] : "
        + join(
            only_if("!has(t.of.metadata)", _added("/metadata", "{}")),
            only_if(
                "!has(t.of.metadata) || !has(t.of.metadata.annotations)",
                _added("/metadata/annotations", "{}"),
            ),
            f"{missing}.map(p, {written})",
        )
        + ")"
    )
    if is_pod:
        queue = only_if(
            f"{label(QUEUE_LABEL)} == ''",
            add(f"/metadata/labels/{escaped(QUEUE_LABEL)}", queue_of("object")),
        )
        # A group has the queue of its pods, which policies for pods do not write on members of a group.
        of_group = only_if(f"{group} != ''", join(map_exists("object", "", "labels"), queue))
        return join(f"variables.templates.map(t, {annotations}).flatten()", of_group)
    priority = label(KUEUE_PRIORITY)
    class_of = only_if(
        f"{priority} != '' && t.of.?spec.?priorityClassName.orValue('') != {priority}",
        _added("/spec/priorityClassName", priority),
    )
    return f"variables.templates.map(t, {join(annotations, class_of)}).flatten()"


def _waits() -> str:
    """Whether a pod names a queue, or is in a namespace where all wait."""
    gated = f"namespaceObject.metadata.?labels[?{text(GATED_NAMESPACE)}].orValue('') == 'true'"
    return f"({label(QUEUE_LABEL)} != '' || {label(KUEUE_QUEUE)} != '' || {gated})"


def _pair(key: str, value: str) -> str:
    return f"[{text(key)}, {value}]"


def _annotation(key: str) -> str:
    return _annotation_by(text(key))


def _annotation_by(key: str) -> str:
    return f"t.of.?metadata.?annotations[?{key}].orValue('')"


def _added(path: str, value: str) -> str:
    return f"[JSONPatch{{op: 'add', path: t.at + {text(path)}, value: {value}}}]"


def _has_templates(templates: Sequence[Templates]) -> bool:
    """Whether there are pod templates with metadata of their own, at places that are known."""
    return bool(templates) and all(each.written is None for each in templates)


def _of_leader_worker_set() -> str:
    places = (("spec", "leaderWorkerTemplate", each) for each in ("leaderTemplate", "workerTemplate"))
    return " + ".join(_one(place) for place in places)


def _of_operators(operators: Sequence[OperatorKind]) -> str:
    return " + ".join(
        only_if(
            f"object.kind == {text(description.resource.kind)}",
            " + ".join(_at(each) for each in description.templates),
        )
        for description in operators
    )


def _at(templates: Templates) -> str:
    """A list of the templates at one place."""
    whole = _optional("object", templates.at)
    if templates.each is Each.ONE:
        return _one((*templates.at, *templates.template))
    at, below = text("/" + "/".join(templates.at) + "/"), "/" + "/".join(templates.template)
    if templates.each is Each.ELEMENT:
        found = f"{whole}.orValue([])"
        keys, key, element = f"lists.range({found}.size())", "string(k)", f"{found}[k]"
    else:
        found = f"{whole}.orValue({{}})"
        keys, key, element = found, "k.replace('~', '~0').replace('/', '~1')", f"{found}[k]"
    there = _optional(element, templates.template)
    path = f"{at} + {key} + {text(below)}"
    return f"{keys}.filter(k, {there}.hasValue()).map(k, {_template(path, f'{there}.value()')})"


def _one(path: Path) -> str:
    found, at = _optional("object", path), text("/" + "/".join(path))
    return only_if(f"{found}.hasValue()", f"[{_template(at, f'{found}.value()')}]")


def _optional(of: str, path: Path) -> str:
    return "".join((of, *(f".?{field}" for field in path)))


def _template(path: str, of: str) -> str:
    return f"{{'at': dyn({path}), 'of': dyn({of})}}"
