"""What ``muster plugin`` says of plug-ins: a list, and whether one keeps what the interface asks."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from admission.cli.command_line import finish
from admission.cli.muster import muster
from admission.engine.memo import Memo
from admission.replay.made_up_clusters import made_up_clusters
from admission.replay.plugin_check import check_plugin
from queues.plugins.interface import OrderPolicy
from queues.plugins.registry import known_policies
from queues.workload import Workload
from tests.builders.plugin_policies import known


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


def test_a_plug_in_that_goes_by_more_than_it_is_given_is_found_by_deciding_again() -> None:
    with known(ByName, Counting):
        kept = check_plugin(known_policies()["by-name"], "", made_up_clusters(4), lambda: 0.0)
        found = check_plugin(known_policies()["counting"], "", made_up_clusters(8), lambda: 0.0)
    assert kept.problems == []
    assert kept.with_it.decisions
    assert kept.with_default.decisions
    (problem,) = found.problems
    assert "another plan" in problem


def test_the_command_says_what_there_is_and_what_is_wrong(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("admission.cli.commands.plugin._MADE_UP", 2)
    with known(ByName):
        assert call("plugin", "list") == 0
        assert "by-name\tpolicy.order\tversion 1\tothers 1, digest d1" in capsys.readouterr().out
        assert call("plugin", "check", "by-name") == 0
        assert "by-name: " in capsys.readouterr().out
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
    assert check_plugin(known_policies()["fifo"], "", made_up_clusters(1), lambda: 0.0).problems
