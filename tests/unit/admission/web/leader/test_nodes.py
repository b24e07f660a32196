"""Nodes as the leader tells of them: what it makes of Node, Device and ResourceSlice objects, racks and closures."""

import json
from typing import Any

import pytest
from msgspec import convert, structs, to_builtins

from admission.cli.output import Output
from admission.cli.rendering.nodes import NodeLine, closed_state, is_faulty, node_table
from admission.decode.devices.node_devices import node_devices_fact
from admission.decode.devices.resource_slices import resource_slice_fact
from admission.decode.nodes import node_fact
from admission.facts.changes import Change, FactKind
from admission.facts.cluster import ClosureFact, TopologyFact
from admission.web.leader.nodes import NodeQuestion, as_seen, free_on, known_nodes, node_list
from admission.wire import WireNode, WireNodeDevices, WireResourceSlice
from admission.workloads.inputs import Timeouts
from admission.world.world import World
from queues.api import names
from queues.node_closures import ClosureKind, NodeClosure
from queues.read_api.nodes import NodeBody, NodeList
from queues.workload import NodeName
from queues.world_rows import WorldRows
from tests.builders import devices
from tests.builders.node_agents.node_devices import Document, device, device_object
from tests.tables import with_rows

#: Seconds since the epoch, and the same as text.
SECOND = 1_800_000_300
NOW = "2027-01-15T08:05:00+00:00"


def node(name: str, gpus: int = 8, offered: int | None = None, **more: Any) -> Document:
    resource = more.pop("resource", "nvidia.com/gpu")
    amounts = {resource: str(gpus)} if gpus else {"cpu": "64"}
    ready = {"type": "Ready", "status": more.pop("ready", "True")}
    return {
        "metadata": {
            "name": name,
            "labels": more.pop("labels", {}),
            "annotations": more.pop("annotations", {}),
        },
        "spec": {**more.pop("spec", {}), **more},
        "status": {
            "capacity": amounts,
            "allocatable": amounts if offered is None else {resource: str(offered)},
            "conditions": [ready],
        },
    }


def changes(*documents: Document) -> list[Change]:
    """Objects as informers tell of them."""
    found = []
    for document in documents:
        match document.get("kind"):
            case "Device":
                reported = node_devices_fact(convert(document, WireNodeDevices))
                found.append(Change(FactKind.NODE_DEVICES, reported.node, reported))
            case "ResourceSlice":
                published = resource_slice_fact(convert(document, WireResourceSlice))
                found.append(Change(FactKind.RESOURCE_SLICE, document["metadata"]["name"], published))
            case _:
                told = node_fact(convert(document, WireNode))
                found.append(Change(FactKind.NODE, told.name, told))
    return found


def listed(*seen: Change, **asked: Any) -> NodeList:
    """The answer of a leader that has seen this."""
    world = World(WorldRows(), Timeouts())
    world.observe(seen)
    table = world.node_inventory.table()
    return node_list(known_nodes(world, table, NodeQuestion(**asked), SECOND))


def with_gpus(*documents: Document) -> list[NodeBody]:
    return [each for each in listed(*changes(*documents)).items if each.accelerators]


def shown(*documents: Document, wide: bool = False) -> str:
    agents = {"a": "2027-01-15T08:04:15.000000Z", "silent": "2027-01-15T06:00:00.000000Z"}
    lines = [
        NodeLine(**structs.asdict(each), agent=agents.get(each.name, "")) for each in with_gpus(*documents)
    ]
    return node_table(lines, NOW, Output(form="wide" if wide else "table"))


def only(*documents: Document) -> NodeBody:
    """The only node."""
    [found] = with_gpus(*documents)
    return found


def recovery(**fields: Any) -> dict[str, str]:
    return {names.RECOVERY: json.dumps(fields)}


H100 = {names.GPU_MODEL: "H100", names.GPU_DRIVER: "580.65"}
EIGHT = [device(minor) for minor in range(8)]


def test_each_node_with_gpus_has_a_line_and_each_further_fault_another(golden: Any) -> None:
    faulty = [device(minor, health=minor not in (3, 5)) for minor in range(8)]
    text = shown(
        node("b", labels=H100, annotations=recovery(phase="draining", waits="foreign-pods")),
        device_object("b", *faulty, holders={"x": [0, 1], "y": [3]}),
        node("a", offered=6),
        node("cpu-only", 0),
    )
    assert text == golden


