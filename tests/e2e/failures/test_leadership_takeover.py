"""Two Musters, and servers that go away: with the times that are promised, and nothing admitted blindly."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from queues.errors import ApiError
from queues.sql.leadership import LEASE_SECONDS, RETRY_SECONDS
from tests.e2e.support.crash_harness import Company, Scene, balances_are_sums_of_open_seats, log_of, own_scene
from tests.e2e.support.manifests import volcano_job
from tests.e2e.support.sandbox import Yard
from tests.waiting import until

#: The promise: nobody leads for at most a lease and one retry.
PROMISED = LEASE_SECONDS + RETRY_SECONDS

#: Seconds for the election itself and for looking at it, on a busy machine.
GRAIN = 1.5

DEFAULTS = {"MUSTER_LEASE_SECONDS": str(LEASE_SECONDS), "MUSTER_RETRY_SECONDS": str(RETRY_SECONDS)}


@pytest.fixture(scope="module")
def scene(kubernetes_binaries: dict[str, Path]) -> Iterator[Scene]:
    """A cluster of its own: here servers are killed. Postgres keeps what it has promised."""
    with own_scene(durable=True) as found:
        yield found


def test_the_promised_time_without_a_leader_is_below_15_seconds() -> None:
    assert PROMISED < 15


def test_a_killed_leader_is_followed_within_its_lease_and_one_retry(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    scene.leave()
    first = scene.start(**DEFAULTS)
    scene.leads(first)
    second = scene.start(**DEFAULTS)
    with scene.yard("takeover") as yard:
        yard.add(volcano_job(yard, "runs", 4))
        yard.wait_running("runs", 4)
        assert not second.leads()
        first.kill9()
        killed = time.monotonic()
        scene.forget(first)
        yard.add(volcano_job(yard, "next", 4))
        scene.leads(second)
        took = time.monotonic() - killed
        yard.wait_running("next", 4)
        admitted = time.monotonic() - killed
        with capsys.disabled():
            print(
                f"\nleader killed: the other one leads after {took:.1f} s, a gang that came meanwhile runs after "
                f"{admitted:.1f} s (promised: lease {LEASE_SECONDS:g} s + retry {RETRY_SECONDS:g} s)"
            )
        assert took <= PROMISED + GRAIN
        each_pod_once_so_far(scene, yard.name, 8)
        balances_are_sums_of_open_seats(scene.books)


def test_a_leader_that_leaves_politely_is_followed_within_one_retry(scene: Scene) -> None:
    scene.leave()
    first = scene.start(**DEFAULTS)
    scene.leads(first)
    second = scene.start(**DEFAULTS)
    scene.forget(first)
    left = time.monotonic()
    scene.leads(second)
    assert time.monotonic() - left <= RETRY_SECONDS + GRAIN


def test_gangs_that_come_while_postgres_is_away_wait_and_running_pods_go_on(scene: Scene) -> None:
    scene.leave()
    leader = scene.start()
    with scene.yard("no-postgres") as yard:
        yard.add(volcano_job(yard, "runs", 4))
        yard.wait_running("runs", 4)

        scene.stack.postgres.kill9()
        yard.add(volcano_job(yard, "blip", 4))
        scene.stack.postgres.restart()
        yard.wait_running("blip", 4)

        scene.stack.postgres.kill9()
        yard.add(volcano_job(yard, "waits", 4))
        until(lambda: "term ended" in log_of(leader), "the leader to give up its term")
        assert not leader.ready()
        assert not yard.pods("waits")
        assert len(yard.running()) == 8
        scene.stack.postgres.restart()
        yard.wait_running("waits", 4, seconds=60)

        assert leader.process.running
        each_pod_once_so_far(scene, yard.name, 12)
        balances_are_sums_of_open_seats(scene.books)


def test_the_api_server_may_die_while_pods_are_let_go(scene: Scene) -> None:
    scene.leave()
    leader = scene.start()
    with scene.yard("no-api-server") as yard:
        yard.without_history = True
        company = Company.arrive(yard)
        yard.wait(lambda: bool(yard.nodes_of()), "the first pod to be bound")
        scene.stack.cluster.restart_api_server(down_for=0.5)
        until(lambda: answers(yard), "the API server to answer")
        company.wait_over(seconds=90)
        # A new API server does not tell what was before it: no history, but all pods are there.
        company.prove_by_books()
        assert leader.process.running
        balances_are_sums_of_open_seats(scene.books)


def answers(yard: Yard) -> bool:
    """Whether the API server can be asked again; connections to the old one are gone."""
    try:
        yard.pods()
    except ApiError:
        return False
    return True


def each_pod_once_so_far(scene: Scene, namespace: str, pods: int) -> None:
    """So many pods were ever made there, each once, and none of them was taken away."""
    moments = scene.history.of(namespace)
    assert len([moment for moment in moments if moment.kind == "ADDED"]) == pods
    assert not [moment for moment in moments if moment.kind == "DELETED"]
    assert not [moment for moment in moments if moment.pod["metadata"].get("deletionTimestamp")]
