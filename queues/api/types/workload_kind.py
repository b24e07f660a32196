"""WorkloadKind, muster.dev/v1alpha1: a kind of objects that wait by a field that suspends them, described as data.

Such an object is created suspended. When it is admitted, Muster writes its queue, and which pod set it is of, into each
of its pod templates, and resumes it; the operator's pods come up behind the scheduling gate, and each gets a seat of
its pod set. So no template needs to name nodes, which few operators allow to change, and a pod that comes late or twice
waits. For an eviction the object is suspended again; its operator deletes the pods.
"""

import re
from collections.abc import Mapping
from sys import intern
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from queues.api.api_resources import ApiResource
from queues.api.descriptions import with_descriptions
from queues.api.metadata import ObjectMeta
from queues.api.model import LABEL_PATTERN, Count, Flag, Labels, Model, Text, Time, at_most
from queues.api.names import MUSTER, QUEUE_LABEL
from queues.kind_names import KindName

_FIELD = r"[A-Za-z_][A-Za-z0-9_]*"
#: Fields of a path, and its characters.
_MOST_FIELDS: Final = 16
_LONGEST_PATH: Final = 512
_PATH_PATTERN: Final = rf"^$|^{_FIELD}(\.{_FIELD}){{0,{_MOST_FIELDS - 1}}}$"
#: Entries of a list in a document.
MOST_PARTS: Final = 32
_LONGEST_SENTENCE: Final = 500

#: Names of fields from an object to one of its parts.
Path = tuple[str, ...]


