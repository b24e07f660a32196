"""What fails for one node, one template or one Job in the loop that recovers nodes costs the others nothing."""

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from admission.facts.changes import Change, FactKind
from admission.kube.node_recovery import node_views
from admission.kube.node_recovery.retry_pauses import RetryPauses
from admission.node_recovery import step as steps
from admission.node_recovery.policy import FaultPolicy
from admission.node_recovery.step import NodeEvent, step
from admission.wire import WireNode
from queues.api import names
from queues.api.api_resources import CRON_JOBS, JOBS, NODES
from queues.errors import ApiRefused, Fenced
from queues.workload import NodeName
from tests.builders.facts import NOW, VOLCANO, admission, volcano_job
from tests.builders.node_agents.node_devices import node_devices
from tests.unit.admission.kube.node_recovery.test_recovery_loop import RULES, TAINT, Rounds, recover, runs


def fails_for(name: str, real: Callable[..., Any], tries: list[str]) -> Callable[..., Any]:
    """A function of a node that fails for one of them."""

    def called(first: Any, *rest: Any, **more: Any) -> Any:
        if getattr(first, "name", first) == name:
            tries.append(name)
            raise ValueError("year 20000 is out of range")
        return real(first, *rest, **more)

    return called


def with_two_faulty_nodes() -> Rounds:
    rounds = Rounds(recover())
    for name in ("n1", "n2"):
        rounds.world.observe([Change(FactKind.NODE_DEVICES, name, node_devices(name, faulty=(3,)))])
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


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if "put off" in record.message]


async def test_a_node_whose_step_fails_is_put_off_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rounds, tries = with_two_faulty_nodes(), list[str]()
    monkeypatch.setattr(steps, "step", fails_for("n1", step, tries))
    await rounds.look(60)
    assert rounds.node("n2")["spec"]["taints"] == [TAINT]
    assert rounds.taints() == []
    assert 5 <= len(tries) <= 8
    assert told(caplog) == ["recovery of a node put off"]
    monkeypatch.undo()
    await rounds.look(60)
    assert rounds.taints() == [TAINT]


async def test_a_node_of_which_nothing_can_be_said_is_put_off_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rounds, tries = with_two_faulty_nodes(), list[str]()
    real = rounds.loop._detector.black_hole
    monkeypatch.setattr(rounds.loop._detector, "black_hole", fails_for("n1", real, tries))
    await rounds.look(60)
    assert rounds.node("n2")["spec"]["taints"] == [TAINT]
    assert 5 <= len(tries) <= 8
    assert told(caplog) == ["recovery of a node put off"]


async def test_a_node_out_of_service_of_which_nothing_can_be_said_counts_as_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rounds = Rounds(recover(replace(RULES, max_nodes_out=1)))
    rounds.report(3)
    await rounds.look(2)
    assert rounds.taints() == [TAINT]
    monkeypatch.setattr(node_views, "known_state", fails_for("n1", node_views.known_state, []))
    rounds.world.observe([Change(FactKind.NODE_DEVICES, "n2", node_devices("n2", faulty=(3,)))])
    await rounds.look(5)
    assert rounds.node("n2")["spec"].get("taints", []) == []


async def test_a_node_that_cannot_be_written_whatever_the_error_is_put_off_alone() -> None:
    rounds = with_two_faulty_nodes()
    times = answers(rounds, "patch", NODES.path(name="n1"), ValueError("surrogates not allowed"))
    await rounds.look(60)
    assert rounds.node("n2")["spec"]["taints"] == [TAINT]
    assert len(times) <= 8


def draining(on_fault: str) -> Rounds:
    """A node that is drained at once, with a gang of which nothing tells the devices."""
    held = admission(VOLCANO, "n1", started=True)
    rules = replace(RULES, drain_timeout=0)
    rounds = Rounds(recover(rules, on_fault), volcano_job(1), runs("a"), admissions=[held])
    rounds.report(3)
    return rounds


def leaves(rounds: Rounds) -> bool:
    return bool(rounds.world.states[VOLCANO].evictable)


async def test_gangs_leave_a_drained_node_though_it_cannot_be_written() -> None:
    rounds = draining("recover")
    await rounds.look(2)
    document = rounds.node()
    told = json.loads(document["metadata"]["annotations"][names.RECOVERY]) | {"waits": "foreign-pods"}
    document["metadata"]["annotations"][names.RECOVERY] = json.dumps(told)
    rounds.marks.written(json.dumps(document).encode())
    times = answers(rounds, "patch", NODES.path(name="n1"), refused(NODES.path(name="n1")))
    await rounds.look(5)
    assert times
    assert leaves(rounds)


