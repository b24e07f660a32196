"""What a cluster autoscaler can add to each flavor, as far as ResourceFlavors state it (``spec.mayGrow``)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from queues.resources import is_device
from queues.workload import FlavorName


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorGrowth:
    """A ResourceFlavor, and the largest node of it that an autoscaler can add."""

    flavor: FlavorName
    #: Labels that all its nodes have.
    labels: Mapping[str, str] = field(default_factory=dict)
    #: Amounts of the largest node that can be added. None if the ResourceFlavor states none.
    largest: Mapping[str, int] | None = None

    def most(self, resource: str) -> int | None:
        """The most of a resource that a node which is added has; None for any amount.

        Devices that are not stated are not on such a node. Of what every node has (processors, memory) nothing is known
        if it is not stated.
        """
        largest = self.largest or {}
        return largest.get(resource, 0) if "/" in resource else largest.get(resource)

    def holds(self, takes: Mapping[str, int]) -> bool:
        """Whether such a node has room for one pod."""
        return all(_is_within(units, self.most(name)) for name, units in takes.items() if not is_device(name))


def growth_of(
    flavors: Sequence[FlavorName], known: Sequence[FlavorGrowth], *, asks: bool, described: bool
) -> tuple[FlavorGrowth, ...] | None:
    """What can be added to the nodes of a queue, by flavor. Empty if nothing is known. None for nodes of any size.

    ``flavors``: of the queue; empty: it uses all nodes. ``known``: all ResourceFlavors. ``asks``: an autoscaler is
    asked for nodes for this queue. ``described``: every node is of a flavor.
    """
    usable = [each for each in known if not flavors or each.flavor in flavors]
    stated = tuple(each for each in usable if each.largest is not None)
    if not asks:
        return stated
    is_whole = len(stated) == (len(flavors) or len(usable)) and (described or bool(flavors))
    return stated if stated and is_whole else None


def short_of(
    growth: Sequence[FlavorGrowth], takes: Mapping[str, int], before: str | None
) -> tuple[str, int] | None:
    """A resource with too little for a pod on every node that can be added, and the most that one of these has.

    ``before``: the resource that is looked at first. None if there is no such resource.
    """
    # Devices say more than processors and memory.
    for name in sorted(takes, key=lambda each: (each != before, "/" not in each, each)):
        bounds = [] if is_device(name) else [each.most(name) for each in growth]
        most = max((bound for bound in bounds if bound is not None), default=0)
        if bounds and None not in bounds and takes[name] > most:
            return name, most
    return None


def _is_within(units: int, most: int | None) -> bool:
    return most is None or units <= most
