"""What the demo shows, and that its proof can fail."""

import io
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from deploy.demo import examples, table
from deploy.demo.cluster_view import ClusterView, WorkloadRow
from deploy.demo.examples import GANG, ONE_RACK, WORKLOADS, ExampleWorkload
from deploy.demo.proof import GangIncomplete, GangTorn, prove_whole
from deploy.demo.steps import DemoSteps
from deploy.demo.terminal import TerminalOutput
from deploy.local.history import Moment


def moment(
    workload: ExampleWorkload, number: int, node: str | None, at: float, phase: str = "Pending"
) -> Moment:
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": str(workload.gpus)}}}]
    }
    if node is not None:
        spec["nodeName"] = node
    metadata = {"namespace": workload.namespace, "name": f"{workload.name}-worker-{number}"}
    return Moment("MODIFIED", {"metadata": metadata, "spec": spec, "status": {"phase": phase}}, at)


def test_a_gang_bound_when_its_seats_were_free_is_proven_whole() -> None:
    gang = [moment(GANG, number, f"node-{number}", 5.0 + number / 100) for number in range(4)]
    history = [moment(ONE_RACK, 0, "node-3", 1.0), moment(ONE_RACK, 0, "node-3", 4.5, "Succeeded"), *gang]
    proof = prove_whole(GANG, history, 8)
    assert proof.pods == 4
    assert proof.delay == pytest.approx(0.5)
    assert proof.spread == pytest.approx(0.03)


def test_a_gang_bound_before_its_last_seat_was_free_is_found_torn() -> None:
    gang = [moment(GANG, number, f"node-{number}", 5.0) for number in range(4)]
    occupied = moment(ONE_RACK, 0, "node-3", 1.0)
    freed = moment(ONE_RACK, 0, "node-3", 5.0, "Succeeded")
    with pytest.raises(GangTorn, match="only 4 of the 8 GPUs"):
        prove_whole(GANG, [occupied, *gang[:3], freed, gang[3]], 8)


def test_a_gang_of_which_a_pod_was_never_bound_is_found_incomplete() -> None:
    with pytest.raises(GangIncomplete, match="3 of its 4 pods"):
        prove_whole(GANG, [moment(GANG, number, f"node-{number}", 5.0) for number in range(3)], 8)


def test_every_role_has_its_documents_among_the_examples() -> None:
    for workload in WORKLOADS:
        assert [document["metadata"]["name"] for document in examples.documents(workload)] == [workload.name]
    assert len(examples.documents(examples.GROUP, file="podgroup-pods")) == examples.GROUP.pods


def view(state: str, message: str = "") -> ClusterView:
    rows = {
        workload: WorkloadRow(
            workload=workload,
            state=state,
            bound=0,
            started=0,
            done=0,
            code="QueueLimit" if message else "",
            message=message,
            waited=123.4,
        )
        for workload in WORKLOADS
    }
    account = {
        "flavor": "",
        "resource": "nvidia.com/gpu",
        "used": "64",
        "deserved": "32",
        "capability": "48",
        "share": 1.25,
    }
    names = {"root": None, "robotics": "root", "robotics-main": "robotics"}
    queues = [
        {"name": name, "parent": parent, "pending": 12, "admitted": 12, "accounts": [account]}
        for name, parent in names.items()
    ]
    return ClusterView(queues=queues, rows=rows)


@pytest.mark.parametrize("state", ["submitted", "waiting", "admitted", "running", "done"])
def test_the_table_is_readable_in_100_columns(state: str) -> None:
    lines = table.lines(view(state, "a reason that is too long to be told " * 5), 64)
    assert max(map(len, lines)) <= 100


def test_who_waits_is_told_with_the_reason() -> None:
    assert "  └ QueueLimit: 6 too many" in table.lines(view("waiting", "6 too many"), 64)
    assert not any("QueueLimit" in line for line in table.lines(view("running", "6 too many"), 64))


def test_each_table_says_what_it_shows() -> None:
    lines = table.lines(view("running"), 64)
    assert lines[0] == table.QUEUES
    assert lines[lines.index("") + 1] == table.WORKLOADS
    assert lines[1].startswith("QUEUE ")


def test_the_queues_are_shown_where_their_step_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once Muster tells of what the step did: its answers are a moment old."""
    monkeypatch.setattr("deploy.demo.steps.time.sleep", lambda _: None)
    out, now = io.StringIO(), view("submitted")
    looks = iter([replace(now, queues=[]), now])
    observer: Any = SimpleNamespace(look=lambda: next(looks))
    stack: Any = SimpleNamespace(replicas=[])
    steps = DemoSteps(stack=stack, api=stack, observer=observer, terminal=TerminalOutput(out), total_gpus=64)
    steps.at(8, "Vision borrows.")
    steps.show_queues("robotics", 64, "It uses 38.", "More than it deserves.")
    told = out.getvalue().splitlines()
    assert told[:4] == ["08:00  Vision borrows.", "", "       It uses 38.", "       More than it deserves."]
    assert told[4].startswith("  QUEUE ")
    assert "robotics-main" in told[-2]
    assert max(map(len, told)) <= 100


def test_a_table_that_was_told_otherwise_is_not_left() -> None:
    out = io.StringIO()
    terminal = TerminalOutput(out)
    terminal.show(["the table"], {})
    terminal.drop()
    terminal.keep()
    assert "the table" not in out.getvalue()


def test_each_change_is_a_line_and_the_table_comes_at_the_end() -> None:
    out = io.StringIO()
    terminal = TerminalOutput(out)
    for states in ({"gang": ""}, {"gang": "waits"}, {"gang": "waits"}, {"gang": "runs"}):
        terminal.show(["the table"], states)
    assert out.getvalue().split("\n")[:2] == ["waits", "runs"]
    assert "the table" not in out.getvalue()
    terminal.keep()
    terminal.keep()
    assert out.getvalue().count("the table") == 1


@pytest.mark.parametrize("state", ["submitted", "waiting", "admitted", "running", "done"])
def test_a_change_is_told_in_100_columns(state: str) -> None:
    told = table.states(view(state, "a reason that is too long to be told " * 5))
    assert max(map(len, told.values())) <= 100
    assert bool(told[GANG.key]) == (state not in ("submitted", "admitted"))
