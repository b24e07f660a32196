"""Metadata of Kubernetes objects: the fields that Muster reads. Other fields are kept."""

from typing import Annotated, Literal

from pydantic import Field

from queues.api.model import Flag, Labels, Model, Text, Time, at_most
from queues.api.reading.user_values import MOST_LABELS, MOST_LISTED


class OwnerReference(Model):
    """The owner of an object."""

    api_version: Text = ""
    kind: Text = ""
    name: Text = ""
    uid: Text = ""
    controller: Flag = False


class ObjectMeta(Model):
    """Metadata of an object or of a pod template."""

    name: Text = ""
    generate_name: Text = ""
    namespace: Text = ""
    uid: Text = ""
    resource_version: Text = ""
    generation: int = 0
    labels: Labels = Field(default_factory=dict)
    annotations: Labels = Field(default_factory=dict)
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[Text, ...] = ()


class SelectorExpression(Model):
    """One expression of a LabelSelector."""

    key: Text
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: Annotated[tuple[Text, ...], at_most(MOST_LISTED)] = ()


class LabelSelector(Model):
    """Labels that objects must have, and expressions that must hold, all of them."""

    match_labels: Labels = Field(default_factory=dict)
    match_expressions: Annotated[tuple[SelectorExpression, ...], at_most(MOST_LABELS)] = ()
