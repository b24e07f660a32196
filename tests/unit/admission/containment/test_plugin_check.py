"""What ``muster plugin`` says of plug-ins: a list, and whether one keeps what the interface asks."""

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from admission.cli.command_line import finish
from admission.cli.muster import muster
from admission.containment import plugin_check
from admission.containment.made_up_clusters import made_up_clusters
from admission.containment.plugin_check import DECISIONS, PluginCheck, check_plugin, rows_of
from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.snapshot import Snapshot
from queues.plan import Plan
from queues.plugins.interface import OrderPolicy, Policy
from queues.plugins.registry import known_policies
from queues.quota.queue import Limits
from queues.resources import CPU
from queues.workload import Workload
from tests.builders.plugin_policies import known, stand_still
from tests.waiting import LIMIT


class ByName(OrderPolicy):
    """An order that keeps what it promises."""

    name = "by-name"
    terms = None

    def urgency(self, workload: Workload) -> int:
        return len(workload.name)


class Counting(OrderPolicy):
    """An order that goes by how often it was asked."""

    name = "counting"
    terms = None
    asked: Iterator[int] = count()

    def urgency(self, workload: Workload) -> int:
        return next(self.asked) // 2  # the same twice, and another one when it is asked again


def call(*words: str) -> int:
    return finish(muster, "muster", list(words))


def test_made_up_clusters_are_the_same_each_time_and_have_work_to_do() -> None:
    first, again = list(made_up_clusters(3)), list(made_up_clusters(3))
    assert [each.pending for each in first] == [each.pending for each in again]
    assert all(each.pending and each.admissions for each in first)


def checked(policy: type[Policy], seconds: float = LIMIT) -> PluginCheck:
    with known(policy):
        return check_plugin(known_policies()[policy.name], "", made_up_clusters(2), seconds)


def urgent(answer: Callable[[Workload], Any]) -> type[OrderPolicy]:
    return type(
        "Tried", (OrderPolicy,), {"name": "tried", "terms": None, "urgency": lambda self, w: answer(w)}
    )


def renames(workload: Workload) -> int:
    object.__setattr__(workload, "name", f"{workload.name}-renamed")
    return 0


def test_a_plug_in_that_keeps_what_it_promises_is_compared_with_the_default() -> None:
    found = checked(ByName)
    assert found.problem == ""
    assert found.with_it.decisions == found.with_default.decisions == DECISIONS
    assert found.with_it.workloads == found.with_default.workloads > found.with_it.waiting
    assert found.with_it.waited
    lines = rows_of("by-name", found)
    assert [title for title, _, _ in lines[1:]] == [
        *("decisions", "admitted", "evicted", "waiting in the end", "wait"),
        *("below deserved share", "time per decision"),
    ]


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (urgent(lambda _: 1 // 0), "it raised ZeroDivisionError"),
        (urgent(lambda _: 0.5), "it answered 0.5"),
        (urgent(lambda _: random.getrandbits(60)), "it answered the same question differently"),
        (urgent(lambda _: os._exit(1)), "it ended the process that asks it"),
        (urgent(renames), "it changed what it was given"),
    ],
)
def test_what_a_plug_in_may_not_do_is_found_and_said(policy: type[Policy], why: str) -> None:
    assert checked(policy).problem.startswith(f"snapshot 1: {why}")


def test_a_plug_in_that_goes_by_more_than_it_is_given_is_found_by_deciding_again() -> None:
    assert "the plan is another one when it is decided again" in checked(Counting).problem


def test_a_plug_in_that_never_answers_is_found_and_said() -> None:
    assert checked(urgent(lambda _: stand_still()), 10.0).problem == "snapshot 1: it did not answer for 10 s"


def without_reasons(plan: Plan) -> Plan:
    return replace(plan, reasons={})


def in_part(plan: Plan) -> Plan:
    return replace(plan, admits=tuple(replace(each, seats=each.seats[:-1]) for each in plan.admits))


def on_one_node(plan: Plan) -> Plan:
    node = plan.admits[0].seats[0].node
    moved = (replace(each, seats=tuple(replace(s, node=node) for s in each.seats)) for each in plan.admits)
    return replace(plan, admits=tuple(moved))


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (without_reasons, "workloads get neither seats nor a reason"),
        (in_part, "is admitted in part"),
        (on_one_node, "a node is given more than it has"),
    ],
)
def test_a_plan_that_breaks_a_law_is_found(
    monkeypatch: pytest.MonkeyPatch, broken: Callable[[Plan], Plan], why: str
) -> None:
    def decided(snapshot: Snapshot, memo: Memo) -> tuple[Plan, Memo]:
        plan, memo = decide(snapshot, memo)
        return broken(plan), memo

    monkeypatch.setattr(plugin_check, "decide", decided)
    assert why in checked(ByName).problem


def test_a_queue_above_its_limit_is_found() -> None:
    snapshot = next(made_up_clusters(1))
    plan, memo = decide(snapshot, Memo())
    assert memo.usage is not None
    assert plan.admits
    assert plugin_check._quota(memo.usage.copy(), snapshot, plan) == ""
    queue = plan.admits[0].queue
    low = replace(snapshot.queues[queue], limits=Limits(capability={CPU: 0}))
    limited = replace(snapshot, queues={**snapshot.queues, queue: low})
    _, memo = decide(limited, Memo())
    assert memo.usage is not None
    assert plugin_check._quota(memo.usage.copy(), limited, plan).startswith(f"queue {queue} is brought above")


def test_the_command_says_what_there_is_and_what_is_wrong(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("admission.cli.commands.plugin._MADE_UP", 2)
    with known(ByName):
        assert call("plugin", "list") == 0
        assert "by-name\tpolicy.order\tversion 1\tothers 1, digest d1" in capsys.readouterr().out
        assert call("plugin", "check", "by-name") == 0
        assert "by-name         default\ndecisions" in capsys.readouterr().out
        assert call("plugin", "check", "by-name", "--parameters", '{"a": 1}') == 2
        assert "unknown field `a`" in capsys.readouterr().err
    assert call("plugin", "check", "by-name") == 2
    assert "there is no such plug-in, expected one of as-listed" in capsys.readouterr().err
    (tmp_path / "turn.json").write_text("{}")
    assert call("plugin", "check", "fifo", str(tmp_path / "turn.json")) == 2


def test_the_memo_is_looked_at_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgets(self: Memo, snapshot: Any) -> Any:
        return self.plan

    monkeypatch.setattr(Memo, "answer", forgets)
    assert "another one when it is decided again" in checked(ByName).problem
