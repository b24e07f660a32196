"""Where objects of other projects have parts that policies read, as data in CEL made from the documents of their kinds.

Pure.
"""

from collections.abc import Iterable
from typing import Final, Literal

from admission.kube.policies.cel import text, texts
from queues.api.names import QUEUE_LABEL
from queues.api.types.workload_kind import PassedOn, Path, Templates, WorkloadKindSpec

#: Texts by the kinds of objects: lists in CEL are of one type.
Forms = dict[str, list[list[str]]]

#: Where pod templates have their labels.
USUAL_LABELS: Final = "metadata.labels"
#: What a form ends with, unless it says otherwise: the labels, the label, and what is written there.
_USUAL: Final = [USUAL_LABELS, QUEUE_LABEL, ""]


def places_by_kind(kinds: Iterable[WorkloadKindSpec]) -> Forms:
    """The pod templates of objects, and the places into which a queue is written: the path to the place, and from there
    to the template or holder; what is at the place; what names its pod set, "" for no pod template; and, unless it is
    usual, the path from there to the labels, the label, what is written instead of the queue, and the field with its
    value that Muster's element of a list has."""

    def form(place: Templates | PassedOn) -> list[str]:
        if isinstance(place, Templates):
            named = place.name if place.each == "one" else place.named_by
            # What has no template has labels itself.
            labels = (*place.metadata_at[len(place.template) :], "labels")
            said = [place.at, place.template, place.each, named, labels, QUEUE_LABEL, ""]
        else:
            own = [part for pair in place.own.items() for part in pair]
            said = [place.at, place.holder, place.each, "", place.labels, place.key, place.value, *own]
        found = [part if isinstance(part, str) else ".".join(part) for part in said]
        while 4 < len(found) <= 7 and found[-1] == _USUAL[len(found) - 5]:
            found.pop()
        return found

    return {each.resource.kind: [form(place) for place in each.passes_on or each.templates] for each in kinds}


def demands_by_kind(kinds: Iterable[WorkloadKindSpec]) -> Forms:
    """What objects have to say: the path to it, what it must be, and the refusal."""
    return {
        each.resource.kind: [
            [at, asked.must, f"{at}: found {asked.found}, expected {asked.expected}."]
            for asked in each.demands
            for at in [".".join(asked.at)]
        ]
        for each in kinds
        if each.demands
    }


def path_of(kinds: Iterable[WorkloadKindSpec], field: Literal["suspend", "priority_class"]) -> str:
    """The path that a field of the document of an object's kind names, in CEL; empty: none."""
    found: dict[Path, list[str]] = {}
    for each in kinds:
        if path := getattr(each, field):
            found.setdefault(path, []).append(each.resource.kind)
    return (
        "".join(f"object.kind in {texts(names)} ? {texts(path)} : " for path, names in found.items()) + "[]"
    )


def depth(forms: Forms, part: int) -> int:
    """How many fields the longest path has."""
    usual = USUAL_LABELS if part == 4 else ""
    paths = (form[part] if len(form) > part else usual for places in forms.values() for form in places)
    return max((path.count(".") + 1 for path in paths), default=0)


def own_value(place: PassedOn, queue: str) -> str:
    """The element that Muster adds to a list, with the queue in it. ``queue``: CEL."""
    value = queue
    for field in reversed((*place.holder, *place.labels, place.key)):
        value = f"{{{text(field)}: dyn({value})}}"
    own = "".join(f"{text(field)}: dyn({text(said)}), " for field, said in place.own.items())
    return f"{{{own}{value[1:]}"