def test_wide_shows_model_driver_islands_and_what_is_wrong_in_full(golden: Any) -> None:
    pair = [device(minor, health=minor > 0, labels={names.NVLINK_ISLAND: str(minor)}) for minor in (0, 1)]
    text = shown(node("a", 2, labels=H100), device_object("a", *pair), wide=True)
    assert text.splitlines()[1] == golden


@with_rows("fields", "state")
def test_the_state_is_told_in_the_words_of_kubectl(fields: dict[str, Any], state: str) -> None:
    assert only(node("a", **fields)).state == state


def test_how_long_ago_an_agent_was_heard_of_is_told_and_that_there_is_none() -> None:
    lines = shown(node("a"), node("silent"), node("none")).splitlines()[1:]
    assert [line.split()[3] for line in lines] == ["45s", "-", "125m"]
    unread = NodeLine(**structs.asdict(only(node("a"))))
    assert node_table([unread], NOW, Output(headers=False)).split()[3] == "?"


@with_rows("capacity", "gpus", "healthy")
def test_a_node_without_an_agent_that_names_its_gpus_in_another_way_is_shown(
    capacity: dict[str, str], gpus: int | None, healthy: int | None
) -> None:
    told = node("a")
    told["status"] |= {"capacity": capacity, "allocatable": capacity}
    line = only(told)
    assert (line.gpus, line.healthy) == (gpus, healthy)
    assert not is_faulty(line)


def test_of_gpus_that_are_named_by_model_the_plugin_may_hold_some_back() -> None:
    told = node("a")
    told["status"] |= {"capacity": {"nvidia.com/h100": "4"}, "allocatable": {"nvidia.com/h100": "3"}}
    assert (only(told).healthy, only(told).not_offered) == (3, 1)


@pytest.mark.parametrize("resource", ["nvidia.com/hostdev", "nvidia.com/rdma_shared_device_a", "cpu"])
def test_network_cards_are_no_gpus(resource: str) -> None:
    assert with_gpus(node("a", 8, resource=resource)) == []


def test_a_node_that_has_its_gpus_only_in_slices_is_shown_with_those_that_are_not_tainted() -> None:
    old = devices.resource_slice("a", *map(devices.device, range(8)), name="old")
    taint = {"taints": [{"key": "broken", "effect": "NoExecute"}]}
    published = (devices.device(0), devices.device(1, **taint), devices.device(2, "mig"))
    new = devices.resource_slice("a", *published, name="new", generation=2)
    network = devices.gpus_of("b", 2)
    network["spec"]["driver"] = "dra.net"
    line = only(node("a", 0), node("b", 0), old, new, network)
    assert (line.name, line.gpus, line.healthy, line.not_offered) == ("a", 2, 1, 1)
    assert is_faulty(line)


def gpu_fault(value: str) -> dict[str, Any]:
    return {"taints": [{"key": names.GPU_FAULT, "value": value, "effect": "NoSchedule"}]}


@pytest.mark.parametrize(
    ("fields", "text", "faulty"),
    [
        ({}, "-", False),
        ({"annotations": recovery(phase="recovering")}, "recovering", True),
        ({"annotations": recovery(phase="verifying", waits="agent")}, "verifying, waits for agent", True),
        ({"annotations": recovery(phase="none", attempts=1)}, "-", False),
        (
            {"annotations": recovery(phase="none", waits="circuit-breaker")},
            "waits for circuit-breaker",
            True,
        ),
        ({"annotations": {names.RECOVERY: "x"}}, "-", False),
        ({"annotations": {names.RECOVERY: "[]"}}, "-", False),
        ({"annotations": recovery(phase=7, waits=["x"])}, "-", False),
        ({"spec": gpu_fault("alice")}, "no GPU work", True),
        ({"spec": gpu_fault("muster"), "annotations": recovery(phase="failed")}, "failed", True),
    ],
)
def test_recovery_tells_the_phase_and_what_keeps_it_from_going_on(
    fields: dict[str, Any], text: str, faulty: bool
) -> None:
    documents = [node("a", **fields), device_object("a", *EIGHT)]
    told = shown(*documents).splitlines()[1]
    assert f"Ready   {text} " in told
    assert is_faulty(only(*documents)) is faulty


