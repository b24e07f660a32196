"""What objects say about where pods go: preferences, ports, parts, tiers."""

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from admission.decode.topology_requests import Tiers, pod_shape_of
from admission.facts.changes import Change, FactKind
from admission.facts.pods import PodPhase
from admission.wire import WirePod
from admission.workloads.context import Context
from admission.workloads.kinds import read_pod
from admission.world.nodes import PortsInUse
from queues.api.reading.user_values import UserValues
from queues.resources import Resources
from queues.workload import HostPort, NodeName, Partition, PodSet, Preference, Requirement
from tests.builders.decoded_workloads import a_job, a_volcano_job, task, told
from tests.builders.facts import JOB, admission, node, pod, world
from tests.tables import with_rows

RACK = "topology.muster.dev/rack"
HOST = "kubernetes.io/hostname"
CONTAINER: dict[str, Any] = {"name": "c", "image": "i"}


def a_pod(meta: dict[str, Any] | None = None, **spec: Any) -> WirePod:
    document = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", **(meta or {})},
        "spec": {"containers": [CONTAINER], **spec},
    }
    return msgspec.json.decode(json.dumps(document), type=WirePod)


def preferring(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def test_preferred_affinity_is_read_with_all_operators() -> None:
    expressions: list[dict[str, Any]] = [
        {"key": "a", "operator": "In", "values": ["x"]},
        {"key": "b", "operator": "NotIn", "values": ["x"]},
        {"key": "c", "operator": "Exists"},
        {"key": "d", "operator": "DoesNotExist"},
        {"key": "e", "operator": "Gt", "values": ["1"]},
        {"key": "f", "operator": "Lt", "values": ["9"]},
    ]
    fields = [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]
    wish = {"weight": 7, "preference": {"matchExpressions": expressions, "matchFields": fields}}
    found = read_pod(a_pod(affinity=preferring(wish, {"weight": 3, "preference": {}})))

    expected = [Requirement(e["key"], e["operator"], tuple(e.get("values", ()))) for e in expressions]
    on_n1 = Requirement("metadata.name", "In", ("n1",), field=True)
    assert found.shape.prefers == (Preference(7, (*expected, on_n1)),)


def with_ports(**port: Any) -> dict[str, Any]:
    return CONTAINER | {"ports": [port]}


SIDECAR = with_ports(hostPort=1) | {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [with_ports(containerPort=80)]}, ()),
        (
            {"containers": [with_ports(containerPort=80, hostPort=8080, hostIP="10.0.0.1")]},
            (HostPort(8080, "TCP", "10.0.0.1"),),
        ),
        (
            {"hostNetwork": True, "containers": [with_ports(containerPort=53, protocol="UDP")]},
            (HostPort(53, "UDP"),),
        ),
        ({"initContainers": [SIDECAR]}, (HostPort(1),)),
        ({"initContainers": [with_ports(hostPort=1)]}, ()),
    ],
)
def test_ports_of_the_node_are_those_that_the_pod_keeps(
    spec: dict[str, Any], expected: tuple[HostPort, ...]
) -> None:
    assert read_pod(a_pod(**spec)).shape.ports == expected


def test_parts_are_read_from_the_template() -> None:
    parts = {"muster.dev/partitions": f"8={RACK}, 2={HOST}"}
    said = {**parts, "muster.dev/balanced": "true", "muster.dev/together": "x"}
    shape = pod_shape_of(a_pod().spec, said, UserValues(), affinity=None, pinned=False)

    assert shape.partitions == (Partition(size=8, level=RACK), Partition(size=2, level=HOST))
    assert (shape.balanced, shape.together) == (True, "x")


@with_rows("required", "preferred", "expected")
def test_pods_may_ask_for_devices_that_nvlinks_join_beside_a_level(
    required: str, preferred: str, expected: tuple[bool, str | None, str | None]
) -> None:
    said = {"muster.dev/required-topology": required, "muster.dev/preferred-topology": preferred}
    found = read_pod(a_pod({"annotations": said}))
    assert found.obstacle is None
    shape = found.shape
    assert (shape.in_one_island, shape.required_topology, shape.preferred_topology) == tuple(expected)
    assert shape.pod_set("main").in_one_island == expected[0]


def test_two_levels_and_parts_of_several_linked_devices_are_refused() -> None:
    both = {"muster.dev/required-topology": f"{RACK},{HOST}"}
    parts = {"muster.dev/required-topology": "muster.dev/nvlink", "gpu-fraction": "0.5"}
    for said in (both, {**parts, "gpu-fraction-num-devices": "2"}):
        refused = read_pod(a_pod({"annotations": said})).obstacle
        assert "muster.dev/required-topology" in refused.message
    assert read_pod(a_pod({"annotations": parts})).obstacle is None


