"""What fails for one node, one template or one Job in the loop that recovers nodes costs the others nothing."""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from admission.kube import node_recovery as recovery_loop
from admission.kube.retry_pauses import RetryPauses
from admission.node_recovery.step import step
from queues.api.api_resources import CRON_JOBS, JOBS, NODES
from queues.errors import ApiRefused, Fenced
from tests.builders.facts import NOW, VOLCANO, admission, volcano_job
from tests.unit.admission.kube.node_recovery.rounds import RULES, TAINT, Rounds, root, runs


def fails_for(name: str, real: Callable[..., Any], tries: list[str]) -> Callable[..., Any]:
    """A function of a node's view that fails for one of them."""

    def called(view: Any, *rest: Any) -> Any:
        if view.name == name:
            tries.append(name)
            raise ValueError("year 20000 is out of range")
        return real(view, *rest)

    return called


def with_two_faulty_nodes() -> Rounds:
    rounds = Rounds(root())
    for name in ("n1", "n2"):
        rounds.report(3, node=name)
    return rounds


def answers(rounds: Rounds, method: str, path: str, error: Exception) -> list[int]:
    """Have each call for this path fail; the times of the calls."""
    times: list[int] = []
    real = getattr(rounds.api, method)

    async def call(asked: str, *rest: Any, **more: Any) -> Any:
        if asked == path:
            times.append(rounds.now)
            raise error
        return await real(asked, *rest, **more)

    setattr(rounds.api, method, call)
    return times


def refused(path: str, method: str = "GET", status: int = 403) -> ApiRefused:
    return ApiRefused(method=method, path=path, status=status, reason="no")


async def test_a_node_whose_step_fails_is_put_off_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rounds, tries = with_two_faulty_nodes(), list[str]()
    monkeypatch.setattr(recovery_loop, "step", fails_for("n1", step, tries))
    await rounds.look(60)
    assert (rounds.taints("n1"), rounds.taints("n2")) == ([], [TAINT])
    assert 5 <= len(tries) <= 8
    told = [record.message for record in caplog.records if "put off" in record.message]
    assert told == ["recovery of a node put off"]
    monkeypatch.undo()
    await rounds.look(60)
    assert rounds.taints() == [TAINT]


async def test_a_node_that_cannot_be_written_whatever_the_error_is_put_off_alone() -> None:
    rounds = with_two_faulty_nodes()
    times = answers(rounds, "patch", NODES.path(name="n1"), ValueError("surrogates not allowed"))
    await rounds.look(60)
    assert rounds.taints("n2") == [TAINT]
    assert len(times) <= 8


def draining() -> Rounds:
    """A node that is drained, with a gang of which nothing tells the devices."""
    held = admission(VOLCANO, "n1", started=True)
    rounds = Rounds(root(), volcano_job(1), runs("a"), admissions=[held])
    rounds.report(3)
    return rounds


async def test_gangs_go_on_leaving_a_node_whose_step_fails_or_that_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rounds = draining()
    await rounds.look(1)
    answers(rounds, "patch", NODES.path(name="n1"), refused(NODES.path(name="n1")))
    await rounds.look(3)
    assert rounds.leaves()
    monkeypatch.setattr(recovery_loop, "step", fails_for("n1", step, []))
    await rounds.look(5)
    assert rounds.leaves()


async def test_the_end_of_a_term_is_no_failure_of_a_node() -> None:
    rounds = with_two_faulty_nodes()
    answers(rounds, "patch", NODES.path(name="n1"), Fenced(term=1, holder="a", reason="lost"))
    with pytest.raises(Fenced):
        await rounds.look()


async def test_a_look_that_fails_as_a_whole_ends_no_term(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds, tries = with_two_faulty_nodes(), list[int]()

    def fails(now: int) -> None:
        tries.append(now)
        raise ValueError("no")

    monkeypatch.setattr(rounds.loop._failing, "look", fails)
    await rounds.look(60)
    assert 5 <= len(tries) <= 8


async def test_an_event_that_cannot_be_written_stops_nothing() -> None:
    rounds = with_two_faulty_nodes()
    real = rounds.api.create

    async def create(path: str, *rest: Any, **more: Any) -> bytes:
        if path.endswith("/events"):
            raise ValueError("no")
        return await real(path, *rest, **more)

    rounds.api.create = create  # type: ignore[method-assign]
    await rounds.look(5)
    assert len(rounds.made()) == 2


@pytest.mark.parametrize("method", ["get", "create"])
async def test_a_job_that_is_refused_is_told_and_tried_again_after_growing_pauses(method: str) -> None:
    rounds = Rounds(root())
    path = CRON_JOBS.path("ops", "repair") if method == "get" else JOBS.path("ops")
    real = getattr(rounds.api, method)
    times = answers(rounds, method, path, refused(path, method.upper(), 422))
    rounds.report(3)
    await rounds.look(60)
    assert 5 <= len(times) <= 8
    assert rounds.remembered()["waits"] == "job-refused"
    assert rounds.events().count("GpuNodeWaits") == 1
    setattr(rounds.api, method, real)
    await rounds.look(61)
    assert len(rounds.made()) == 1
    assert "waits" not in rounds.remembered()


async def test_a_node_whose_job_is_refused_is_opened_by_hand_within_a_minute() -> None:
    rounds = Rounds(root(replace(RULES, job="ops/missing")))
    rounds.report(3)
    await rounds.look(40)
    rounds.node()["spec"]["taints"] = []
    await rounds.look(60)
    assert (rounds.taints(), rounds.phase()) == ([], "none")


async def test_faults_that_come_and_go_before_a_job_is_made_use_up_no_attempts() -> None:
    rounds = Rounds(root(replace(RULES, job="ops/missing")))
    for _ in range(5):
        rounds.report(3)
        await rounds.look(6)
        assert rounds.phase() == "recovering"
        rounds.report()
        await rounds.look(60)
        assert rounds.taints() == []


def test_pauses_grow_to_a_minute_and_are_short_again_after_a_success(
    caplog: pytest.LogCaptureFixture,
) -> None:
    put_off, now, pauses = RetryPauses("a node"), NOW, []
    with caplog.at_level(logging.WARNING):
        for _ in range(9):
            put_off.failed("n1", "no", now)
            until = next(each for each in range(now, now + 99) if not put_off.holds("n1", each))
            pauses.append(until - now)
            now = until
        assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
        put_off.succeeded("n1")
        put_off.failed("n1", "no", now)
        assert not put_off.holds("n1", now + 1)
        put_off.failed("n1", "another", now + 1)
    assert [record.__dict__["why"] for record in caplog.records] == ["no", "no", "another"]


def test_what_nobody_tries_any_more_is_forgotten() -> None:
    put_off = RetryPauses("a node")
    for number in range(1000):
        put_off.failed(f"n{number}", "no", NOW + number)
    assert len(put_off._paused) < 200
