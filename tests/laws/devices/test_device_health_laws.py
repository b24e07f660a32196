"""Laws of the health of devices over whatever is read and whatever happens, and bugs that break them."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from admission.agent.health import assessment, problems
from admission.agent.health.assessment import Marks
from admission.agent.remembered import AgentMemory
from admission.agent.xids import XidClass
from tests.laws.laws import device_health
from tests.laws.planted.bug import Bug, each_breaks_its_law
from tests.laws.worlds.device_health import History, histories
from tests.laws.worlds.settings import in_worlds

LAWS: tuple[Callable[[History], None], ...] = (
    device_health.a_device_with_a_certain_problem_is_never_healthy,
    device_health.a_device_is_well_again_when_the_driver_was_started_again,
    device_health.a_device_is_well_again_in_time_though_nothing_is_started,
    device_health.since_moves_only_with_the_status,
    device_health.an_assessment_depends_on_its_input_only,
    device_health.harmless_xids_change_nothing,
    device_health.an_agent_that_starts_again_goes_on_alike,
    device_health.nothing_is_written_while_no_condition_changes,
)

many = settings(in_worlds(150), suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_the_health_of_devices_keeps_the_law(law: Callable[[History], None]) -> None:
    many(given(histories)(law))()


# ── planted bugs ────────────────────────────────────────────────────────────────────────────────────────────────

_read, _condition, _faults = problems._of_reading, assessment._condition, problems.faults_after
_text = AgentMemory.text


def _lost_is_unknown(device: Any, *, hot: bool) -> Any:
    return {} if device.lost else _read(device, hot=hot)


def _remaps_are_not_read(device: Any, *, hot: bool) -> Any:
    return _read(replace(device, remapping=None), hot=hot)


def _since_now(before: Any, kind: Any, problem: Any, over: Any, now: int) -> Any:
    return replace(_condition(before, kind, problem, over, now), since=now)


def _told_now(*given: Any, now: int, **more: Any) -> Any:
    return tuple(replace(each, last=now) for each in _faults(*given, now=now, **more))


_seen: list[Any] = []


def _told_of_any(faults: Any, events: Any, device: Any, **more: Any) -> Any:
    _seen.extend(events)
    return _faults(faults, _seen[-2:], device, **more)


def _without(**forgotten: Any) -> Callable[[AgentMemory], str]:
    def text(memory: AgentMemory) -> str:
        health = {name: replace(each, **forgotten) for name, each in memory.health.items()}
        return _text(replace(memory, health=health))

    return text


BUGS = (
    Bug("a lost device is one of which nothing is known", problems, "_of_reading", _lost_is_unknown,
        device_health.a_device_with_a_certain_problem_is_never_healthy),
    Bug("failed remaps are not read", problems, "_of_reading", _remaps_are_not_read,
        device_health.a_device_with_a_certain_problem_is_never_healthy),
    Bug("marks are not read", assessment, "read_marks", lambda value, readings: Marks(),
        device_health.a_device_with_a_certain_problem_is_never_healthy),
    Bug("there is no way back from an XID", problems, "_is_over", lambda *_: False,
        device_health.a_device_is_well_again_when_the_driver_was_started_again),
    Bug("a start of the driver is not noticed", assessment, "_driver_started", lambda *_: False,
        device_health.a_device_is_well_again_when_the_driver_was_started_again),
    Bug("flapping lasts an hour", assessment, "DAMPING", 3600,
        device_health.a_device_is_well_again_when_the_driver_was_started_again),
    Bug("no time is quiet enough", problems, "QUIET", 10**9,
        device_health.a_device_is_well_again_in_time_though_nothing_is_started),
    Bug("since is the time of the assessment", assessment, "_condition", _since_now,
        device_health.since_moves_only_with_the_status),
    Bug("what happens to one device counts for the next", assessment, "faults_after", _told_of_any,
        device_health.an_assessment_depends_on_its_input_only),
    Bug("every XID counts", problems, "xid_class", lambda code: XidClass.RESET,
        device_health.harmless_xids_change_nothing),
    *(
        Bug(f"{part} are not stored", AgentMemory, "text", _without(**{part: nothing}),
            device_health.an_agent_that_starts_again_goes_on_alike)
        for part, nothing in (("faults", ()), ("changes", ()), ("idle_links", None))
    ),
    Bug("faults get the time of the assessment", assessment, "faults_after", _told_now,
        device_health.nothing_is_written_while_no_condition_changes),
)  # fmt: skip

test_a_planted_bug_breaks_its_law = each_breaks_its_law(BUGS, histories)
