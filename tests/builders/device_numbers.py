"""Nodes with devices that NVLinks join in islands, pods that ask for several of them, and the devices that they get."""

from collections.abc import Collection, Sequence

from admission.engine.nodes.table import Node
from queues import kind_names
from queues.resources import CPU, DEVICE_MARK, GPU, PODS, WHOLE, Resources, device, is_device
from queues.workload import (
    DevicePlace,
    DevicePlaces,
    NodeName,
    PodSet,
    QueueName,
    Workload,
    WorkloadKey,
)


def places_in(*islands: Sequence[int], per_root: int = 1, per_numa: int = 4) -> tuple[DevicePlace, ...]:
    """Devices in these islands: neighbours by number share root complexes, and NUMA nodes."""
    return tuple(
        sorted(
            DevicePlace(number, index, f"pci{number // per_root}", number // per_numa)
            for index, numbers in enumerate(islands)
            for number in numbers
        )
    )


def linked_node(
    name: str,
    *islands: Sequence[int],
    held: Collection[int] = (),
    unknown: int = 0,
    in_parts: bool = False,
    **more: object,
) -> Node:
    """A node with these islands, at least two.

    ``held``: devices that pods have. ``unknown``: how many more pods have, of which it is not known which ones.
    """
    places = places_in(*islands)
    rows = {device(GPU, place.number): WHOLE for place in places}
    used = {GPU: (len(held) + unknown) * WHOLE, **{device(GPU, number): WHOLE for number in held}}
    return Node(
        name=NodeName(name),
        allocatable=Resources({CPU: 64_000, PODS: 110, GPU: len(places) * WHOLE, **rows}),
        used=Resources(used),
        devices=(DevicePlaces(resource=GPU, each=places, in_parts=in_parts),),
        **more,  # type: ignore[arg-type]
    )


def plain_node(name: str, gpus: int, *, reported: bool) -> Node:
    """A node on which devices are only counted. ``reported``: NVLinks join all of them; else nobody says."""
    links = (DevicePlaces(resource=GPU),) if reported else ()
    plain = Resources({CPU: 64_000, PODS: 110, GPU: gpus * WHOLE})
    return Node(name=NodeName(name), allocatable=plain, devices=links)


def gpu_workload(number: int, gpus: int, *, count: int = 1, linked: bool = False, **more: object) -> Workload:
    """Pods of so many whole devices each, all of them or none."""
    pods = PodSet(
        name="main",
        count=count,
        takes=Resources({CPU: 1000, PODS: 1, GPU: gpus * WHOLE}),
        in_one_island=linked,
        **more,  # type: ignore[arg-type]
    )
    return Workload(
        key=WorkloadKey(kind_names.POD, f"{number:03}"),
        namespace="team",
        name=f"pod-{number}",
        queue=QueueName("q"),
        arrival=number,
        minimum=count,
        pod_sets=(pods,),
    )


def devices_in(takes: Resources, resource: str = GPU) -> tuple[int, ...]:
    """Numbers of the devices that a seat has something of, ascending; empty: they are only counted, or it has none."""
    start = f"{resource}{DEVICE_MARK}"
    return tuple(sorted(int(name[len(start) :]) for name in takes if name.startswith(start)))


def without_numbers(takes: Resources) -> Resources:
    """What a seat takes, without the numbers of its devices."""
    return Resources({name: units for name, units in takes.items() if not is_device(name)})
