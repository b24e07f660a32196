"""Commands of Volcano → values. Pure."""

from admission.decode.fields import one, seconds
from admission.wire import WireMetadata, WireOwnerReference, WireStruct
from queues.api.api_resources import QUEUES, VOLCANO_JOBS
from queues.api.reading.user_values import LONGEST_MESSAGE, shortened
from queues.command import Command


class WireCommand(WireStruct):
    """A Command."""

    metadata: WireMetadata
    action: str | None = None
    target: WireOwnerReference | None = None
    reason: str | None = None
    message: str | None = None


def command_of(command: WireCommand) -> Command:
    """The Command, with the kind of its target if it is one that Commands are about, in any version."""
    meta, target = command.metadata, command.target or WireOwnerReference()
    kind = one((target.api_version.partition("/")[0], target.kind))
    return Command(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        action=shortened(command.action or ""),
        target_kind=target.kind if kind in _TARGETS else "",
        target_name=target.name,
        target_uid=target.uid,
        created=seconds(meta.creation_timestamp),
        message=shortened(command.message or command.reason or "", LONGEST_MESSAGE),
    )


_TARGETS = {(resource.group, resource.kind) for resource in (VOLCANO_JOBS, QUEUES)}
