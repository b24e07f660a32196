"""Parts of devices, as pods ask for them and nodes offer them."""

from typing import Any

import msgspec
import pytest

from admission.facts.pods import PodShape
from queues.api.reading.device_shares import VGPU, share_of, with_devices
from queues.api.types.pod import WirePodSpec
from queues.errors import InvalidDocument
from queues.resources import CPU, GPU, WHOLE, Resources, capacity, device, device_memory, devices_text
from queues.workload import DeviceShare
from tests.tables import with_rows


def spec(*limits: dict[str, Any]) -> WirePodSpec:
    """A pod with containers of these limits."""
    containers = [{"name": f"c{index}", "resources": {"limits": each}} for index, each in enumerate(limits)]
    return msgspec.convert({"containers": containers}, WirePodSpec)


@with_rows("limits", "share")
def test_limits_of_volcanos_vgpu_are_parts_of_devices(
    limits: dict[str, Any], share: tuple[int, int, int]
) -> None:
    devices, milli, memory = share
    expected = DeviceShare(devices=devices, milli=milli, memory=memory, resource=VGPU)
    assert share_of(spec({"cpu": 1}, limits), None) == expected


@pytest.mark.parametrize(
    ("annotations", "share"),
    [
        ({"gpu-fraction": "0.5"}, DeviceShare(devices=1, milli=500)),
        ({"gpu-fraction": "0.3333"}, DeviceShare(devices=1, milli=334)),
        ({"gpu-memory": "2000"}, DeviceShare(devices=1, memory=2000)),
        ({"gpu-fraction": "0.25", "gpu-fraction-num-devices": "2"}, DeviceShare(devices=2, milli=250)),
        ({"other": "1"}, None),
    ],
)
def test_annotations_ask_for_a_fraction(annotations: dict[str, str], share: DeviceShare | None) -> None:
    assert share_of(spec({}), annotations) == share


@with_rows("limits", "annotations")
def test_what_cannot_be_read_is_told(limits: dict[str, Any], annotations: dict[str, str]) -> None:
    with pytest.raises(InvalidDocument):
        share_of(spec(limits), annotations)


def test_a_pod_set_takes_its_parts_of_the_quota() -> None:
    shape = PodShape(
        takes=Resources({CPU: 1000}),
        share=share_of(spec({}), {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}),
    )
    pods = shape.pod_set("main", 1)
    assert pods.takes == Resources({CPU: 1000, GPU: 1000})
    assert pods.beside_devices() == Resources({CPU: 1000})


def test_a_labelled_node_offers_parts_of_its_devices() -> None:
    labels = {"muster.dev/shares-devices": "true", "nvidia.com/gpu.memory": "81920"}
    offered = with_devices(Resources({GPU: 2 * WHOLE}), labels)
    rows = {device(GPU, 0): WHOLE, device(GPU, 1): WHOLE, device_memory(GPU): 81920}
    assert offered == Resources({GPU: 2 * WHOLE, **rows})


def test_a_node_with_volcanos_vgpus_tells_devices_by_their_cores() -> None:
    plugin = {"volcano.sh/vgpu-number": 20, "volcano.sh/vgpu-memory": 32000, "volcano.sh/vgpu-cores": 200}
    offered = with_devices(Resources({name: capacity(name, text) for name, text in plugin.items()}), {})
    assert (offered[VGPU], offered[device(VGPU, 1)], offered[device(VGPU, 2)]) == (2 * WHOLE, WHOLE, 0)
    assert offered[device_memory(VGPU)] == 16000


def test_other_nodes_are_as_they_were() -> None:
    offered = Resources({GPU: 8 * WHOLE})
    assert with_devices(offered, {"muster.dev/shares-devices": "no"}) is offered


def test_pods_are_told_their_devices() -> None:
    assert devices_text(Resources({GPU: 1000, device(GPU, 10): 500, device(GPU, 2): 500})) == "2,10"
    assert devices_text(Resources({GPU: 1000})) == ""
