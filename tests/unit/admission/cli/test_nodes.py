"""``kubectl muster nodes``: what it makes of Node and Device objects."""

import json
from typing import Any

import pytest

from admission.cli.rendering.nodes import node_lines, node_table
from queues.api import names
from tests.builders.node_agents.node_devices import Document, device, device_object

NOW = "2027-01-15T08:05:00+00:00"


def node(name: str, gpus: int = 8, well: int | None = None, **more: Any) -> Document:
    resource = more.pop("resource", "nvidia.com/gpu")
    amounts = {resource: str(gpus)} if gpus else {"cpu": "64"}
    ready = {"type": "Ready", "status": more.pop("ready", "True")}
    return {
        "metadata": {
            "name": name,
            "labels": more.pop("labels", {}),
            "annotations": more.pop("annotations", {}),
        },
        "spec": more,
        "status": {
            "capacity": amounts,
            "allocatable": amounts if well is None else {resource: str(well)},
            "conditions": [ready],
        },
    }


def shown(*documents: Document, wide: bool = False) -> str:
    nodes = [each for each in documents if "kind" not in each]
    devices = [each for each in documents if "kind" in each]
    return node_table(node_lines(nodes, devices), NOW, wide=wide, headers=True)


H100 = {names.GPU_MODEL: "H100", names.GPU_DRIVER: "580.65"}


def test_each_node_with_gpus_has_a_line_and_each_further_fault_another() -> None:
    faulty = [device(minor, health=minor not in (3, 5)) for minor in range(8)]
    text = shown(
        node("b", labels=H100),
        device_object("b", *faulty, holders={"x": [0, 1], "y": [3]}),
        node("a"),
        node("cpu-only", 0),
    )
    assert text == (
        "NODE   STATE   MODEL   GPUS   WELL   HELD   FAULTS\n"
        "a      Ready   -          8      8      -   -\n"
        "b      Ready   H100       8      6      3   3 XidFault (5m)\n"
        "                                            5 XidFault (5m)\n"
    )


def test_wide_shows_driver_islands_and_what_is_wrong_in_full() -> None:
    pair = [device(minor, health=minor > 0, labels={names.NVLINK_ISLAND: str(minor)}) for minor in (0, 1)]
    text = shown(node("a", 2, labels=H100), device_object("a", *pair), wide=True)
    assert text.splitlines()[1] == (
        "a      Ready   H100    580.65         2      2      1      0   "
        "0 XidFault (5m): XID 79: it has fallen off the bus"
    )


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({}, "Ready"),
        ({"unschedulable": True}, "Cordoned"),
        ({"ready": "Unknown", "unschedulable": True}, "NotReady"),
        ({"annotations": {names.RECOVERY: json.dumps({"phase": "draining"})}}, "Draining"),
        ({"annotations": {names.RECOVERY: "x"}}, "Ready"),
        ({"annotations": {names.RECOVERY: "[]"}}, "Ready"),
    ],
)
def test_the_state_is_what_keeps_work_off_the_whole_node(fields: dict[str, Any], state: str) -> None:
    [line] = node_lines([node("a", **fields)], [])
    assert line["state"] == state


def test_what_the_device_plugin_holds_back_is_not_well_where_no_agent_tells() -> None:
    [line] = node_lines([node("a", 8, well=7)], [])
    assert (line["gpus"], line["well"], line["held"]) == (8, 7, None)


def test_gpus_of_other_vendors_are_counted_by_their_resource() -> None:
    [line] = node_lines([node("a", 4, resource="amd.com/gpu")], [])
    assert line["gpus"] == 4


def test_a_mixed_node_names_its_models() -> None:
    models = [device(0, labels={names.GPU_MODEL: "H100"}), device(1, labels={names.GPU_MODEL: "A100"})]
    [line] = node_lines([node("a", 2)], [device_object("a", *models)])
    assert line["model"] == "A100,H100"
