"""ResourceFlavor, muster.dev/v1alpha1: a kind of hardware that quota is counted in, told by node labels."""

from typing import Literal

from pydantic import Field

from queues.api.metadata import ObjectMeta
from queues.api.model import Labels, Model
from queues.api.names import MUSTER
from queues.api.types.pod import TolerationSpec


class FlavorSpec(Model):
    """Which nodes are of the flavor, and what their taints ask of pods."""

    #: A node is of this flavor if it has all of them.
    node_labels: Labels = Field(default_factory=dict)
    #: Added to the pods that are placed in the flavor.
    tolerations: tuple[TolerationSpec, ...] = ()


class ResourceFlavor(Model):
    """A ResourceFlavor."""

    api_version: Literal["muster.dev/v1alpha1"] = MUSTER
    kind: Literal["ResourceFlavor"] = "ResourceFlavor"
    metadata: ObjectMeta = ObjectMeta()
    spec: FlavorSpec = FlavorSpec()
