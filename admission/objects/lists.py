"""Pages of lists and lines of watches."""

import msgspec

from admission.objects.parts import WireStruct


class ListMetadata(WireStruct):
    """Where a list was cut and how old it is."""

    resource_version: str = ""
    continue_: str | None = msgspec.field(default=None, name="continue")


class Page(WireStruct):
    """One page of a list, its items not yet decoded."""

    metadata: ListMetadata = msgspec.field(default_factory=ListMetadata)
    items: list[msgspec.Raw] | None = None


class WatchEvent(WireStruct):
    """One line of a watch, its object not yet decoded."""

    type: str
    object: msgspec.Raw
