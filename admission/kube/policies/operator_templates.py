"""Pod templates in objects of other projects, as expressions: what classes they name, and how they are written again.

When Muster resumes such an object it writes its queue and ``muster.dev/member-of`` into each of its templates. A user
who then applies the object's manifest again, or adds a template, leaves them out: lists are replaced whole. Pods
of such a template would start past the queue. So a policy writes both into every template again. Pure.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from admission.kube.policies.cel import label, text
from admission.workloads.kinds.operators import OperatorKind
from admission.workloads.kinds.operators.json_parts import Path
from admission.workloads.kinds.operators.support import Each, Templates
from queues.api.api_resources import Document
from queues.api.json_patch import escaped
from queues.api.names import MEMBER_OF, QUEUE_LABEL

_CLASS: Final = ("priorityClassName",)
#: An object's name and uid do not change, and are not in every request.
_OBJECT: Final = "oldObject.metadata.name + '/' + oldObject.metadata.uid + '/'"


def classes_of(of: str, kinds: Iterable[OperatorKind]) -> str:
    """All priority classes that an object names, a list: its own, and those of its templates; "": one names none."""

    def of_kind(description: OperatorKind) -> Iterator[str]:
        if description.priority_class:
            yield f"[{_at(of, description.priority_class)}.orValue('')]"
        for templates in description.templates:
            inner = _CLASS if templates.made is not None else (*templates.template, "spec", *_CLASS)
            yield _each(templates, of, f"{_at('e', inner)}.orValue('')")

    return _by_kind((each, " + ".join(of_kind(each))) for each in kinds)


def restoring(kinds: Iterable[OperatorKind]) -> tuple[list[Document], str, str]:
    """Variables, a condition and patches: what an object that runs has lost from its templates is written again.

    The condition is for objects that Muster resumed, which one sees by the templates that they had before.
    """
    kinds = list(kinds)
    queue = label(QUEUE_LABEL, "oldObject")
    was_resumed = (
        f"{_places('oldObject', kinds)}.exists(p, {_annotation('p')} != '' && {_annotation('p')} == p.member)"
    )
    lost = f"{_places('object', kinds)}.exists(p, {_label('p')} != {queue} || {_annotation('p')} != p.member)"
    variables = [{"name": "places", "expression": _places("object", kinds)}]
    steps = (
        ("!p.there", "", "{}"),
        ("!p.metadata.?labels.hasValue()", "/labels", "{}"),
        (f"{_label('p')} != {queue}", f"/labels/{escaped(QUEUE_LABEL)}", queue),
        ("!p.metadata.?annotations.hasValue()", "/annotations", "{}"),
        (f"{_annotation('p')} != p.member", f"/annotations/{escaped(MEMBER_OF)}", "p.member"),
    )
    patches = "\n+ ".join(
        f"variables.places.filter(p, {missing})"
        f".map(p, JSONPatch{{op: 'add', path: p.at + {text(place)}, value: {value}}})"
        for missing, place, value in steps
    )
    return variables, f"{was_resumed}\n&& {lost}", patches


def _places(of: str, kinds: Iterable[OperatorKind]) -> str:
    """What has the labels and annotations of pods, of each template: its JSON pointer, whether it is there, itself, and
    the annotation of its pods."""

    def of_template(description: OperatorKind, templates: Templates) -> str:
        pointer = {
            Each.ONE: text(_pointer(templates.at)),
            Each.ELEMENT: f"{text(_pointer(templates.at) + '/')} + string(i)",
            Each.ENTRY: f"{text(_pointer(templates.at) + '/')} + i.replace('~', '~0').replace('/', '~1')",
        }[templates.each]
        name = {
            Each.ONE: text(templates.name),
            Each.ELEMENT: f"e.?{templates.named_by}.orValue('')",
            Each.ENTRY: "i.lowerAscii()",
        }[templates.each]
        metadata = _at("e", templates.written_at())
        place = (
            f"{{'at': dyn({pointer} + {text(_pointer(templates.written_at()))}),"
            f" 'there': dyn({metadata}.hasValue()),"
            f" 'metadata': dyn({metadata}.orValue({{}})),"
            f" 'member': dyn({text(f'{description.kind}/')} + {_OBJECT} + {name})}}"
        )
        return _each(templates, of, place, f"{_at('e', templates.template)}.hasValue()")

    return _by_kind(
        (each, " + ".join(of_template(each, templates) for templates in each.templates)) for each in kinds
    )


def _label(place: str) -> str:
    return f"{place}.metadata.?labels[?{text(QUEUE_LABEL)}].orValue('')"


def _annotation(place: str) -> str:
    return f"{place}.metadata.?annotations[?{text(MEMBER_OF)}].orValue('')"


def _each(templates: Templates, of: str, value: str, condition: str = "true") -> str:
    """A list of what is found at each place that has a template. There ``e`` is, and ``i``: its index or its key."""
    at = _at(of, templates.at)
    match templates.each:
        case Each.ONE:
            return f"({at}.hasValue() ? [{at}.value()] : []).transformList(i, e, {condition}, {value})"
        case Each.ELEMENT:
            return f"{at}.orValue([]).transformList(i, e, {condition}, {value})"
        case Each.ENTRY:
            return f"{at}.orValue({{}}).transformList(i, e, {condition}, {value})"


def _by_kind(lists: Iterable[tuple[OperatorKind, str]]) -> str:
    """The list for the kind of an object. Kinds without templates at places that are known have none."""
    chain = "[]"
    for description, found in lists:
        if found:
            chain = f"object.kind == {text(description.resource.kind)} ? {found}\n: {chain}"
    return f"({chain})"


def _at(of: str, path: Path) -> str:
    """The part at a place, which may be absent."""
    return f"optional.of({of})" if not path else of + "".join(f".?{field}" for field in path)


def _pointer(path: Path) -> str:
    return "".join(f"/{escaped(field)}" for field in path)