def test_what_the_device_plugin_holds_back_is_not_healthy_where_no_agent_tells() -> None:
    line = only(node("a", 8, offered=7))
    assert (line.gpus, line.healthy, line.held) == (8, 7, None)
    assert is_faulty(line)


def test_a_device_that_agent_and_device_plugin_hold_back_counts_once() -> None:
    devices = [device(0, health=False), *EIGHT[1:]]
    line = only(node("a", 8, offered=7), device_object("a", *devices))
    assert (line.healthy, line.not_offered) == (7, 1)


@with_rows("capacity", "offered")
def test_devices_that_are_offered_in_another_way_are_healthy(
    capacity: dict[str, str], offered: dict[str, str]
) -> None:
    told = node("a")
    told["status"] |= {"capacity": capacity, "allocatable": capacity | offered}
    line = only(told, device_object("a", *EIGHT))
    assert (line.gpus, line.healthy) == (8, 8)
    assert not is_faulty(line)


def test_of_shared_devices_the_plugin_holds_back_all_shares_of_one() -> None:
    told = node("a")
    told["status"] |= {"capacity": {"nvidia.com/gpu": "1k"}, "allocatable": {"nvidia.com/gpu": "875"}}
    assert only(told, device_object("a", *EIGHT)).healthy == 7


def test_devices_have_the_numbers_by_which_pods_name_them() -> None:
    swapped = [
        device(0, labels={names.DEVICE_INDEX: "1"}, health=False),
        device(1, labels={names.DEVICE_INDEX: "0"}),
        device(7, health=False),
    ]
    line = only(node("a", 3), device_object("a", *swapped, holders={"x": [1, 9], "y": [1]}))
    assert [fault.number for fault in line.faults] == [1, 7]
    assert line.held == 1, "minor 9 is no device of the node"


def test_gpus_of_other_vendors_are_counted_by_their_resource() -> None:
    assert only(node("a", 4, resource="amd.com/gpu")).gpus == 4


def test_a_mixed_node_names_its_models() -> None:
    models = [device(0, labels={names.GPU_MODEL: "H100"}), device(1, labels={names.GPU_MODEL: "A100"})]
    assert only(node("a", 2), device_object("a", *models)).model == "A100,H100"


def of_model(minor: int, model: str, resource: str = "", **labels: str) -> Document:
    found = {names.GPU_MODEL: model, **labels, **({names.DEVICE_RESOURCE: resource} if resource else {})}
    return device(minor, labels=found)


def test_what_a_plugin_holds_back_is_of_its_vendor() -> None:
    vendor = {names.KOORDINATOR_GPU_VENDOR: "amd"}
    both = [of_model(0, "H100"), *(of_model(minor, "MI300X", **vendor) for minor in (1, 2))]
    told = node("a", 2, offered=1, resource="amd.com/gpu")
    assert only(told, device_object("a", *both)).not_offered == 1


def test_what_the_plugin_holds_back_is_counted_for_each_model() -> None:
    devices = [of_model(minor, "H100", "nvidia.com/h100") for minor in range(4)]
    devices += [of_model(minor, "L40S", "nvidia.com/l40s") for minor in range(4, 8)]
    told = node("a")
    told["status"] |= {
        "capacity": {"nvidia.com/h100": "4", "nvidia.com/l40s": "16"},
        "allocatable": {"nvidia.com/h100": "3", "nvidia.com/l40s": "12"},
    }
    line = only(told, device_object("a", *devices))
    assert (line.gpus, line.not_offered, line.healthy) == (8, 2, 6)


@pytest.mark.parametrize(
    "annotation", ["[" * 100_000, '{"phase":' + "[" * 100_000, "9" * 5000, '{"phase":"draining"']
)
def test_an_annotation_that_cannot_be_read_harms_nobody(annotation: str) -> None:
    spoiled = node("a", annotations={names.RECOVERY: annotation})
    text = shown(spoiled, node("b", annotations=recovery(phase="draining")))
    assert [line.split()[2] for line in text.splitlines()[1:]] == ["-", "draining"]


