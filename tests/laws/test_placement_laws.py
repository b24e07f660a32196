"""Laws of placement, against exhaustive search on small clusters."""

from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import Node
from queues.resources import GPU, Resources
from queues.workload import HostPort, PodSet
from tests.laws.worlds import placement
from tests.laws.worlds.placement import BLOCK, RACK, answer, clusters, counted, domain, room, ways
from tests.laws.worlds.settings import in_worlds

search = in_worlds(150)


@search
@given(clusters(), placement.pod_sets())
# All on one host, and in one rack: the host that is in no rack is none of them.
@example(
    [
        replace(*placement.narrow(("a", 8, 4)), labels={HOST: "n0", "fast": "1"}),
        placement.narrow(("a", 2, 0), ("a", 2, 0))[1],
    ],
    replace(placement.in_racks(2, 2), required_topology=HOST),
)
def test_pods_are_placed_exactly_if_there_is_a_way_to_place_them(nodes: list[Node], pods: PodSet) -> None:
    rooms = [room(node, pods.takes) for node in nodes]
    possible = next(ways(nodes, pods, rooms), None)

    admit = answer(nodes, pods)

    assert (admit is not None) == (possible is not None)
    if admit is not None:
        counts = counted(nodes, admit, pods.name)
        assert sum(counts) == pods.count
        assert all(count <= most for count, most in zip(counts, rooms, strict=True))
        assert placement.is_kept(nodes, pods, counts)
        assert placement.ordinals_kept(nodes, pods, admit)


@search
@given(clusters(), placement.pod_sets(), st.integers(1, 6), st.sampled_from([None, RACK, BLOCK]))
# Only one node is right for the leader, and workers that go first take it. Random worlds are hardly ever so narrow.
@example(placement.narrow(("a", 8, 4), ("b", 8, 3), ("b", 2, 2)), placement.in_racks(8, 2), 6, None)
# It costs the first node one worker and the second two: but the first a whole part, and the second none.
@example(placement.narrow(("a", 8, 3), ("b", 7, 3), ("b", 2, 2)), placement.in_racks(6, 3), 6, None)
def test_a_leader_and_its_workers_are_placed_exactly_if_there_is_a_way(
    nodes: list[Node], pods: PodSet, cpu: int, level: str | None
) -> None:
    workers = replace(pods, required_topology=level, preferred_topology=None, together="both")
    head = placement.leader(cpu, level)

    def possible() -> bool:
        for place, node in enumerate(nodes):
            if room(node, head.takes) < 1:
                continue
            rooms = [
                room(each, workers.takes, head.takes if number == place else Resources())
                for number, each in enumerate(nodes)
            ]
            for counts in ways(nodes, workers, rooms):
                used = (
                    {domain(each, level) for each, count in zip(nodes, counts, strict=True) if count}
                    if level
                    else set()
                )
                if not used or used == {domain(node, level or HOST)}:
                    return True
        return False

    admit = answer(nodes, head, workers)

    assert (admit is not None) == possible()
    if admit is not None and level:
        at = {node.name: node for node in nodes}
        assert len({domain(at[seat.node], level) for seat in admit.seats}) == 1
        assert placement.is_kept(nodes, workers, counted(nodes, admit, workers.name))


@search
@given(clusters(), st.integers(1, 10), st.integers(1, 100))
def test_as_many_pods_as_possible_are_on_nodes_that_they_prefer(
    nodes: list[Node], count: int, weight: int
) -> None:
    pods = PodSet(
        name="workers",
        count=count,
        takes=Resources({GPU: 1000, "pods": 1}),
        prefers=placement.prefers(weight),
    )
    rooms = [room(node, pods.takes) for node in nodes]
    fast = sum(most for node, most in zip(nodes, rooms, strict=True) if node.labels["fast"] == "1")

    admit = answer(nodes, pods)

    assert (admit is not None) == (sum(rooms) >= count)
    if admit is not None:
        at = {node.name: node for node in nodes}
        assert sum(at[seat.node].labels["fast"] == "1" for seat in admit.seats) == min(fast, count)


