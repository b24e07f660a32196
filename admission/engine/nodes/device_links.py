"""How the devices of nodes are linked, as arrays: which of them NVLinks join.

Of a node with several islands (pairs, boards, cards without NVLink) each whole device has a row of its own
(``devices``), and pods are given devices by number. Where NVLinks join all devices of a node, and where nothing reports
how they are linked, whole devices are only counted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from queues.workload import DevicePlace, DevicePlaces

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class DeviceLinks:
    """The links of the devices of one resource."""

    resource: str
    #: (N,) nodes with all devices in one island.
    in_one: Mask
    #: (M,) columns of the nodes with several islands, ascending; their devices, by column.
    columns: NDArray[np.intp]
    places: Mapping[int, tuple[DevicePlace, ...]]
    #: (N,) where a node is in ``columns``; -1: it is not.
    index: NDArray[np.intp]
    #: (numbers, kinds) island of each device, from 0, on nodes that are linked alike; -1: they have no such device.
    islands: NDArray[np.int16]
    #: (M,) which of these kinds each node is.
    kind: NDArray[np.intp]
    #: (N,) those of them that offer no parts of their devices.
    whole_only: Mask

    def told(self) -> Mask:
        """(N,) nodes that report it."""
        told = self.in_one.copy()
        told[self.columns] = True
        return told

    def island_of(self, numbers: Sequence[int], nodes: NDArray[np.intp]) -> NDArray[np.int16]:
        """(K, m) islands of devices with these numbers. ``nodes``: indices of nodes in ``columns``."""
        known = np.array([number for number in numbers if number < len(self.islands)], np.intp)
        found = np.full((len(numbers), len(nodes)), -1, np.int16)
        found[: len(known)] = self.islands[np.ix_(known, self.kind[nodes])]
        return found


def device_links(places: Sequence[tuple[DevicePlaces, ...]]) -> dict[str, DeviceLinks]:
    """Links by resource, from what is reported of each node. Empty: nothing is."""
    by_resource: dict[str, dict[int, DevicePlaces]] = {}
    for column, of_node in enumerate(places):
        for each in of_node:
            by_resource.setdefault(each.resource, {})[column] = each
    return {name: _links(name, by_resource[name], len(places)) for name in sorted(by_resource)}


def _links(resource: str, reported: Mapping[int, DevicePlaces], nodes: int) -> DeviceLinks:
    apart = {column: found.each for column, found in reported.items() if found.each}
    in_one, whole_only = np.zeros(nodes, np.bool_), np.zeros(nodes, np.bool_)
    in_one[[column for column in reported if column not in apart]] = True
    whole_only[[column for column in apart if not reported[column].in_parts]] = True
    kinds = list(dict.fromkeys(apart.values()))
    length = max((place.number + 1 for places in kinds for place in places), default=0)
    of_kind = np.full((length, len(kinds)), -1, np.int16)
    for index, places in enumerate(kinds):
        dense = {island: rank for rank, island in enumerate(sorted({place.island for place in places}))}
        for place in places:
            of_kind[place.number, index] = dense[place.island]
    kind_of = {places: index for index, places in enumerate(kinds)}
    columns = np.array(sorted(apart), np.intp)
    index_of = np.full(nodes, -1, np.intp)
    index_of[columns] = np.arange(len(columns))
    return DeviceLinks(
        resource=resource,
        in_one=in_one,
        columns=columns,
        index=index_of,
        places=apart,
        islands=of_kind,
        kind=np.array([kind_of[apart[column]] for column in sorted(apart)], np.intp),
        whole_only=whole_only,
    )