@pytest.mark.parametrize(("capacity", "gpus"), [("1k", 1000), ("8000m", 8), ("8e0", 8), ("x", 0), ("", 0)])
def test_amounts_are_quantities_and_what_is_none_counts_as_none(capacity: str, gpus: int) -> None:
    told = node("a")
    told["status"] |= {"capacity": {"nvidia.com/gpu": capacity}, "allocatable": {"nvidia.com/gpu": capacity}}
    assert only(told, device_object("a")).gpus == gpus


#: Of a text that clears the screen, writes a line of its own, and is no UTF-8.
ODD = "a\x1b[2J\x9b1m\u202e\r\nb\ud800"
CLEAN = "a\ufffd[2J\ufffd1m\ufffd b\ufffd"


def test_texts_of_others_do_not_command_the_terminal() -> None:
    condition = {"type": "Healthy", "status": "False", "reason": ODD, "message": ODD}
    labels = {names.GPU_MODEL: ODD}
    faulty = device(0, health=False, id=ODD, labels=labels, conditions=[condition])
    documents = (
        node("a", annotations=recovery(phase=ODD, waits=ODD)),
        device_object("a", faulty),
    )
    text = shown(*documents, wide=True)
    assert len(text.splitlines()) == 2
    assert all(each.isprintable() for each in text.splitlines())
    assert text.count(CLEAN) == 3, "model, reason and message"
    in_json = json.dumps(to_builtins(only(*documents)), ensure_ascii=False)
    assert in_json.isprintable()


@pytest.mark.parametrize("since", ["rubbish", "9" * 5000, "", None])
def test_a_fault_whose_time_cannot_be_read_is_told_without(since: str | None) -> None:
    condition = {"type": "Healthy", "status": "False", "reason": "XidFault", "lastTransitionTime": since}
    faulty = device(0, health=False, conditions=[condition])
    assert shown(node("a", 1), device_object("a", faulty)).endswith("GPU 0 XidFault\n")


def test_of_many_faults_the_first_are_shown_and_json_has_more() -> None:
    documents = (node("a"), device_object("a", *(device(minor, health=False) for minor in range(100))))
    lines = shown(*documents).splitlines()[1:]
    assert len(lines) == 17
    assert lines[-2].endswith("GPU 15 XidFault (5m)")
    assert lines[-1].strip() == "and 48 more"
    assert len(only(*documents).faults) == 64


def test_sixteen_faults_are_all_shown() -> None:
    devices = (device(minor, health=False) for minor in range(16))
    assert len(shown(node("a", 16), device_object("a", *devices)).splitlines()) == 17


def test_a_long_text_does_not_widen_all_lines() -> None:
    spoiled = node("a", annotations=recovery(phase="x" * 100_000))
    assert all(len(line) < 400 for line in shown(spoiled, node("b")).splitlines())


def test_a_number_of_a_device_that_nothing_can_have_is_left_out() -> None:
    faulty = device(3, health=False, labels={names.DEVICE_INDEX: "9" * 5000})
    assert only(node("a", 1), device_object("a", faulty)).faults[0].number == 3


# -- which nodes, their racks, and what closes them --------------------------------------------------------------

RACK, BLOCK, HOST = "topology.muster.dev/rack", "topology.muster.dev/block", "kubernetes.io/hostname"


def in_rack(name: str, rack: str | None, block: str = "b1", **more: Any) -> Document:
    return node(name, labels={HOST: name} | ({} if rack is None else {BLOCK: block, RACK: rack}), **more)


def topology(*levels: str) -> Change:
    return Change(FactKind.TOPOLOGY, "racks", TopologyFact(name="racks", levels=levels))


def racks(*seen: Change, **asked: Any) -> list[str]:
    return [each.rack for each in listed(*seen, **asked).items]


def test_racks_are_those_of_a_topology_or_of_a_usual_label() -> None:
    seen = changes(in_rack("a", "r1"), in_rack("b", "r2"), node("c", labels={RACK: "r3"}))
    levels = topology(BLOCK, RACK, HOST)
    assert racks(*seen, levels) == ["b1/r1", "b1/r2", ""]
    assert racks(*seen, levels, level=BLOCK) == ["b1", "b1", ""]
    assert racks(*seen) == ["r1", "r2", "r3"]
    assert racks(*seen, level="zone") == ["", "", ""]
    assert racks(*seen, topology(HOST)) == ["r1", "r2", "r3"]


