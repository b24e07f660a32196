"""The Device object and the labels of a node: what they say, and when they have to be written."""

import json
import random
import re
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from admission.agent.allocations import Allocation
from admission.agent.device_object import (
    binary_quantity,
    device_document,
    difference,
    label_value,
    node_labels,
)
from admission.agent.health import DeviceHealth, HealthState, assess
from admission.agent.readings import Fabric, MigInstance, NodeReading, as_lost
from queues.api import names
from queues.api.api_resources import DEVICES
from queues.resources import quantity
from tests.builders.node_agents.device_readings import device, node, switched
from tests.tables import with_rows

NOW = 1_800_000_000
CRD = Path(__file__).parents[4] / "deploy/chart/crds/scheduling.koordinator.sh_devices.yaml"


def health_of(*readings: NodeReading, mark: str | None = None) -> dict[str, DeviceHealth]:
    return dict(assess(HealthState(), readings, (), mark, NOW).devices)


def document(*readings: NodeReading, uses: tuple[Allocation, ...] = (), **more: Any) -> dict[str, Any]:
    return device_document("n1", "uid-1", readings, health_of(*readings, **more), uses)


def devices_of(*readings: NodeReading) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = document(*readings)["spec"]["devices"]
    return found


def annotation(found: dict[str, Any], key: str) -> Any:
    return json.loads(found["metadata"]["annotations"][key])


# ── what it says ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_device_is_written_field_by_field_as_koordinator_has_it(golden: Any) -> None:
    reading = node(device(3, minor=5, module=2, numa_node=1, mig_enabled=False), links=switched(3, 4))
    found = document(reading)
    assert found == golden


def test_unknown_stays_unknown() -> None:
    (found,) = devices_of(node(device(0, numa_node=None, module=None, minor=None, pcie_root="", bus_id="")))
    assert found["topology"] == {"socketID": -1, "nodeID": -1, "pcieID": "", "busID": ""}
    assert "moduleID" not in found
    assert found["minor"] == 0, "programs of Koordinator want a number: the index"
    assert not {names.MIG_MODE, names.NVL_DOMAIN} & found["labels"].keys()


def test_a_device_that_nothing_is_known_of_is_unhealthy() -> None:
    found = device_document("n1", "uid-1", [node(device())], {}, ())["spec"]["devices"][0]
    assert (found["health"], found["conditions"]) == (False, [])


def test_a_lost_device_stays_without_an_island() -> None:
    found = devices_of(node(device(0), as_lost(device(1)), links=switched(0, 1)))
    assert [each["health"] for each in found] == [True, False]
    assert [each["labels"].get(names.NVLINK_ISLAND) for each in found] == ["0", None]


def test_mig_instances_are_told_by_device(golden: Any) -> None:
    instance = MigInstance(id="MIG-1", profile="3g.40gb", gpu_instance=2)
    other = MigInstance(id="MIG-0", profile="1g.10gb", gpu_instance=1)
    found = document(node(device(0), device(1, mig_enabled=True, mig_instances=(instance, other))))
    assert annotation(found, names.MIG_INSTANCES) == golden
    assert found["spec"]["devices"][1]["labels"][names.MIG_MODE] == "enabled"


def use(name: str, *devices: str, namespace: str = "team") -> Allocation:
    return Allocation(pod_uid=f"uid-{name}", namespace=namespace, name=name, devices=devices)


def test_pods_are_told_with_the_minors_of_their_devices(golden: Any) -> None:
    instance = MigInstance(id="MIG-1", profile="1g", gpu_instance=1)
    reading = node(device(0, minor=7), device(1, minor=2, mig_instances=(instance,)))
    uses = (use("b", "GPU-0", "MIG-1", "GPU-1"), use("a", "GPU-gone"), use("a", "GPU-1", namespace="other"))
    assert document(reading, uses=uses)["status"] == golden


def test_the_same_input_in_any_order_gives_the_same_text() -> None:
    devices, links = [device(index) for index in range(8)], [*switched(*range(8))]
    uses = [use(f"p{index}", f"GPU-{index}") for index in range(8)]
    expected = json.dumps(document(node(*devices, links=links), uses=tuple(uses)), sort_keys=True)
    rng = random.Random(1)
    for _ in range(5):
        for each in (devices, links, uses):
            rng.shuffle(each)
        found = document(node(*devices, links=links), uses=tuple(uses))
        assert json.dumps(found, sort_keys=True) == expected


def test_the_object_is_one_that_the_definition_takes() -> None:
    reading = node(device(0, degrees=99, module=1), device(1), links=switched(0, 1))
    found = document(reading, uses=(use("a", "GPU-0"),), mark="7")
    definition = yaml.safe_load(CRD.read_text())["spec"]
    assert definition["scope"] == "Cluster"
    (version,) = definition["versions"]
    assert "subresources" not in version, "one write carries spec and status, as in Koordinator"
    assert f"/apis/{definition['group']}/{version['name']}/{definition['names']['plural']}" == DEVICES.path()
    schema = version["schema"]["openAPIV3Schema"]
    assert unknown_fields(found, schema) == set()


