"""Topology, muster.dev/v1alpha1: the levels of the network, outermost first, the host last."""

from typing import Annotated, Literal

from pydantic import Field

from queues.api.metadata import ObjectMeta
from queues.api.model import Model, Text
from queues.api.names import MUSTER


class LevelSpec(Model):
    """One level: nodes with the same value of the label lie in the same domain."""

    #: Key of a label of nodes.
    node_label: Annotated[Text, Field(min_length=1, max_length=317)]


class TopologySpec(Model):
    """The levels, outermost first."""

    #: Levels of the network.
    levels: Annotated[tuple[LevelSpec, ...], Field(min_length=1, max_length=16)]


class Topology(Model):
    """A Topology."""

    api_version: Literal["muster.dev/v1alpha1"] = MUSTER
    kind: Literal["Topology"] = "Topology"
    metadata: ObjectMeta = ObjectMeta()
    spec: TopologySpec

    def level_keys(self) -> tuple[str, ...]:
        """Node label keys, outermost first."""
        return tuple(level.node_label for level in self.spec.levels)
