"""Volcano's Command, bus.volcano.sh/v1alpha1: an action that a person asks for on a Job or a Queue."""

from typing import Literal

from queues.api.metadata import ObjectMeta
from queues.api.model import Model, OpenModel, Text
from queues.api.names import BUS_VOLCANO


class CommandTarget(OpenModel):
    """The object that the action is asked for on: an owner reference."""

    #: Of the object.
    api_version: Text = ""
    #: ``Job`` or ``Queue``.
    kind: Text = ""
    #: Its name.
    name: Text = ""
    #: Its uid: another one may get its name.
    uid: Text = ""
    #: Of owner references; without effect.
    controller: bool | None = None
    #: Of owner references; without effect.
    block_owner_deletion: bool | None = None


class CommandDocument(Model):
    """A Command. Its fields are at the top of the document."""

    api_version: Literal["bus.volcano.sh/v1alpha1"] = BUS_VOLCANO
    kind: Literal["Command"] = "Command"
    metadata: ObjectMeta = ObjectMeta()
    #: AbortJob, ResumeJob, RestartJob, CompleteJob, TerminateJob; OpenQueue, CloseQueue.
    action: Text = ""
    #: The object.
    target: CommandTarget = CommandTarget()
    #: Why, in one word.
    reason: Text = ""
    #: Why, for people.
    message: Text = ""