@search
@given(clusters(), placement.pod_sets())
# One rack holds all; the nodes of another block hold as many together.
@example(
    [
        *placement.narrow(("a", 8, 1)),
        replace(placement.narrow(("a", 8, 1), ("a", 8, 2))[1], labels={HOST: "n1", BLOCK: "a", RACK: "r1"}),
        placement.narrow(("a", 8, 1), ("a", 8, 2), ("b", 8, 3))[2],
    ],
    PodSet(name="workers", count=3, takes=Resources({GPU: 1000, "pods": 1})),
)
def test_a_preferred_level_is_kept_if_one_domain_of_it_holds_all(nodes: list[Node], pods: PodSet) -> None:
    pods = replace(pods, required_topology=None, preferred_topology=RACK)
    rooms = [room(node, pods.takes) for node in nodes]
    close = next(ways(nodes, replace(pods, required_topology=RACK), rooms), None)

    admit = answer(nodes, pods)

    if close is not None:
        assert admit is not None
        at = {node.name: node for node in nodes}
        assert len({domain(at[seat.node], RACK) for seat in admit.seats}) == 1


@search
@given(clusters(), st.integers(1, 6), st.sets(st.integers(0, 4)), st.sampled_from(["", "10.0.0.1"]))
def test_a_host_port_is_given_once_per_node(
    nodes: list[Node], count: int, taken: set[int], address: str
) -> None:
    port = HostPort(8080, "TCP", address)
    pods = PodSet(name="workers", count=count, takes=Resources({"pods": 1}), ports=(port, HostPort(9090)))
    others = {node.name: (HostPort(8080),) for number, node in enumerate(nodes) if number in taken}
    elsewhere = {node.name: (HostPort(8080, "UDP"),) for node in nodes if node.name not in others}
    free = [node.name for node in nodes if node.name not in others]

    admit = answer(nodes, pods, ports=others | elsewhere)

    assert (admit is not None) == (len(free) >= count)
    if admit is not None:
        used = [seat.node for seat in admit.seats]
        assert len(set(used)) == len(used)
        assert set(used) <= set(free)


@search
@given(clusters(), st.integers(2, 10))
def test_balanced_pods_are_even_over_the_fewest_racks(nodes: list[Node], count: int) -> None:
    pods = PodSet(
        name="workers",
        count=count,
        takes=Resources({GPU: 1000, "pods": 1}),
        preferred_topology=RACK,
        balanced=True,
    )
    rooms: dict[tuple[str, ...], int] = {}
    for node in nodes:
        place = domain(node, RACK)
        if place is not None:
            rooms[place] = rooms.get(place, 0) + room(node, pods.takes)
    blocks = {place[0]: sum(most for other, most in rooms.items() if other[0] == place[0]) for place in rooms}
    admit = answer(nodes, pods)
    inside = any(most >= count for most in blocks.values()) and all(domain(node, RACK) for node in nodes)
    if not inside or any(most >= count for most in rooms.values()):
        return  # in one rack, or not in one block

    assert admit is not None
    at = {node.name: node for node in nodes}
    used: dict[tuple[str, ...] | None, int] = {}
    for seat in admit.seats:
        used[domain(at[seat.node], RACK)] = used.get(domain(at[seat.node], RACK), 0) + 1
    for place, pods_there in used.items():
        assert place is not None
        full = pods_there == rooms[place]
        assert full or all(pods_there >= other - 1 for other in used.values())


@search
@given(clusters(), placement.pod_sets())
def test_neighbours_by_rank_are_neighbours_in_the_topology(nodes: list[Node], pods: PodSet) -> None:
    admit = answer(nodes, replace(pods, preferred_topology=pods.preferred_topology, balanced=False))

    if admit is not None:
        at = {node.name: node for node in nodes}
        ranks = [at[seat.node] for seat in sorted(admit.seats, key=lambda seat: seat.ordinal)]
        for level in (BLOCK, RACK, HOST):
            row = [domain(node, level) for node in ranks if domain(node, level)]
            runs = [place for index, place in enumerate(row) if index == 0 or row[index - 1] != place]
            assert len(runs) == len(set(runs))
