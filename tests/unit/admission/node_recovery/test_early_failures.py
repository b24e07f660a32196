"""Nodes that kill the pods of whatever gang they get."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.node_recovery import early_failures
from admission.node_recovery.early_failures import CLOSED_FOR, EARLY, WINDOW, EarlyFailures, PodRun, Submitter
from queues import kind_names
from queues.workload import AdmissionId, NodeName, WorkloadKey

A, B = NodeName("a"), NodeName("b")
T = 1_800_000_000


def submitter(of: str) -> Submitter:
    tenant, _, user = of.partition("/")
    return Submitter(tenant, user or tenant)


class Cluster(EarlyFailures):
    """Nodes of a cluster. ``of``: who has gangs (``TENANT`` or ``TENANT/USER``); several have, by default."""

    def __init__(self, *of: str) -> None:
        super().__init__()
        self.submitters = {submitter(each) for each in of or ("x", "y")}

    def run(
        self,
        node: NodeName,
        gang: str,
        *,
        at: int,
        took: int = 5,
        failed: bool = True,
        admission: int | None = None,
        of: str = "",
    ) -> None:
        """A pod's run. Each gang is of a tenant and a user of its own, unless ``of`` names them; one admission each."""
        self.saw(
            PodRun(
                node=node,
                gang=WorkloadKey(kind_names.JOB, gang),
                submitter=submitter(of or f"of-{gang}"),
                admission=AdmissionId(hash(gang) if admission is None else admission),
                started=at,
                until=at + took,
                failed=failed,
            )
        )

    def fail(self, node: NodeName, *gangs: str, at: int = T, of: str = "") -> None:
        """A pod of each of these gangs fails early."""
        for number, gang in enumerate(gangs):
            self.run(node, gang, at=at + number, of=of)

    def closed(self, now: int = T + 60) -> list[str]:
        """Nodes that get no gangs."""
        return sorted(self.find(self.submitters, now))


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_pods_of_three_gangs_that_fail_early_close_a_node_for_a_time(cluster: Cluster) -> None:
    cluster.fail(A, "g0", "g1", "g2")
    found = cluster.find(cluster.submitters, T + 10)[A]
    assert str(found) == "pods of 3 different gangs failed soon after their start"
    assert (found.since, found.until) == (T + 7, T + 7 + CLOSED_FOR)
    assert cluster.closed(found.until - 1) == ["a"]
    assert cluster.closed(found.until) == []


