"""The laws of placement can fail: each planted bug breaks the law it is planted for."""

from dataclasses import replace
from typing import Any

import numpy as np

from admission.engine.nodes import host_ports
from admission.engine.nodes.capacity import Capacity
from admission.engine.placement import co_location, domain_search, pod_set
from admission.engine.placement.domain_search import TopologyAssignment
from tests.laws import test_placement_laws as laws
from tests.laws.planted.bug import Bug, each_breaks_its_law

_place, _sorted = domain_search.assign_nodes, domain_search._in_topology_order


def _shuffled(ask: Any, found: TopologyAssignment) -> TopologyAssignment:
    found = _sorted(ask, found)
    order = [*range(0, len(found.columns), 2), *range(1, len(found.columns), 2)]
    return TopologyAssignment(found.columns[order], found.counts[order])


BUGS = (
    Bug("parts are not kept together", pod_set, "assign_nodes", lambda ask: _place(replace(ask, parts=())),
        laws.test_pods_are_placed_exactly_if_there_is_a_way_to_place_them),
    Bug("only the outermost part counts", pod_set, "assign_nodes",
        lambda ask: _place(replace(ask, parts=ask.parts[:1])),
        laws.test_pods_are_placed_exactly_if_there_is_a_way_to_place_them),
    Bug("room is not rounded to whole parts", Capacity, "per_domain",
        lambda self, index: self.chain[index].sums(self.room),
        laws.test_pods_are_placed_exactly_if_there_is_a_way_to_place_them),
    Bug("the required level is a wish", pod_set, "assign_nodes", lambda ask: _place(replace(ask, required=False)),
        laws.test_pods_are_placed_exactly_if_there_is_a_way_to_place_them),
    Bug("a leader goes anywhere", co_location, "_with_costs", lambda where, *_: where,
        laws.test_a_leader_and_its_workers_are_placed_exactly_if_there_is_a_way),
    Bug("what a leader costs is not rounded", co_location, "_lost", lambda layout, room, after, pods: room - after,
        laws.test_a_leader_and_its_workers_are_placed_exactly_if_there_is_a_way),
    Bug("pod sets need not be together", co_location, "in_one_domain",
        lambda where, wants, key, required: co_location._in_turn(where, wants),
        laws.test_a_leader_and_its_workers_are_placed_exactly_if_there_is_a_way),
    Bug("preferences are forgotten", pod_set, "assign_nodes", lambda ask: _place(replace(ask, score=None)),
        laws.test_as_many_pods_as_possible_are_on_nodes_that_they_prefer),
    Bug("the preferred level is forgotten", pod_set, "assign_nodes", lambda ask: _place(replace(ask, level=0)),
        laws.test_a_preferred_level_is_kept_if_one_domain_of_it_holds_all),
    Bug("taken ports are free", host_ports.HostPorts, "free",
        lambda self, asked: np.ones(len(self.position), np.bool_),
        laws.test_a_host_port_is_given_once_per_node),
    Bug("a port is one of all addresses", host_ports, "_collide", lambda ip, other: ip == other,
        laws.test_a_host_port_is_given_once_per_node),
    Bug("balance is forgotten", pod_set, "assign_nodes", lambda ask: _place(replace(ask, balanced=False)),
        laws.test_balanced_pods_are_even_over_the_fewest_racks, 3),
    Bug("ranks are shuffled", domain_search, "_in_topology_order", _shuffled,
        laws.test_neighbours_by_rank_are_neighbours_in_the_topology, 8),
)  # fmt: skip

test_a_planted_bug_breaks_its_law = each_breaks_its_law(BUGS)
