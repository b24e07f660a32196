"""What all objects are made of: the base, metadata, conditions."""

import msgspec

Quantity = str | int | float


class WireStruct(msgspec.Struct, rename="camel", gc=False):
    """Base of all wire structs. No struct refers to its container, so the garbage collector need not track them."""


class WireOwnerReference(WireStruct):
    """The owner of an object."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class WireMetadata(WireStruct):
    """ObjectMeta, the part that Muster reads."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[WireOwnerReference, ...] | None = None
    finalizers: tuple[str, ...] | None = None


class Bare(WireStruct):
    """Any object, by its identity only: what is left of one that cannot be read."""

    metadata: WireMetadata = msgspec.field(default_factory=WireMetadata)


class WireCondition(WireStruct):
    """A condition of a pod, node or Job."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class WireNetworkTopology(WireStruct):
    """How far apart pods may lie, in tiers."""

    mode: str | None = None
    highest_tier_allowed: int | None = None
    highest_tier_name: str | None = None