async def test_gangs_go_on_leaving_a_node_of_which_nothing_can_be_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rounds = draining("recover")
    await rounds.look(4)
    assert leaves(rounds)
    monkeypatch.setattr(steps, "step", fails_for("n1", step, []))
    await rounds.look(5)
    assert leaves(rounds)


@pytest.mark.parametrize(("on_fault", "evicted"), [("report", False), ("evict", True), ("recover", True)])
async def test_gangs_on_a_faulty_device_leave_by_the_policy_of_their_queue_whatever_the_step_does(
    monkeypatch: pytest.MonkeyPatch, on_fault: str, evicted: bool
) -> None:
    rounds = draining(on_fault)
    rounds.report(3, holders={"a": frozenset((3,))})
    monkeypatch.setattr(steps, "step", fails_for("n1", step, []))
    await rounds.look(5)
    assert leaves(rounds) is evicted


async def test_the_end_of_a_term_is_no_failure_of_a_node() -> None:
    rounds = with_two_faulty_nodes()
    error = Fenced(term=1, holder="a", reason="lost")
    answers(rounds, "patch", NODES.path(name="n1"), error)
    with pytest.raises(Fenced):
        await rounds.loop._contained_look()


async def test_a_look_that_fails_as_a_whole_ends_no_term(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds, tries = with_two_faulty_nodes(), list[int]()

    def fails(now: int, policy: FaultPolicy) -> None:
        tries.append(now)
        raise ValueError("no")

    monkeypatch.setattr(rounds.loop._holes, "look", fails)
    for _ in range(60):
        rounds.now += 1
        await rounds.loop._contained_look()
    assert 5 <= len(tries) <= 8


async def test_words_that_cannot_be_encoded_are_told_as_far_as_they_can() -> None:
    rounds = Rounds()
    found = NodeEvent("GpuNodeFailed", "Job \ud800 is gone")
    await rounds.loop._writer.tell(NodeName("n1"), found)
    [event] = [
        json.dumps(each, ensure_ascii=False)
        for path, each in rounds.api.documents.items()
        if "/events/" in path
    ]
    assert event.encode()
    assert "Job ? is gone" in event


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


async def test_a_node_waits_for_a_template_that_cannot_be_read_and_goes_on_when_it_can() -> None:
    rounds = Rounds(recover())
    path, real = CRON_JOBS.path("ops", "repair"), rounds.api.get
    answers(rounds, "get", path, refused(path))
    rounds.report(3)
    await rounds.look(10)
    assert json.loads(rounds.node()["metadata"]["annotations"][names.RECOVERY])["waits"] == "job-refused"
    rounds.api.get = real  # type: ignore[method-assign]
    await rounds.look(60)
    assert len(rounds.made()) == 1


async def test_a_job_that_is_refused_is_tried_again_after_growing_pauses(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rounds = Rounds(recover())
    path, real = JOBS.path("ops"), rounds.api.create
    times = answers(rounds, "create", path, refused(path, "POST", 422))
    rounds.report(3)
    await rounds.look(60)
    assert 5 <= len(times) <= 7
    assert told(caplog) == ["Job for a node put off"]
    assert json.loads(rounds.node()["metadata"]["annotations"][names.RECOVERY])["waits"] == "job-refused"
    rounds.api.create = real  # type: ignore[method-assign]
    await rounds.look(60)
    assert len(rounds.made()) == 1


async def test_a_refused_job_holds_back_no_word_of_a_person() -> None:
    rounds = Rounds(recover())
    path = JOBS.path("ops")
    answers(rounds, "create", path, refused(path, "POST", 422))
    rounds.report(3)
    await rounds.look(40)
    rounds.node()["spec"]["taints"] = []
    rounds.marks.seen(msgspec.convert(rounds.node(), WireNode), msgspec.Raw(b""))
    await rounds.look(1)
    assert (rounds.taints(), rounds.phase()) == ([], "none")


async def test_faults_that_come_and_go_before_a_job_is_made_use_up_no_attempts() -> None:
    rounds = Rounds(recover(replace(RULES, job="ops/missing")))
    for _ in range(5):
        rounds.report(3)
        await rounds.look(6)
        assert rounds.phase() == "recovering"
        rounds.report()
        await rounds.look(6)
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