def test_nodes_are_chosen_by_name_and_by_labels_and_come_page_by_page() -> None:
    seen = changes(*(in_rack(name, "r1" if name < "c" else "r2") for name in "abcd"))

    def named(**asked: str) -> list[str]:
        question = NodeQuestion.of(asked)
        return [each.name for each in listed(*seen, **question._asdict()).items]

    assert named(names="b,d,x") == ["b", "d"]
    assert named(labels=f"{RACK} in (r1, r3),!zone") == ["a", "b"]
    first = listed(*seen, limit=3)
    assert ([each.name for each in first.items], first.continue_) == (["a", "b", "c"], "c")
    rest = listed(*seen, limit=3, after="c")
    assert ([each.name for each in rest.items], rest.continue_) == (["d"], "")


def closing(kind: ClosureKind, name: str, *nodes: str, lead: int = 0, start: int = 3600) -> Change:
    closure = NodeClosure(
        kind=kind,
        name=name,
        lead_from=SECOND + lead,
        clear_at=SECOND + start,
        start=SECOND + start,
        end=SECOND + start + 4 * 3600,
        nodes=tuple(map(NodeName, nodes)),
    )
    fact = ClosureFact(kind=kind, name=name, uid=name, closure=closure)
    of_kind = FactKind.NODE_DRAIN if kind is ClosureKind.DRAIN else FactKind.RESERVATION
    return Change(of_kind, name, fact)


def test_what_keeps_or_drains_a_node_is_told_and_then_nothing_is_free_there() -> None:
    seen = changes(*(node(name) for name in "abcd"))
    found = listed(
        *seen,
        closing(ClosureKind.DRAIN, "fix", "a", lead=-9, start=-9),
        closing(ClosureKind.RESERVATION, "night", "b"),
        closing(ClosureKind.DRAIN, "later", "c", lead=60),
    )
    told = [(closed_state(each.closures), each.usable, each.free) for each in found.items]
    assert told == [("drained", False, 0), ("reserved", False, 0), ("", True, 8), ("", True, 8)]
    (night,) = found.items[1].closures
    assert (night.name, night.from_, night.for_) == ("night", "2027-01-15T09:05:00Z", "4h")
    hidden = as_seen(found, ("devices", "nodedrains"))
    assert [len(each.closures) for each in hidden.items] == [0, 1, 0, 0]
    assert (hidden.items[0].healthy, hidden.items[0].usable) == (None, False)


def test_a_node_has_its_taints_and_kinds_of_gpus_with_what_is_free_of_each() -> None:
    taint = [{"key": "team", "value": "a", "effect": "NoSchedule"}]
    told = node("a", spec={"taints": taint})
    told["status"] |= {"capacity": {"nvidia.com/h100": "4", "nvidia.com/l40s": "2"}}
    told["status"]["allocatable"] = told["status"]["capacity"]
    found = only(told)
    assert found.taints == ("team=a:NoSchedule",)
    assert [(each.name, each.total, each.free) for each in found.accelerators] == [
        ("h100", 4, 4),
        ("l40s", 2, 2),
    ]
    assert (found.free, only(node("b", spec={"unschedulable": True})).free) == (6, 0)


def test_parts_of_several_devices_are_no_whole_device() -> None:
    gpu = "nvidia.com/gpu"
    limits = {
        gpu: 3000,
        f"{gpu}#0": 1000,
        f"{gpu}#1": 1000,
        f"{gpu}#2": 1000,
        f"{gpu}#memory": 80,
        "cpu": 9000,
    }
    assert free_on(limits, {}) == {gpu: 3}
    halves = {gpu: 1000, f"{gpu}#0": 500, f"{gpu}#1": 500}
    assert free_on(limits, halves) == {gpu: 1}
    four = {gpu: 4000, **{f"{gpu}#{index}": 1000 for index in range(4)}}
    halves_and_one_unnamed = {gpu: 2000, f"{gpu}#0": 500, f"{gpu}#1": 500}
    assert free_on(four, halves_and_one_unnamed) == {gpu: 1}
    # Devices of a pod that the books do not name by number: some that looks untouched is not.
    assert free_on(limits, {gpu: 2000}) == {gpu: 1}
    assert free_on({gpu: 8000}, {gpu: 2500}) == {gpu: 5}
    assert free_on({gpu: 1000}, {gpu: 3000}) == {gpu: 0}
