"""The committed conformance vectors pass."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.tables import with_rows
from tests.vectors import preemption
from tests.vectors.__main__ import main
from tests.vectors.cases import KINDS, judge, kind_of, load

HERE = Path(__file__).parent
ANY = {"reclaimWithinCohort": "Any"}


def admitted(name: str, cpu: int) -> dict[str, Any]:
    return {
        "name": name,
        "queue": name[0],
        "priority": 0,
        "usage": {"default/cpu": cpu},
        "requests": {"cpu": cpu},
        "reserved_at": "2026-11-20T20:27:44Z",
    }


def cases(kind: str) -> list[Any]:
    return [pytest.param(case, id=case["case"]) for case in load(HERE / f"{kind}.json")]


@pytest.mark.parametrize("case", cases("quota_tree"))
def test_what_a_queue_may_still_use_and_could_ever_use(case: dict[str, Any]) -> None:
    assert KINDS["quota_tree"](case) is None


@pytest.mark.parametrize("case", cases("topology_placement"))
def test_pods_are_placed_as_close_together_as_wanted(case: dict[str, Any]) -> None:
    assert KINDS["topology_placement"](case) is None


@pytest.mark.parametrize("case", cases("preemption"))
def test_who_has_to_go_is_allowed_needed_and_as_few_as_wanted(case: dict[str, Any]) -> None:
    assert KINDS["preemption"](case) is None


def test_no_placement_case_is_left_out_unnoticed() -> None:
    assert len(cases("topology_placement")) == 64


@with_rows("name", "kind")
def test_the_name_of_a_file_tells_its_kind(name: str, kind: str | None) -> None:
    assert kind_of(Path(name)) == kind


def test_the_command_counts_what_passed_and_tells_what_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = load(HERE / "quota_tree.json")
    wrong = {**good[0], "case": "another answer", "available": {"a": {"f/cpu": 1}}}
    file = tmp_path / "quota_tree.unseen.json"
    file.write_text(json.dumps([*good, wrong, {"case": "no case at all"}]))

    assert main([str(file)]) == 1
    *told, last = capsys.readouterr().out.splitlines()
    assert last == f"{len(good)} passed, 2 failed"
    assert [line.split(": ")[1] for line in told] == ["another answer", "no case at all"]


@pytest.mark.parametrize("content", ["{", "{}", pytest.param("[" * 100_000, id="deep"), None])
def test_a_file_that_cannot_be_read_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None
) -> None:
    file = tmp_path / "quota_tree.json"
    if content is not None:
        file.write_text(content)

    assert main([str(file)]) == 1
    assert capsys.readouterr().out.endswith("0 passed, 1 failed\n")


def test_shares_of_kueue_are_not_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "dominant_share.json"
    file.write_text("[{}]")

    assert main([str(file)]) == 0
    assert capsys.readouterr().out.endswith("0 passed, 0 failed\n")


def test_a_cohort_may_be_named_by_its_queues_only_and_called_as_one_of_them() -> None:
    quotas = {"default/cpu": {"nominal": 1000, "borrowing_limit": None}}
    queues = [{"name": name, "parent": "a", "quotas": quotas} for name in ("a", "b")]
    case = {"queues": queues, "usage": {"b": {"default/cpu": 500}}, "available": {"a": {"default/cpu": 1500}}}

    assert KINDS["quota_tree"](case) is None


@with_rows("strategies", "goes")
def test_the_strategies_by_share_differ_in_the_last_who_goes(strategies: list[str], goes: list[str]) -> None:
    """Of 9 the incoming wants 4, 1 more than it deserves; b has 8, 5 more than it deserves, in large pieces."""
    case: dict[str, Any] = {
        "mode": "fair",
        "strategies": strategies,
        "queue": "a",
        "queues": [
            {"name": "a", "parent": "all", "quotas": {"default/cpu": {"nominal": 3}}, "preemption": ANY},
            {"name": "b", "parent": "all", "quotas": {"default/cpu": {"nominal": 3}}},
            {"name": "c", "parent": "all", "quotas": {"default/cpu": {"nominal": 3}}},
        ],
        "admitted": [admitted("b1", 2), admitted("c2", 1), admitted("b3", 3), admitted("b4", 3)],
        "incoming": {"name": "in", "priority": 0, "requests": {"cpu": 4}},
    }

    assert sorted(preemption.chosen(case)) == goes


def test_a_case_that_cannot_be_run_says_in_one_line_what_it_lacks() -> None:
    whole = load(HERE / "preemption.json")[0]

    assert judge("preemption", {**whole, "queues": None}) == "cannot be run: found no 'queues' in it"
    assert judge("preemption", ["no case"]) == "found list, expected a case"
    assert judge("topology_placement", {"pod_sets": []}) == (
        "found pod sets [], expected at least one, each with a name of its own"
    )
    assert judge("quota_tree", {"queues": []}) == (
        "found neither available nor potential, expected what each queue may use"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_fields_that_are_new_null_or_in_another_order_change_nothing(kind: str) -> None:
    for case in load(HERE / f"{kind}.json"):
        odd = {"new": {"field": [1]}, **dict(reversed(case.items())), "case": None}
        for listed in ("queues", "cohorts", "admitted", "nodes", "pods"):
            if listed in odd:
                odd[listed] = [{**each, "new": 1, "null": None} for each in reversed(odd[listed])]
        assert judge(kind, odd) is None, case["case"]


@with_rows("slices")
def test_slices_wider_than_the_level_of_their_pods_are_asked_by_mistake(slices: dict[str, Any]) -> None:
    labels = {"block": "b", "rack": "r", "host": "h"}
    case = {
        "levels": ["block", "rack", "host"],
        "nodes": [{"name": "h", "labels": labels, "allocatable": {"cpu": 4000, "pods": 10}}],
        "pod_sets": [{"name": "main", "count": 4, "requests": {"cpu": 1000}, "want": None, **slices}],
    }

    assert judge("topology_placement", case) is None
