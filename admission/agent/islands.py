"""NVLink islands: sets of devices of a node that NVLinks join, directly or through other devices or switches. Pure."""

from collections.abc import Mapping

from admission.agent.readings import DeviceId, Fabric, NodeReading


def islands(reading: NodeReading) -> Mapping[DeviceId, int]:
    """The island of each device, by number: the smallest index of a device in it.

    A device without active links is an island of its own. Lost devices are in none, and join nothing: a link that leads
    to one leads nowhere. Devices on NVSwitches are joined by them, except where the fabric manager has them in
    different cliques.
    """
    devices = {each.index: each for each in reading.devices if not each.lost}
    island = {index: index for index in devices}

    def first(index: int) -> int:
        while island[index] != index:
            index = island[index]
        return index

    def join(one: int, other: int) -> None:
        smaller, larger = sorted((first(one), first(other)))
        island[larger] = smaller

    on_switch: dict[Fabric | None, int] = {}
    for link in reading.links:
        if link.nvlinks and all(index in devices for index in link.between):
            join(*link.between)
        for index in link.between if link.nvlinks and link.switched else ():
            if index in devices:
                join(index, on_switch.setdefault(devices[index].fabric, index))
    return {device.id: first(index) for index, device in sorted(devices.items())}
