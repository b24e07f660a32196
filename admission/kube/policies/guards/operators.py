"""Guards of kinds of other projects that wait by a field that suspends them: only Muster resumes them. Pure."""

from collections.abc import Iterator, Sequence

from admission.kube.policies.cel import annotation, label, text
from admission.kube.policies.guards.rules import CREATED, WHO, guard, rule, shown, unchanged, variable
from admission.kube.policies.mutating import PolicyOptions
from admission.kube.policies.operator_templates import classes_of
from admission.kube.policies.operators import GROUPS, is_part, kinds_by, suspended, was_made_as_part
from admission.workloads.kinds.operators import OperatorKind
from admission.workloads.kinds.operators.json_parts import Path
from admission.workloads.kinds.operators.support import SuspendRule
from queues.api.api_resources import Document
from queues.api.names import QUEUE_LABEL, USER
from queues.api.validation.queued_work import NO_SYSTEM_CLASS


def operator_guards(options: PolicyOptions) -> list[Document]:
    """The policies with their bindings."""
    return [document for noun, path in GROUPS.items() for document in _guards(noun, path, options)]


def _guards(noun: str, path: Path, options: PolicyOptions) -> list[Document]:
    now, before = label(QUEUE_LABEL), f"(oldObject == null ? '' : {label(QUEUE_LABEL, 'oldObject')})"
    held, was_held = suspended("object", path), suspended("oldObject", path)
    field, kinds = ".".join(path), kinds_by(path)
    entered = f"({now} != '' && {before} == '')"
    return guard(
        f"muster-guard-{noun}",
        [each.resource.rule(["CREATE", "UPDATE"]) for each in kinds],
        [
            rule(
                f"{held} || (!({CREATED}) && !{was_held})",
                f"'{field}: found false written by ' + {WHO} + ', expected true until Muster admits the object to"
                f" queue \"' + {now} + '\". Wait; `kubectl muster explain` tells what it waits for.'",
            ),
            rule(
                f"{CREATED} || {now} == {before} || ({held} && {now} != '')",
                f"'Label {QUEUE_LABEL}: found ' + {shown(now)} + ', expected ' + {shown(before)}"
                f" + '; it may move to another queue only while it is suspended, and leave none. Suspend it first"
                f" ({field}: true), or delete it and create it again.'",
            ),
            unchanged("Annotation", USER, annotation, unless=f"({entered} && {annotation(USER)} == {WHO})"),
            rule(
                f"{CREATED} || !{is_part()}",
                f"'metadata.ownerReferences: found a controller written by ' + {WHO} + ', expected none: an object that"
                f" waits in a queue is made for no other one. Delete the object and create it again.'",
            ),
            _no_system_priority(entered),
            *_can_be_suspended(entered, kinds),
        ],
        options,
        concerns=f"({now} != '' || {before} != '') && !{was_made_as_part()}",
        variables=_classes(kinds),
    )


def _classes(kinds: Sequence[OperatorKind]) -> list[Document]:
    """Classes of the system that an object names, and those that it named before."""

    def of_system(of: str) -> str:
        return f"{classes_of(of, kinds)}.filter(c, c.startsWith('{NO_SYSTEM_CLASS.beginning}'))"

    return [
        variable("systemClasses", of_system("object")),
        variable("systemClassesBefore", f"oldObject == null ? [] : {of_system('oldObject')}"),
    ]


def _no_system_priority(entered: str) -> Document:
    """What waits in a queue does not rank as a part of the cluster itself, whichever of its templates says so."""
    return rule(
        "variables.systemClasses.all(c,"
        f" !({CREATED}) && !{entered} && variables.systemClassesBefore.exists(b, b == c))",
        "'priorityClassName: found \"' + variables.systemClasses[0] +"
        f" '\", expected {NO_SYSTEM_CLASS.expected}.'",
    )


def _can_be_suspended(entered: str, kinds: Sequence[OperatorKind]) -> Iterator[Document]:
    """Rules of operators for objects that are suspended. One that broke them before may stay as it is."""
    for description in kinds:
        for each in description.suspend_rules:
            kept = f"!({CREATED}) && !{entered} && !{_keeps('oldObject', each)}"
            yield rule(
                f"object.kind != {text(description.resource.kind)} || {_keeps('object', each)} || ({kept})",
                text(f"{'.'.join(each.at)}: found {each.found}, expected {each.expected}."),
            )


def _keeps(of: str, each: SuspendRule) -> str:
    at = of + "".join(f".?{field}" for field in each.at)
    return f"{at}.orValue(false)" if each.is_set else f"(size({at}.orValue({{}})) == 0)"
