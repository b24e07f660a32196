"""ResourceFlavor, muster.dev/v1alpha1: a kind of hardware that quota is counted in, recognised by node labels."""

from typing import Annotated, Final, Literal

from pydantic import Field

from queues.api.metadata import ObjectMeta
from queues.api.model import Labels, Model, Quantities, Text, at_most
from queues.api.names import MUSTER
from queues.workload import Toleration

#: Tolerations of a flavor.
MOST_FLAVOR_TOLERATIONS: Final = 16


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

    def to_domain(self) -> Toleration:
        """As the engine and pods have it."""
        return Toleration(
            self.key, self.operator or "Equal", self.value, self.effect, self.toleration_seconds
        )


class FlavorSpec(Model):
    """The nodes of the flavor, what its devices count as, and what pods tolerate there."""

    #: A node is of this flavor if it has all of them.
    node_labels: Labels = Field(default_factory=dict)
    #: The resource that devices of a DeviceClass count as, by class.
    device_classes: Labels = Field(default_factory=dict)
    #: The largest node of the flavor that a cluster autoscaler can add: amounts by resource. Devices that are not named
    #: are not on it; processors, memory and the like have no bound then. Absent: none is known.
    may_grow: Quantities = Field(default_factory=dict)
    #: What pods get when they are released to nodes of the flavor, besides their own: those of queues that name it.
    tolerations: Annotated[tuple[TolerationSpec, ...], at_most(MOST_FLAVOR_TOLERATIONS)] = ()


class ResourceFlavor(Model):
    """A ResourceFlavor."""

    api_version: Literal["muster.dev/v1alpha1"] = MUSTER
    kind: Literal["ResourceFlavor"] = "ResourceFlavor"
    metadata: ObjectMeta = ObjectMeta()
    spec: FlavorSpec = FlavorSpec()
