"""Muster dies, or stands still, at every named point of the ring. Nothing is lost, nothing is doubled."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from admission.failpoints import POINTS
from tests.e2e.support.crash_harness import (
    Company,
    Scene,
    balances_are_sums_of_open_seats,
    everything_in,
    is_stopped,
    own_scene,
    wait_quiet,
    written_in,
)
from tests.waiting import until

#: So often the same Muster dies at the same point before one lives.
DEATHS = 2


@pytest.fixture(scope="module")
def scene(kubernetes_binaries: dict[str, Path]) -> Iterator[Scene]:
    """A cluster of its own: here everything is killed."""
    with own_scene(durable=False) as found:
        yield found


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_any_point_and_restarted_nothing_is_lost_or_doubled(scene: Scene, point: str) -> None:
    scene.leave()
    with scene.yard(f"killed-{point}") as yard:
        company = Company.arrive(yard)
        for _ in range(DEATHS):
            scene.dies(scene.start(f"{point}:KILL", wait=False))
            balances_are_sums_of_open_seats(scene.books)
        scene.start()
        company.wait_over()
        company.prove()
        balances_are_sums_of_open_seats(scene.books)


@pytest.mark.parametrize("point", POINTS)
def test_a_leader_that_stood_still_at_any_point_writes_nothing_once_another_leads(
    scene: Scene, point: str
) -> None:
    scene.leave()
    with scene.yard(f"stopped-{point}") as yard:
        company = Company.arrive(yard)
        old = scene.start(f"{point}:STOP", wait=False)
        until(lambda: is_stopped(old), f"{old.name} to stand still at {point}")
        new = scene.start()
        scene.leads(new)
        company.wait_over()
        company.prove()
        # The names of its pods are free again: what the old one still has in hand could be made.
        for pod in yard.pods():
            yard.delete("Pod", pod["metadata"]["name"])
        before = wait_quiet(yard)
        term = int(scene.books.ask("SELECT term FROM leases")[0][0])
        rows = [written_in(scene.books, number) for number in range(1, term + 1)]

        old.wake()
        until(lambda: old.ready() and not old.leads(), f"{old.name} to notice")
        assert rows == [written_in(scene.books, number) for number in range(1, term + 1)]
        assert before == everything_in(yard)
        assert company.is_over()
        assert new.leads()
        old.kill9()
        scene.forget(old)
