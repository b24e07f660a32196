"""Volcano's HyperNode, topology.volcano.sh/v1alpha1: a domain of the network, with its nodes or inner HyperNodes."""

from typing import Annotated, Final, Literal

from pydantic import Field

from queues.api.metadata import ObjectMeta
from queues.api.model import Count, OpenModel, Text
from queues.api.names import TOPOLOGY_VOLCANO
from queues.api.types.volcano_job import Whole

#: Nodes or HyperNodes that one HyperNode names.
MOST_MEMBERS: Final = 10_000


class ExactMatch(OpenModel):
    """One object by its name."""

    #: Name of a node or HyperNode.
    name: Text = ""


class RegexMatch(OpenModel):
    """Nodes with a name in which the pattern is found."""

    #: Regular expression that the whole name of a node matches (RE2).
    pattern: Text = ""


class MemberSelector(OpenModel):
    """Selects members: exactly one of the three fields is set."""

    #: One by its name.
    exact_match: ExactMatch | None = None
    #: Nodes by their names.
    regex_match: RegexMatch | None = None
    #: A LabelSelector over nodes.
    label_match: Whole | None = None


class HyperNodeMemberSpec(OpenModel):
    """Nodes, or another HyperNode (by name only)."""

    #: Whether it is nodes or another HyperNode.
    type: Literal["Node", "HyperNode"] = "Node"
    #: Which; exactly one of its fields.
    selector: MemberSelector = MemberSelector()


class HyperNodeSpec(OpenModel):
    """A place in the network: the lower the tier, the closer its nodes are to one another."""

    #: How far apart its nodes are: the lower the closer.
    tier: Count = 0
    #: A name for the tier.
    tier_name: Annotated[Text, Field(max_length=253)] = ""
    #: Its nodes, or HyperNodes of a lower tier.
    members: Annotated[
        tuple[HyperNodeMemberSpec, ...], Field(json_schema_extra={"maxItems": MOST_MEMBERS})
    ] = ()


class HyperNode(OpenModel):
    """A HyperNode."""

    api_version: Literal["topology.volcano.sh/v1alpha1"] = TOPOLOGY_VOLCANO
    kind: Literal["HyperNode"] = "HyperNode"
    metadata: ObjectMeta = ObjectMeta()
    spec: HyperNodeSpec = HyperNodeSpec()
