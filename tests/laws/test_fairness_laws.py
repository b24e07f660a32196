"""Laws of sharing: what a queue gets of a cluster that is wanted by many."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import Node, NodeTable
from admission.engine.snapshot import Snapshot
from queues.resources import Resources
from queues.workload import NodeName, QueueName
from tests.laws.laws import fairness
from tests.laws.worlds.fairness import capped, enlarged, pools, vector
from tests.laws.worlds.settings import in_worlds, law_test
from tests.laws.worlds.snapshots import BLOCK, LEVELS, RACK, snapshots

worlds = in_worlds(50)
names = st.sampled_from([QueueName(f"q{number}") for number in range(4)])
units = st.integers(0, 6)


test_sharing_incentive_a_queue_holds_what_a_slice_of_its_own_would_hold = law_test(
    fairness.sharing_incentive, pools(), worlds, st.frozensets(names)
)
test_sharing_incentive_what_is_guaranteed_is_there_at_once = law_test(
    fairness.guarantee_is_there_at_once, pools(), worlds, names
)
test_below_share_before_above_share = law_test(
    fairness.below_share_before_above_share, pools(plain=True), worlds
)
test_no_queue_gains_by_work_that_it_does_not_need = law_test(
    fairness.surplus_gains_nothing, snapshots(), worlds, names, st.integers(1, 3)
)
test_no_queue_of_a_crowded_pool_gains_by_work_that_it_does_not_need = law_test(
    fairness.surplus_gains_nothing, pools(), worlds, names, st.integers(1, 3)
)
test_no_queue_gains_by_asking_for_more_than_it_needs = law_test(
    fairness.inflation_gains_nothing, pools(), worlds, names, st.tuples(st.integers(0, 3), st.integers(0, 3))
)


@worlds
@given(snapshots(), st.integers(1, 4))
def test_more_capacity_never_stops_everybody(snapshot: Snapshot, gpus: int) -> None:
    fairness.more_never_stops_everybody(snapshot, larger(snapshot, gpus))


@worlds
@given(pools(), st.integers(1, 6))
def test_more_capacity_never_hurts_everybody(snapshot: Snapshot, more: int) -> None:
    fairness.more_never_hurts_everybody(snapshot, enlarged(snapshot, more))


@worlds
@given(pools(), st.dictionaries(names, st.tuples(units, units)))
def test_more_quota_never_hurts_everybody(
    snapshot: Snapshot, limits: dict[QueueName, tuple[int, int]]
) -> None:
    less = capped(snapshot, {name: few for name, (few, _) in limits.items()})
    more = capped(snapshot, {name: few + further for name, (few, further) in limits.items()})
    fairness.more_never_hurts_everybody(less, more)


@pytest.mark.parametrize("gpus", [2, 5, 10])
def test_no_division_of_a_small_pool_is_more_even_or_better_for_everybody(gpus: int) -> None:
    for snapshot in fairness.small_pools(gpus):
        fairness.as_even_as_can_be(snapshot)


def larger(snapshot: Snapshot, gpus: int) -> Snapshot:
    """The same world with one more node, in a rack that is there or in a new one."""
    layout = snapshot.nodes.layout
    nodes = []
    for place, name in enumerate(layout.names):
        allocatable, used = snapshot.nodes[name]
        labels = layout.labels.of(place)
        nodes.append(
            Node(
                name=name,
                allocatable=allocatable,
                used=used,
                labels={level: str(labels[level]) for level in LEVELS if labels.get(level)},
                taints=layout.taints.of(place),
                usable=bool(layout.usable[place]),
                flavor=snapshot.nodes.flavor(name),
            )
        )
    more = Node(
        name=NodeName("more"),
        allocatable=vector((gpus, 8)) + Resources({"pods": 6}),
        labels={HOST: "more", RACK: f"r{gpus}", BLOCK: f"b{gpus // 2}"},
    )
    return replace(snapshot, nodes=NodeTable.build([*nodes, more], [LEVELS]))