def unknown_fields(found: Any, schema: dict[str, Any], path: str = "") -> set[str]:
    """Fields of a document that a schema does not have."""
    if isinstance(found, list):
        return {name for each in found for name in unknown_fields(each, schema["items"], f"{path}[]")}
    if not isinstance(found, dict) or "properties" not in schema:
        return set()
    inner = {name: schema["properties"].get(name) for name in found}
    return {
        name
        for key, of_key in inner.items()
        for name in (
            {f"{path}.{key}"} if of_key is None else unknown_fields(found[key], of_key, f"{path}.{key}")
        )
    }


#: Of the conditions of Kubernetes, to which Koordinator's definition holds those of devices.
REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")


def test_conditions_are_such_as_kubernetes_takes() -> None:
    found = document(node(device(0, degrees=99), device(1)), mark="7,0")
    for condition in (one for each in found["spec"]["devices"] for one in each["conditions"]):
        assert condition.keys() == {"type", "status", "reason", "message", "lastTransitionTime"}
        assert REASON.fullmatch(condition["reason"])
        assert condition["status"] in ("True", "False")


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0"),
        (1023, "1023"),
        (80 * 2**30, "80Gi"),
        (81559 * 2**20, "81559Mi"),
        (2**40 + 1024, "1073741825Ki"),
    ],
)
def test_amounts_are_written_as_kubernetes_writes_them(amount: int, text: str) -> None:
    assert binary_quantity(amount) == text
    assert quantity(text) == amount


# ── labels ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_labels_of_a_node_say_what_all_its_devices_have() -> None:
    fabric = Fabric(cluster="3f2a", clique=4, complete=True)
    found = node_labels([node(device(0, fabric=fabric), device(1, fabric=fabric))])
    assert found == {
        names.GPU_MODEL: "H100-80GB-HBM3",
        names.GPU_COUNT: "2",
        names.GPU_DRIVER: "570.86.15",
        names.GPU_RUNTIME: "12.8",
        names.NVL_DOMAIN: "3f2a.4",
        names.KOORDINATOR_GPU_VENDOR: "nvidia",
        names.KOORDINATOR_GPU_MODEL: "H100-80GB-HBM3",
        names.KOORDINATOR_GPU_DRIVER: "570.86.15",
    }


def test_a_node_without_devices_has_none_of_them() -> None:
    assert node_labels([]) == dict.fromkeys(names.AGENT_NODE_LABELS)


def test_what_differs_between_devices_is_no_label_of_the_node(golden: Any) -> None:
    mixed = node(device(0), device(1, model="NVIDIA L40S"))
    assert {node_labels([mixed])[key] for key in (names.GPU_MODEL, names.KOORDINATOR_GPU_MODEL)} == {None}
    assert names.KOORDINATOR_GPU_MODEL not in document(mixed)["metadata"]["labels"]
    assert [each["labels"][names.GPU_MODEL] for each in devices_of(mixed)] == ["H100-80GB-HBM3", "L40S"]
    other = node(device(0, id="AMD-0"), vendor="amd", driver_version="6.2", runtime_version="")
    found = node_labels([node(device(0)), other])
    assert found[names.KOORDINATOR_GPU_VENDOR] is None
    assert (found[names.GPU_DRIVER], found[names.GPU_COUNT]) == (None, "2")
    assert [
        each["labels"][names.KOORDINATOR_GPU_VENDOR] for each in devices_of(node(device(1)), other)
    ] == golden


def test_a_lost_device_does_not_count() -> None:
    assert node_labels([node(device(0), as_lost(device(1)))])[names.GPU_COUNT] == "1"


@pytest.mark.parametrize(
    "fabric",
    [
        None,
        Fabric(cluster="3f2a", clique=4, complete=False),
        Fabric(cluster="00000000-0000-0000-0000-000000000000", clique=0, complete=True),
    ],
)
def test_a_domain_that_is_not_there_or_not_ready_is_no_label(fabric: Fabric | None) -> None:
    assert node_labels([node(device(fabric=fabric))])[names.NVL_DOMAIN] is None


@with_rows("text", "value")
def test_whatever_a_vendor_calls_a_model_the_label_is_valid(text: str, value: str) -> None:
    assert label_value(text) == value


# ── what has to be written ──────────────────────────────────────────────────────────────────────────────────────


READING = node(device(0, degrees=99), device(1), links=switched(0, 1))
USES = (use("a", "GPU-0"), use("b", "GPU-1"))


def wanted() -> dict[str, Any]:
    return document(READING, uses=USES)


