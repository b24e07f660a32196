"""Work that can never be admitted as things are: the laws about it, and planted bugs that each of them finds."""

from typing import Any

from hypothesis import given

from admission.engine.nodes.table import NodeTable
from admission.engine.pending import empty_cluster
from admission.engine.pending.classes import WorkloadClass
from admission.engine.pending.empty_cluster import EmptyCluster
from admission.engine.pending.pending import PendingWorkloads
from admission.engine.snapshot import Snapshot
from tests.laws.laws import decision, impossible
from tests.laws.laws.impossible import worlds_with_impossible_work
from tests.laws.planted.bug import Bug, each_breaks_its_law
from tests.laws.worlds.settings import in_worlds


@in_worlds(60)
@given(worlds_with_impossible_work())
def test_work_that_never_fits_is_in_nobodys_way(snapshot: Snapshot) -> None:
    impossible.impossible_work_is_in_nobodys_way(snapshot)


@in_worlds(60)
@given(worlds_with_impossible_work())
def test_what_never_fits_is_called_so_and_nothing_else_is(snapshot: Snapshot) -> None:
    impossible.never_is_said_where_nothing_else_is_in_the_way(snapshot)


@in_worlds(40)
@given(worlds_with_impossible_work())
def test_the_memo_only_saves_time_with_work_that_never_fits(snapshot: Snapshot) -> None:
    decision.memo_decides_nothing(snapshot)


NOBODYS_WAY = test_work_that_never_fits_is_in_nobodys_way
CALLED_SO = test_what_never_fits_is_called_so_and_nothing_else_is


def _limits_of_all(self: PendingWorkloads, each: WorkloadClass) -> Any:
    return self._limits


def _as_they_are(self: NodeTable) -> NodeTable:
    return self


BUGS = (
    Bug("nothing is impossible", EmptyCluster, "_beyond_nodes", lambda *given, **more: None, CALLED_SO),
    Bug("no limit is below what is asked", empty_cluster, "_common", lambda hits: None, CALLED_SO),
    Bug("cordoned nodes are none", NodeTable, "emptied", _as_they_are, CALLED_SO),
    Bug("levels are not looked at", empty_cluster, "_level_of_all", lambda pods: None, CALLED_SO, 1),
    Bug("no node is added", EmptyCluster, "_may_grow", lambda *given: (), CALLED_SO, 1),
    Bug("any node may be added", empty_cluster, "_takes", lambda *given: True, CALLED_SO, 21),
    Bug("added nodes have any label", empty_cluster, "may_be_chosen", lambda *given: True, CALLED_SO, 1),
    Bug("the impossible counts with the others", PendingWorkloads, "_limits_for", _limits_of_all, NOBODYS_WAY, 2),
)  # fmt: skip

test_a_planted_bug_breaks_a_law_about_impossible_work = each_breaks_its_law(BUGS, examples=500)
