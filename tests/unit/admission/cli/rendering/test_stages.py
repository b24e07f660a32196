"""How far a workload came when, as a table."""

from typing import Any

from admission.cli.output import Output
from admission.cli.rendering.explanation import stages_text
from queues.read_api.bodies import StageBody


def stage(name: str, second: int, after: float | None, admission: int | None = None) -> StageBody:
    at = f"2026-11-21T08:00:{second:02}.250Z"
    return StageBody(stage=name, at=at, after_seconds=after, admission=admission)


def test_of_one_admission_no_number_is_shown(golden: Any) -> None:
    shown = stages_text([stage("created", 0, None), stage("admitted", 9, 192.4, 7)], Output())

    assert shown.splitlines() == golden


def test_of_several_admissions_the_last_two_are_shown_and_all_where_there_is_room(golden: Any) -> None:
    stages = [stage("created", 0, None), *(stage("bound", n, 0.44, n) for n in (7, 8, 9))]

    assert stages_text(stages, Output()).splitlines() == golden
    assert "        7   bound     2026-11-21T08:00:07.250Z   +0.4s" in stages_text(
        stages, Output(form="wide")
    )


def test_nothing_is_shown_of_what_is_not_known() -> None:
    assert stages_text([], Output(form="wide")) == ""