@pytest.mark.parametrize(
    "runs",
    [
        [(A, f"g{number % 2}", T + number, 5) for number in range(20)],
        [(A, "g0", T, 5), (A, "g1", T, 5), (B, "g2", T, 5)],
        [(A, f"g{number}", T, EARLY + 1) for number in range(3)],
        [(A, f"g{number}", T + number * WINDOW // 2, 5) for number in range(3)],
    ],
    ids=["of two gangs", "on two nodes", "late", "over a long time"],
)
def test_other_failures_close_none(cluster: Cluster, runs: list[tuple[NodeName, str, int, int]]) -> None:
    for number, (node, gang, at, took) in enumerate(runs):
        cluster.run(node, gang, at=at, took=took, admission=number)
    assert cluster.closed(max(at for _, _, at, _ in runs) + 10) == []


@pytest.mark.parametrize("took", [100, 3600], ids=["just now", "for long"])
def test_a_pod_that_does_well_clears_the_node_of_what_was_before(cluster: Cluster, took: int) -> None:
    cluster.fail(A, "g0", "g1")
    cluster.run(A, "good", at=T + 110 - took, took=took, failed=False)
    cluster.fail(A, "g2", at=T + 120)
    assert cluster.closed(T + 130) == []
    cluster.fail(A, "g3", "g4", at=T + 130)
    assert cluster.closed(T + 140) == ["a"]
    cluster.run(A, "good", at=T, took=200, failed=False)
    assert cluster.closed(T + 210) == []


def test_an_old_pod_that_fails_shows_nothing_good(cluster: Cluster) -> None:
    cluster.fail(A, "g0", "g1", "g2")
    cluster.run(A, "old", at=T - 9000, took=9500)
    assert cluster.closed() == ["a"]


@pytest.mark.parametrize(
    ("failed", "closes"),
    [
        (("x/u", "x/u", "x/u", "x/u"), False),
        (("x/u", "x/v", "x/w", "x/u"), False),  # one tenant with several users
        (("x/u", "y/u", "z/u", "x/u"), False),  # one user in several tenants
        (("x/u", "x/u", "y/v", "x/u"), True),
        (("x/u", "y/u", "x/v", "x/u"), True),
    ],
)
def test_gangs_of_one_tenant_or_one_user_alone_show_nothing(
    cluster: Cluster, failed: tuple[str, ...], closes: bool
) -> None:
    for number, of in enumerate(failed):
        cluster.fail(A, f"g{number}", of=of)
    assert (cluster.closed() == ["a"]) is closes


@pytest.mark.parametrize("others", [("x/u", "x/v"), ("x/u", "y/u")], ids=("one tenant", "one user"))
def test_what_all_gangs_of_the_cluster_share_needs_no_second_one(others: tuple[str, ...]) -> None:
    cluster = Cluster(*others)
    for number in range(3):
        cluster.fail(A, f"g{number}", of=others[number % 2])
    assert cluster.closed() == ["a"]


def test_what_one_tenant_showed_alone_ends_when_another_one_has_gangs() -> None:
    cluster = Cluster("x")
    cluster.fail(A, "g0", "g1", "g2", of="x")
    assert cluster.closed() == ["a"]
    cluster.submitters.add(submitter("y"))
    assert cluster.closed() == []
    cluster.fail(A, "more", of="x")
    assert cluster.closed() == []


def test_a_gang_that_fails_on_several_nodes_shows_nothing_of_any(cluster: Cluster) -> None:
    cluster.fail(A, "g0", "g1", "g2")
    assert cluster.closed() == ["a"]
    cluster.run(B, "g1", at=T + 10, admission=7)
    assert cluster.closed() == []
    cluster.fail(B, "g3", "g4")
    assert cluster.closed() == []


def test_of_one_admission_only_the_first_failure_counts_in_whatever_order_they_are_seen(
    cluster: Cluster,
) -> None:
    for number in range(3):
        cluster.run(B, f"g{number}", at=T, took=20)
        cluster.run(A, f"g{number}", at=T, took=5)
    assert cluster.closed() == ["a"]


def test_a_node_on_which_gangs_fail_again_is_closed_for_twice_the_time(cluster: Cluster) -> None:
    at = T
    for number in range(8):
        cluster.fail(A, *(f"g{number}-{gang}" for gang in range(3)), at=at)
        until = cluster.find(cluster.submitters, at + 10)[A].until
        assert until - at - 7 == CLOSED_FOR * 2 ** min(number, 5)
        at = until
    cluster.run(A, "good", at=at, failed=False)
    cluster.fail(A, "a", "b", "c", at=at + 10)
    assert cluster.find(cluster.submitters, at + 20)[A].until == at + 17 + CLOSED_FOR


def test_a_node_that_is_gone_or_recovered_begins_anew(cluster: Cluster) -> None:
    cluster.fail(A, "g0", "g1", "g2")
    assert cluster.closed() == ["a"]
    cluster.forget(A)
    cluster.fail(A, "next")
    assert cluster.closed() == []


def test_memory_is_bounded(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_failures, "MOST_FAILURES", 10)
    for number in range(100):
        cluster.run(NodeName(f"n{number}"), f"g{number}", at=T + number)
    assert len(cluster.suspected()) == 10
    cluster.closed(T + 200 + WINDOW)
    assert not cluster.suspected()


runs = st.lists(
    st.tuples(
        st.sampled_from((A, B)),
        st.sampled_from("pqrst"),
        st.integers(0, 400),
        st.integers(0, 200),
        st.booleans(),
    ),
    max_size=40,
)


@given(runs)
def test_no_node_is_closed_for_ever_and_none_by_one_tenant(
    drawn: list[tuple[NodeName, str, int, int, bool]],
) -> None:
    several, one = Cluster(), Cluster()
    numbers, at = count(), T
    for node, gang, pause, took, failed in drawn:
        at += pause
        number = next(numbers) // 2
        several.run(node, gang, at=at, took=took, failed=failed, admission=number)
        one.run(node, gang, at=at, took=took, failed=failed, admission=number, of="x")
        several.closed(at)
        assert one.closed(at) == []
    assert several.closed(at + 200 + CLOSED_FOR * 32) == []