@pytest.mark.parametrize(
    "text", ["8", "=x", "0=x", "-2=x", "8=a,3=b", "2=a,4=b", "2=a,2=b", "x=a", "9" * 5000 + "=a"]
)
def test_parts_that_cannot_be_kept_are_refused(text: str) -> None:
    fact = read_pod(a_pod({"annotations": {"muster.dev/partitions": text}}))
    assert fact.shape.partitions == ()
    assert "muster.dev/partitions" in fact.obstacle.message


def test_a_template_says_what_its_pod_set_needs() -> None:
    parts = {"annotations": {"muster.dev/partitions": f"2={RACK}"}}
    template = {"metadata": parts, "spec": {"containers": [with_ports(hostPort=80)]}}
    for fact in (a_job(template=template), a_volcano_job(task(template=template))):
        (pods,) = fact.pod_sets
        assert (pods.partitions, pods.ports) == ((Partition(size=2, level=RACK),), (HostPort(80),))
    wrong = a_job(template={**template, "metadata": {"annotations": {"muster.dev/partitions": "no"}}})
    assert wrong.obstacle.code == "InvalidSpec"


# ── Volcano Jobs ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_topology_of_several_tasks_holds_for_all_of_them_together() -> None:
    topology = {"mode": "hard", "highestTierAllowed": 2}
    sets = told(a_volcano_job(task("a"), task("b"), networkTopology=topology)).pod_sets

    found = [(pods.within, pods.within_required, pods.required_topology) for pods in sets]
    assert found == [("block", True, None)] * 2
    soft = told(a_volcano_job(task("a"), task("b"), networkTopology=topology | {"mode": "soft"})).pod_sets
    assert [(pods.within, pods.within_required) for pods in soft] == [("block", False)] * 2


def test_partitions_of_a_task_have_a_level_of_their_own() -> None:
    hard, soft = {"mode": "hard", "highestTierAllowed": 1}, {"mode": "soft", "highestTierAllowed": 2}
    policy = {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1, "networkTopology": hard}
    fact = told(a_volcano_job(task(partitionPolicy=policy), networkTopology=soft))
    (pods,) = fact.pod_sets

    assert pods.partitions == (Partition(size=2, level="rack", required=True, minimum=1),)
    assert fact.job is not None
    assert (pods.minimum, pods.preferred_topology, fact.job.unsupported) == (2, "block", ())


def test_partitions_without_a_topology_only_start_whole() -> None:
    policy = {"totalPartitions": 2, "partitionSize": 2}
    (pods,) = told(a_volcano_job(task(partitionPolicy=policy))).pod_sets

    assert pods.partitions == (Partition(size=2, level="", required=False),)


def test_partitions_that_cannot_be_read_are_an_obstacle() -> None:
    fact = a_volcano_job(task(partitionPolicy={"partitionSize": 2, "networkTopology": "hard"}))

    assert fact.obstacle.code == "InvalidSpec"


def test_a_tier_by_name_is_that_of_the_hypernodes() -> None:
    fact = a_volcano_job(task(), networkTopology={"highestTierName": "spine"})
    (pods,) = told(fact, Context(tiers=Tiers((), (1, 2), (("spine", 2),)))).pod_sets
    assert pods.required_topology == "topology.volcano.sh/tier-2"
    (pods,) = told(fact).pod_sets
    assert pods.required_topology == "tier spine"  # a level that nobody has: the reason says so


# ── host ports ──────────────────────────────────────────────────────────────────────────────────────────────


def test_ports_are_taken_by_live_pods_and_by_seats() -> None:
    ports = PortsInUse()
    assert ports.occupy("foreign", (NodeName("n1"), (HostPort(80),)))
    assert not ports.occupy("foreign", (NodeName("n1"), (HostPort(80),)))
    ports.update(JOB, [PodSet(name="main", count=1, takes=Resources(), ports=(HostPort(90),))])
    mine = [admission(JOB, "n1 n2")]

    assert ports.by_node(lambda key: mine) == {"n1": (HostPort(80), HostPort(90)), "n2": (HostPort(90),)}

    assert ports.occupy("foreign", None)
    ports.update(JOB, [])
    assert ports.by_node(lambda key: mine) == {}


def test_the_world_knows_the_ports_of_foreign_pods() -> None:
    taken = pod("foreign", "n0", ports=(HostPort(80),))
    there = world([node("n0"), node("n1"), taken])

    assert there.freeze(1).nodes.ports == {"n0": (HostPort(80),)}
    there.observe([Change(FactKind.POD, "foreign", replace(taken, phase=PodPhase.SUCCEEDED))])
    assert there.snapshot_is_stale
    assert there.freeze(2).nodes.ports == {}