def stored() -> dict[str, Any]:
    """The object as the API server has it, with what it and other programs have added."""
    found = wanted()
    found["metadata"] |= {"resourceVersion": "17", "uid": "u", "generation": 3, "managedFields": []}
    found["metadata"]["labels"]["node.koordinator.sh/gpu-partition-policy"] = "Prefer"
    found["metadata"]["annotations"]["scheduling.koordinator.sh/gpu-partitions"] = "{}"
    rdma = {
        "type": "rdma",
        "id": "mlx5_0",
        "minor": 0,
        "health": True,
        "resources": {"koordinator.sh/rdma": "100"},
    }
    found["spec"]["devices"].insert(0, rdma)
    found["status"]["allocations"].append({"type": "rdma", "entries": [{"name": "x", "minors": [0]}]})
    return found


def test_what_is_not_there_is_written_whole() -> None:
    assert difference(None, wanted()) == wanted()


def test_what_is_there_already_is_not_written() -> None:
    assert difference(stored(), wanted()) is None


def reorder(found: dict[str, Any]) -> None:
    found["spec"]["devices"].reverse()
    for each in found["spec"]["devices"]:
        each.get("conditions", []).reverse()
    found["status"]["allocations"].reverse()
    found["status"]["allocations"][1]["entries"].reverse()


def other_forms(found: dict[str, Any]) -> None:
    gpu = found["spec"]["devices"][1]
    gpu["resources"] = {
        "koordinator.sh/gpu-core": 100,
        "koordinator.sh/gpu-memory": str(80 * 2**30),
        "koordinator.sh/gpu-memory-ratio": "1e2",
    }
    gpu["vfGroups"] = []
    found["metadata"]["ownerReferences"].insert(0, {"kind": "Other", "uid": "z"})


@pytest.mark.parametrize("change", [reorder, other_forms])
def test_order_and_form_make_no_difference(change: Callable[[dict[str, Any]], None]) -> None:
    found = stored()
    change(found)
    assert difference(found, wanted()) is None


def broken(*path: str | int, to: Any) -> dict[str, Any]:
    found = stored()
    place: Any = found
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    return found


@pytest.mark.parametrize(
    "found",
    [
        broken("spec", "devices", 1, "health", to=True),
        broken("spec", "devices", 1, "topology", "nodeID", to=3),
        broken("spec", "devices", 1, "resources", "koordinator.sh/gpu-memory", to="79Gi"),
        broken("spec", "devices", 1, "resources", "koordinator.sh/gpu-memory", to="much"),
        broken("spec", "devices", 1, "conditions", 0, "message", to="x"),
        broken("spec", "devices", 1, "conditions", to=None),
        broken("spec", "devices", 1, "labels", "muster.dev/mig", to="enabled"),
        broken("spec", "devices", to=[]),
        broken("spec", to=None),
        broken("status", "allocations", 0, "entries", 0, "minors", to=[1]),
        broken("status", to={}),
        broken("metadata", "labels", "node.koordinator.sh/gpu-model", to="A100"),
        broken("metadata", "labels", to=None),
        broken("metadata", "annotations", "muster.dev/mig-instances", to="{}"),
        broken("metadata", "ownerReferences", 0, "uid", to="of the node before"),
        broken("metadata", "ownerReferences", to=[]),
    ],
)
def test_a_change_of_what_is_the_agents_is_written_and_the_rest_is_kept(found: dict[str, Any]) -> None:
    before = deepcopy(found)
    written = difference(found, wanted())
    assert written is not None
    assert found == before
    assert difference(written, wanted()) is None
    assert written["metadata"]["resourceVersion"] == "17"
    assert len(written["metadata"]["ownerReferences"]) == 1
    for field, key in (
        ("labels", "node.koordinator.sh/gpu-partition-policy"),
        ("annotations", "scheduling.koordinator.sh/gpu-partitions"),
    ):
        of_others = (found["metadata"][field] or {}).get(key)
        assert written["metadata"][field].get(key) == of_others
    others = [each for each in (found["spec"] or {}).get("devices") or () if each["type"] == "rdma"]
    assert [each for each in written["spec"]["devices"] if each["type"] == "rdma"] == others
    of_rdma = [each for each in found["status"].get("allocations", ()) if each["type"] == "rdma"]
    assert [each for each in written["status"]["allocations"] if each["type"] == "rdma"] == of_rdma


def test_of_unhealthy_devices_is_told_whether_the_kubelet_may_give_them() -> None:
    reading = node(device(0), as_lost(device(1)), as_lost(device(2)), as_lost(device(3)))
    offered = {"GPU-0": True, "GPU-1": True, "GPU-2": False}
    found = device_document("n1", "uid-1", [reading], health_of(reading), (), offered=offered)
    told = {each["id"]: each["labels"].get(names.DEVICE_OFFERED) for each in found["spec"]["devices"]}
    assert told == {"GPU-0": None, "GPU-1": "true", "GPU-2": "false", "GPU-3": None}
