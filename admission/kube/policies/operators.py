"""Policies for kinds of other projects that wait by a field that suspends them. Pure.

At creation, and when one enters a queue later, a policy suspends it and writes its queue and its user on it; a guard
lets only Muster resume it. Its pods are gated by their own label, which Muster writes into its templates when it
resumes it, and a policy keeps there. A policy may name kinds that the cluster does not serve: it is in force once they
are.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from admission.kube.policies.cel import add, annotation, join, label, map_exists, only_if, text
from admission.kube.policies.operator_templates import restoring
from admission.kube.policies.policy_forms import (
    binding,
    bindings,
    names_queue,
    names_volcano_queue,
    not_by,
    policy,
    queue_of,
)
from admission.workloads.kinds.operators import OPERATOR_KINDS, OperatorKind
from admission.workloads.kinds.operators.json_parts import Path
from queues.api.api_resources import TRAIN_JOBS, ApiResource, Document
from queues.api.json_patch import escaped
from queues.api.names import CREATED_SUSPENDED, QUEUE_LABEL, USER

_WHO: Final = "request.userInfo.username"
_CREATED: Final = "request.operation == 'CREATE'"
#: Kinds whose operators suspend what they make.
MAKERS: Final = (*(description.resource for description in OPERATOR_KINDS), TRAIN_JOBS)
#: Kinds whose objects are suspended by the same field, by the end of the names of their policies.
SUSPENDED: Final = ("spec", "suspend")
GROUPS: Final[dict[str, Path]] = {
    "operators": SUSPENDED,
    "training-operators": ("spec", "runPolicy", "suspend"),
}


def operator_policies(identity: str) -> list[Document]:
    """The mutating policies with their bindings. ``identity``: Muster's user name."""
    return [
        document
        for noun, path in GROUPS.items()
        for document in (*_waiting(noun, path, identity), *_restored(noun, path, identity))
    ]


def kinds_by(path: Path) -> list[OperatorKind]:
    """Kinds that are suspended by this field."""
    return [description for description in OPERATOR_KINDS if description.suspend == path]


def made_by(kinds: Iterable[ApiResource], of: str = "object") -> str:
    """Whether an object of one of these kinds, in any version, controls this one."""
    ours = " || ".join(
        f"(o.kind == {text(kind.kind)} && o.apiVersion.startsWith({text(kind.group + '/')}))"
        for kind in kinds
    )
    owners = f"{of}.metadata.?ownerReferences.orValue([])"
    return f"{owners}.exists(o, o.?controller.orValue(false) && ({ours}))"


def is_part(of: str = "object") -> str:
    """Whether an object is made by the controller of another one, and waits and runs with that.

    One of any kind is, unless it names a queue of its own; some have the queue of the other object as a copy.
    """
    named = f"{names_queue('object')} || (oldObject != null && {names_queue('oldObject')})"
    unnamed = f"(!({named}) && ({made_by((each.resource for each in OPERATOR_KINDS), of)}))"
    parts = [
        f"({of}.kind == {text(each.resource.kind)} && {made_by(each.made_by, of)})"
        for each in OPERATOR_KINDS
        if each.made_by
    ]
    return f"({' || '.join([*parts, unnamed])})"


def was_made_as_part() -> str:
    """The same since it was created: any user may write an owner on an object later."""
    return f"({_CREATED} ? {is_part()} : {is_part('oldObject')})"


def suspended(of: str, path: Path) -> str:
    """Whether an object is suspended by this field."""
    inner = "".join(f".?{field}" for field in path)
    return f"{of}{inner}.orValue(false)"


def noted_suspension(path: Path) -> str:
    """The patch of a new object that says that it was suspended from the beginning; before others suspend it."""
    first = f"{suspended('object', path)} && {annotation(USER)} != {_WHO}"
    return only_if(first, add(f"/metadata/annotations/{escaped(CREATED_SUSPENDED)}", "'true'"))


def _waiting(noun: str, path: Path, identity: str) -> Iterator[Document]:
    rules = [each.resource.rule(["CREATE", "UPDATE"]) for each in kinds_by(path)]
    queue = f"({label(QUEUE_LABEL)} != '' ? {label(QUEUE_LABEL)} : {queue_of('object')})"
    patches = join(
        *parents(path),
        add("/" + "/".join(path), "true"),
        map_exists("object", "", "labels"),
        add(f"/metadata/labels/{escaped(QUEUE_LABEL)}", queue),
        map_exists("object", "", "annotations"),
        add(f"/metadata/annotations/{escaped(USER)}", _WHO),
        only_if(_CREATED, noted_suspension(path)),
    )
    enters = f"{_CREATED} || !{names_queue('oldObject')}"
    waits = f"{suspended('object', path)} && {label(QUEUE_LABEL)} != '' && {annotation(USER)} == {_WHO}"
    conditions = [
        not_by(identity),
        {"name": "no-part-of-another", "expression": f"!{was_made_as_part()}"},
        {"name": "enters-a-queue", "expression": enters},
        {"name": "not-complete-yet", "expression": f"!({waits})"},
    ]
    volcano = {"name": "names-a-queue-of-volcano", "expression": names_volcano_queue("object")}
    yield policy(f"muster-suspend-{noun}", rules, patches, conditions=_in_namespaces(conditions))
    yield policy(f"muster-suspend-{noun}-volcano", rules, patches, conditions=[volcano, *conditions])
    yield from bindings(f"suspend-{noun}", [])


def _restored(noun: str, path: Path, identity: str) -> Iterator[Document]:
    """Templates of what runs say what they said when it was resumed, however a user writes the object."""
    kinds = kinds_by(path)
    variables, lost, patches = restoring(kinds)
    runs = f"!{suspended('oldObject', path)} && !{suspended('object', path)}"
    conditions = [
        not_by(identity),
        {"name": "runs-from-a-queue", "expression": f"{runs} && {label(QUEUE_LABEL, 'oldObject')} != ''"},
        {"name": "no-part-of-another", "expression": f"!{was_made_as_part()}"},
        {"name": "lost-something", "expression": lost},
    ]
    name = f"muster-restore-{noun}"
    document = policy(
        name, [each.resource.rule(["UPDATE"]) for each in kinds], patches, conditions=conditions
    )
    document["spec"]["variables"] = variables
    yield document
    yield binding(name, name, {})


def _in_namespaces(conditions: Sequence[Document]) -> list[Document]:
    """What is in a gated namespace from before it was gated stays as it is when it is changed."""
    named = {"name": "named-or-new", "expression": f"{_CREATED} || {names_queue('object')}"}
    return [named, *conditions]


def is_said(path: Path) -> str:
    """Whether an object has a field because somebody wrote it: what lacks it leaves it to its default.

    The API server writes the default of a field that an apply takes away as its last owner; then nobody owns it.
    """
    said = f"object{''.join(f'.?{field}' for field in path)}.hasValue()"
    owned = "m.?fieldsV1" + "".join(f"[?{text(f'f:{field}')}]" for field in path)
    return f"({said} && object.metadata.?managedFields.orValue([]).exists(m, {owned}.hasValue()))"


def parents(path: Path) -> Iterator[str]:
    """Patches by which everything above a field exists."""
    for depth in range(2, len(path)):
        of = ".".join(("object", *path[:depth]))
        yield only_if(f"!has({of})", add("/" + "/".join(path[:depth]), "{}"))
