"""ResourceFlavor, muster.dev/v1alpha1: a kind of hardware that quota is counted in, recognised by node labels."""

from typing import Literal

from pydantic import Field

from queues.api.metadata import ObjectMeta
from queues.api.model import Labels, Model, Quantities, Text
from queues.api.names import MUSTER


class TolerationSpec(Model):
    """A toleration as users write it."""

    #: Key of the taint; empty: every taint.
    key: Text = ""
    #: ``Exists`` or ``Equal``.
    operator: Text = "Equal"
    #: Value of the taint.
    value: Text = ""
    #: Effect of the taint; empty: every effect.
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""
    #: How long a pod stays on a node with the taint.
    toleration_seconds: int | None = None


class FlavorSpec(Model):
    """The nodes of the flavor, and what its devices count as. ``tolerations`` has no effect yet."""

    #: A node is of this flavor if it has all of them.
    node_labels: Labels = Field(default_factory=dict)
    #: The resource that devices of a DeviceClass count as, by class.
    device_classes: Labels = Field(default_factory=dict)
    #: The largest node of the flavor that a cluster autoscaler can add: amounts by resource. Devices that are not named
    #: are not on it; processors, memory and the like have no bound then. Absent: none is known.
    may_grow: Quantities = Field(default_factory=dict)
    #: Accepted and kept, without effect yet: pods need tolerations of their own for the flavor's nodes.
    tolerations: tuple[TolerationSpec, ...] = ()


class ResourceFlavor(Model):
    """A ResourceFlavor."""

    api_version: Literal["muster.dev/v1alpha1"] = MUSTER
    kind: Literal["ResourceFlavor"] = "ResourceFlavor"
    metadata: ObjectMeta = ObjectMeta()
    spec: FlavorSpec = FlavorSpec()
