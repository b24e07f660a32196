"""Pod sets of one workload beside one another: nobody is refused for the order they are looked at in."""

from collections import Counter
from dataclasses import replace

from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import Node
from queues.plan import Admit
from queues.resources import GPU, Resources
from queues.workload import NodeFilter, Partition, PodSet, Preference, Requirement
from tests.builders.decided_work import a_node
from tests.laws.worlds.placement import BLOCK, RACK, answer


def node(name: str, cpu: int, *, rack: str = "r1", block: str = "b1", gpus: int = 0, **labels: str) -> Node:
    amounts = {"cpu": cpu * 1000, GPU: gpus * 1000, "pods": 10}
    return a_node(name, amounts, labels={RACK: rack, BLOCK: block, **labels})


def pods(name: str, count: int, *, cpu: int = 1000, gpus: int = 0) -> PodSet:
    return PodSet(name=name, count=count, takes=Resources({"cpu": cpu, GPU: gpus * 1000, "pods": 1}))


def hosts(admit: Admit | None, name: str) -> dict[str, int]:
    return dict(Counter(str(seat.node) for seat in admit.seats if seat.pod_set == name))


def test_a_small_set_with_a_required_rack_does_not_take_the_only_place_of_a_large_one() -> None:
    nodes = [node("large", 8, gpus=4), node("small", 5, gpus=4)]
    large = replace(pods("large", 5, cpu=2000, gpus=1), preferred_topology=HOST)
    small = replace(pods("small", 2, cpu=0, gpus=1), required_topology=RACK)

    assert answer(nodes, large, small) is not None
    assert answer(nodes, small, large) is not None


def test_a_set_that_can_go_anywhere_leaves_the_only_node_to_the_one_that_cannot() -> None:
    nodes = [node("a", 4, fast="1"), node("b", 4)]
    anywhere = pods("anywhere", 3)
    fast = replace(pods("fast", 4), nodes=NodeFilter(affinity=((Requirement("fast", "Exists"),),)))

    assert answer(nodes, anywhere, fast) is not None


def test_what_is_written_first_lies_as_close_as_if_it_were_alone() -> None:
    nodes = [node("a", 8, gpus=2), node("b", 3, gpus=4)]
    first = replace(pods("first", 7), preferred_topology=BLOCK)
    second = replace(pods("second", 2, gpus=1), required_topology=HOST)

    assert hosts(answer(nodes, first, second), "first") == {"a": 7}


def test_a_leader_leaves_its_workers_on_as_few_nodes_as_possible() -> None:
    leader = replace(pods("leader", 1), together="both")
    workers = replace(pods("workers", 2), together="both")

    assert hosts(answer([node("a", 2), node("b", 1)], leader, workers), "workers") == {"a": 2}


def test_a_leader_goes_where_it_costs_its_workers_least_though_another_node_is_tighter() -> None:
    leader = replace(pods("leader", 1), together="both", required_topology=RACK)
    workers = replace(pods("workers", 10, cpu=600), together="both", required_topology=RACK)

    admit = answer([node("a", 4), node("b", 3)], leader, workers)

    assert hosts(admit, "leader") == {"a": 1}
    assert hosts(admit, "workers") == {"a": 5, "b": 5}


def test_of_racks_that_hold_as_many_whole_parts_the_tightest_is_taken() -> None:
    nodes = [node("a", 2, rack="r1"), node("b", 3, rack="r1"), node("c", 4, rack="r2")]
    parts = (Partition(size=4, level=RACK),)

    admit = answer(nodes, replace(pods("main", 4), partitions=parts, preferred_topology=RACK))

    assert hosts(admit, "main") == {"c": 4}


def test_who_finds_no_preferred_node_left_stays_in_the_rack_of_the_others() -> None:
    nodes = [node("other", 2, rack="r0"), node("near", 2), node("fast", 3, fast="1")]
    prefers = (Preference(10, (Requirement("fast", "Exists"),)),)

    admit = answer(nodes, replace(pods("main", 4), prefers=prefers, required_topology=BLOCK))

    assert hosts(admit, "main") == {"fast": 3, "near": 1}


def test_ranks_of_pods_that_find_their_places_one_by_one_follow_the_racks() -> None:
    free = [(2, "r0"), (4, "r0"), (2, "r1"), (8, "r1"), (7, "r2"), (7, "r2")]
    nodes = [node(f"n{number}", 8000, rack=rack, gpus=gpus) for number, (gpus, rack) in enumerate(free)]
    few = replace(pods("few", 4, cpu=0, gpus=2), together="all")
    many = replace(pods("many", 8, cpu=0, gpus=1), together="all")

    admit = answer(nodes, few, many)

    seats = sorted((seat.ordinal, seat.node) for seat in admit.seats if seat.pod_set == "few")
    assert [place for _, place in seats] == ["n0", "n1", "n1", "n2"]