def _fields(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if len(value) > _LONGEST_PATH or re.fullmatch(_PATH_PATTERN, value) is None:
        expected = (
            f"names of at most {_MOST_FIELDS} fields with dots between them, such as spec.runPolicy.suspend"
        )
        raise PydanticCustomError("field_path", "{expected}", {"expected": expected})
    return tuple(value.split(".")) if value else ()


#: A path as users write it: ``spec.runPolicy.suspend``; "": none.
FieldPath = Annotated[
    Path,
    BeforeValidator(_fields),
    PlainSerializer(".".join),
    WithJsonSchema({"type": "string", "pattern": _PATH_PATTERN, "maxLength": _LONGEST_PATH}),
]
_Few = at_most(MOST_PARTS)
#: A value, the name of a field, and a sentence.
_Word = Annotated[Text, Field(max_length=253)]
_FieldName = Annotated[Text, Field(pattern=rf"^{_FIELD}$", max_length=253)]
_Sentence = Annotated[Text, Field(min_length=1, max_length=_LONGEST_SENTENCE)]


class _ServedKind(Model):
    """A kind of objects, and where the API server has them."""

    #: ``group/version``.
    api_version: Annotated[
        Text, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/v[0-9a-z]+$", max_length=253)
    ]
    #: Its name in URL paths, rights and policies.
    plural: Annotated[Text, Field(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
    #: The kind.
    kind: Annotated[Text, Field(pattern=r"^[A-Z][A-Za-z0-9]*$", max_length=63)]


def _resource(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    said = _ServedKind.parse(value)
    return ApiResource(said.api_version, said.plural, said.kind)


def _served(resource: ApiResource) -> dict[str, str]:
    return {"apiVersion": resource.api_version, "plural": resource.plural, "kind": resource.kind}


#: A kind of objects in namespaces: ``apiVersion``, ``plural``, ``kind``.
ServedKind = Annotated[
    ApiResource,
    PlainValidator(_resource, json_schema_input_type=_ServedKind),
    PlainSerializer(_served),
    WithJsonSchema(with_descriptions(_ServedKind.model_json_schema(by_alias=True), _ServedKind)),
]


class PodCount(Model):
    """A factor of the number of a template's pods. Paths begin where the template's do."""

    #: The number.
    at: FieldPath
    #: A number that it does not exceed.
    most: FieldPath = ()
    #: A number that it is at least.
    least: FieldPath = ()
    #: A flag by which it is 0.
    unless: FieldPath = ()
    #: What it is where it is absent; 1 if this is absent too.
    default: Count = 1


class FieldValues(Model):
    """A field with some of its values."""

    #: The field.
    at: FieldPath
    #: The values; "" stands for an absent field too.
    values: Annotated[tuple[_Word, ...], _Few]


class Templates(Model):
    """Pod templates at one place of an object: each is a pod set."""

    #: Fields from the object to what has the template, or to the list or map of these.
    at: FieldPath
    #: What is there: ``one`` template (also if absent), or a list or map where each ``element`` or ``entry`` has one.
    each: Literal["one", "element", "entry"] = "one"
    #: Fields from there to the template; absent: it is there.
    template: FieldPath = ()
    #: Name of the pod set, of one template.
    name: Annotated[Text, Field(pattern=LABEL_PATTERN, max_length=63)] = ""
    #: The field of an element that has its name; absent: ``name``. The name of a map's entry is its key.
    named_by: _FieldName = "name"
    #: The number of pods is their product; 1 if there are none.
    counts: Annotated[tuple[PodCount, ...], _Few] = ()
    #: Where it says what comes before it: a list of names, each with ``Ready`` or ``Complete``.
    depends_on: FieldPath = ()
    #: Whether the object cannot be used without it; absent: true.
    needed: Flag = True
    #: The field by which pods are made of it; absent: they always are.
    made_if: FieldValues | None = None
    #: What is there has no pod template; Muster works out what its pods ask for, as its operator does.
    computed: Literal["", "spark"] = ""

    @property
    def metadata_at(self) -> Path:
        """Fields from the place to what has the labels and annotations of the pods."""
        return () if self.computed else (*self.template, "metadata")


class KindProgress(Model):
    """Where a status counts what has succeeded and what is ready, by pod set: of what the first of ``counts`` says."""

    #: Fields from the object to the list or map of counts.
    at: FieldPath
    #: What is there: a list whose elements are of one pod set each, or a map.
    each: Literal["element", "entry"]
    #: The field of an element that has the name of the pod set; absent: ``name``.
    named_by: _FieldName = "name"
    #: The field with the number of those that have succeeded; absent: ``succeeded``.
    succeeded: _FieldName = "succeeded"
    #: The field with the number of those that are ready; absent: ``ready``.
    ready: _FieldName = "ready"
    #: Of an object that is suspended they count pods that are made again.
    stale_while_suspended: Flag = False
    #: They count batch/v1 Jobs, not pods.
    of_jobs: Flag = False


class KindDemand(Model):
    """What an object in a queue has to say: its operator asks it of a suspended object, or Muster relies on it."""

    #: A flag; or, where it has to be absent, a map or a list.
    at: FieldPath
    #: ``true``: the flag is set; ``false``: it is not; ``absent``: the map or list is absent or empty.
    must: Literal["true", "false", "absent"]
    #: What the refusal says was found.
    found: _Sentence
    #: What the refusal says was expected, and why.
    expected: _Sentence


class FieldDefault(Model):
    """A flag that Muster writes on an object in a queue which says nothing of it."""

    #: The flag.
    at: FieldPath
    #: What is written.
    value: Flag


class FewerPods(Model):
    """A field that lets fewer pods start together where the operator decides."""

    #: The number.
    at: FieldPath
    #: The pod set; "": all.
    pod_set: _Word = ""
    #: Whether it counts here too, of a pod set: so many start together, and the others join them. Else it is without
    #: effect.
    counts: Flag = False


class Ended(Model):
    """How an object shows that it has ended; without it, it holds its seats until it is gone.

    What is called ``failed``, in any case, says that it has failed.
    """

    #: Conditions that say so.
    conditions: Annotated[tuple[_Word, ...], _Few] = ()
    #: Fields of the status that say so, with the values by which they do.
    fields: Annotated[tuple[FieldValues, ...], _Few] = ()


class PassedOn(Model):
    """A place of an object from which its operator takes labels for what it makes: the object's queue is written
    there."""

    #: Fields from the object to the place, or to the list or map of places; nothing is written if it is absent.
    at: FieldPath
    #: What is there: ``one`` place (also if absent), or a list or map where each ``element`` or ``entry`` has one.
    each: Literal["one", "element", "entry"] = "one"
    #: Fields, with their values, of the list's element that is Muster's. It is added if it is absent; others are left
    #: alone.
    own: Labels = Field(default_factory=dict)
    #: Fields from there to what has the labels; nothing is written if it is absent.
    holder: FieldPath = ()
    #: Fields from there to the labels, or annotations, which are made; absent: ``metadata.labels``.
    labels: FieldPath = ("metadata", "labels")
    #: The label, annotation or field that is written; absent: ``muster.dev/queue-name``.
    key: Annotated[Text, Field(min_length=1, max_length=317)] = QUEUE_LABEL
    #: What is written in the place of the queue, where there is nothing.
    value: _Word = ""


class QueueFrom(Model):
    """Where objects that another one makes name their queue, if they do not themselves."""

    #: Kinds whose controllers make them so.
    made_by: Annotated[tuple[ServedKind, ...], _Few, Field(min_length=1)]
    #: Fields from the object to the pod template whose labels name it.
    template: FieldPath


class WorkloadKindSpec(Model):
    """How objects of the kind wait, what their pods ask for, and how they end; or what their queue is handed on to."""

    #: The kind, and where the API server has its objects.
    resource: ServedKind
    #: The field that suspends an object; absent: ``spec.suspend``.
    suspend: FieldPath = ("spec", "suspend")
    #: Its pod templates; of a kind that does not wait itself, those that ``muster check`` looks at.
    templates: Annotated[tuple[Templates, ...], _Few] = ()
    #: Its objects do not wait themselves: their queue is written into these places, and what is made of them waits.
    passes_on: Annotated[tuple[PassedOn, ...], _Few] = ()
    #: What of them waits, for ``muster check``.
    waits_as: Annotated[Text, Field(max_length=_LONGEST_SENTENCE)] = ""
    #: Where objects that another one makes name their queue.
    queue_from: QueueFrom | None = None
    #: How it shows that it has ended.
    ended: Ended = Ended()
    #: Where its status counts what has succeeded and what is ready.
    progress: KindProgress | None = None
    #: The field with the name of its priority class; absent: the class of its first template that names one counts.
    priority_class: FieldPath = ()
    #: Labels that its operator writes on all its pods, with the name of the object.
    name_labels: Annotated[tuple[_Word, ...], _Few] = ()
    #: Annotations by which its operator places pods itself, with what to write instead.
    places_itself: Labels = Field(default_factory=dict)
    #: Kinds whose controllers make objects of this one, which are no workloads of their own then.
    made_by: Annotated[tuple[ServedKind, ...], _Few] = ()
    #: Kinds whose controllers make objects of this one, which are workloads: each is suspended like its object.
    suspended_with: Annotated[tuple[ServedKind, ...], _Few] = ()
    #: What an object in a queue has to say.
    demands: Annotated[tuple[KindDemand, ...], _Few] = ()
    #: What an object in a queue says that leaves it out.
    defaults: Annotated[tuple[FieldDefault, ...], _Few] = ()
    #: What ``managedBy``, next to the field that suspends it, says of objects that its operator looks after; empty: the
    #: kind has no such field.
    managed_by: Annotated[tuple[_Word, ...], _Few] = ()
    #: Fields that let fewer pods start together where its operator decides. ``muster check`` says which are without
    #: effect.
    fewer_pods: Annotated[tuple[FewerPods, ...], _Few] = ()
    #: A field that names a queue of its operator, which is without effect as well.
    other_queue: FieldPath = ()

    @property
    def kind(self) -> KindName:
        """The name of the kind, as workloads have it."""
        return KindName(intern(self.resource.kind.lower()))

    @property
    def managed_by_at(self) -> Path:
        """Fields from the object to the name of its controller."""
        return (*self.suspend[:-1], "managedBy")


class KindCondition(Model):
    """Whether Muster uses the kind."""

    #: ``Ready``: its objects wait in queues; ``RightsMissing``: it has no policies, or Muster no rights for it.
    type: Text
    #: ``True`` or ``False``.
    status: Text
    #: Why, in one word: ``InUse``, ``RightsMissing``, ``Invalid``, ``Leaving`` or ``NotServed``.
    reason: Text = ""
    #: The same as a sentence, with what to do.
    message: Text = ""
    #: Since when.
    last_transition_time: Time | None = None


class WorkloadKindStatus(Model):
    """Whether Muster uses it. Written by Muster."""

    #: Whether it is in use; if not, why.
    conditions: tuple[KindCondition, ...] = ()


_SAME: Final = {
    "rule": "self == oldSelf",
    "message": "A kind does not change while objects of it may run. `muster kinds add` takes it out of use and adds it "
    "again, once none holds seats.",
}


class WorkloadKindDocument(Model):
    """A WorkloadKind."""

    api_version: Literal["muster.dev/v1alpha1"] = MUSTER
    kind: Literal["WorkloadKind"] = "WorkloadKind"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[WorkloadKindSpec, Field(json_schema_extra={"x-kubernetes-validations": [_SAME]})]
    status: WorkloadKindStatus = WorkloadKindStatus()
