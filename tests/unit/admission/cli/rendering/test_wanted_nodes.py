"""What waiting gangs lack in nodes: which count, how they are summed up, and how it is shown."""

from typing import Any

from msgspec import structs

from admission.cli.output import Output
from admission.cli.plugin.wanted_nodes import wanted_lines, wanted_table
from queues.read_api.bodies import ReasonBody, WaitingBody
from tests.fakes.fake_reader import waiting as pending

GPU = "nvidia.com/gpu"
NOW = "2026-11-21T10:00:00Z"
RACK = "topology.muster.dev/rack"


def waiting(
    code: str | None = "NoFit", queue: str = "train", created: str = "2026-11-21T09:00:00Z", **facts: Any
) -> WaitingBody:
    reason = None if code is None else ReasonBody(code=code, message="", facts=facts)
    return structs.replace(pending("a", 1), queue=queue, created=created, minimum=5, reason=reason)


def of(gpus: str, asked: int, **facts: Any) -> dict[str, Any]:
    return {"takes": {GPU: gpus, "cpu": "8", "pods": "1"}, "asked": asked, **facts}


def test_gangs_of_equal_pods_in_one_queue_are_one_line() -> None:
    [line] = wanted_lines(
        [
            waiting(**of("8", 4), created="2026-11-21T09:30:00Z"),
            waiting(**of("8", 16), created="2026-11-21T08:00:00Z"),
            waiting("Provisioning", **of("8", 2)),
        ]
    )
    assert (line.gangs, line.pods, line.largest) == (3, 22, 16)
    assert line.waiting_since == "2026-11-21T08:00:00Z"


def test_other_pods_another_level_and_another_queue_are_lines_of_their_own() -> None:
    lines = wanted_lines(
        [
            waiting(**of("8", 2)),
            waiting(**of("4", 3)),
            waiting("TopologyNoFit", **of("8", 4, level=RACK)),
            waiting(queue="dev", **of("8", 9)),
        ]
    )
    found = [(line.queue, line.each[GPU], line.in_one, line.pods) for line in lines]
    assert found == [
        ("dev", "8", None, 9),
        ("train", "8", RACK, 4),
        ("train", "4", None, 3),
        ("train", "8", None, 2),
    ]


def test_what_waits_for_quota_or_for_others_wants_no_nodes() -> None:
    assert wanted_lines([waiting("Provisioning", resource="example.com/gpu")]) == []
    codes = ("QueueLimit", "Reserved", "MakingRoom", "QueuePaused", "UnknownResource", None)
    assert wanted_lines([waiting(code, **of("8", 4)) for code in codes]) == []


def test_parts_of_a_gang_count_with_their_pods_and_unequal_pods_as_a_gang() -> None:
    parts, together = wanted_lines(
        [
            waiting("TopologyNoFit", **of("8", 3, size=4, level=RACK)),
            waiting("TopologyNoFit", sets={"head": 1, "worker": 4}, level=RACK),
        ]
    )
    assert (parts.pods, together.pods, together.each) == (12, 5, None)


def test_the_table_fits_80_columns_and_wide_has_all_that_a_pod_asks() -> None:
    long = "research-and-development-of-large-models-in-the-north"
    lines = wanted_lines([waiting(queue=long, **of("8", 4)), waiting("TopologyNoFit", sets={}, level=RACK)])
    text = wanted_table(lines, NOW, Output(width=80))
    assert all(len(line) <= 80 for line in text.splitlines())
    assert text.splitlines()[0].split() == ["QUEUE", "EACH", "PODS", "LARGEST", "GANGS", "IN-ONE", "WAIT"]
    assert text.splitlines()[2].split() == ["train", "unequal", "pods", "5", "5", "1", "rack", "60m"]
    wide = wanted_table(lines, NOW, Output(form="wide", headers=False))
    assert f"{long}   8 {GPU}, 8 cpu" in wide
    assert RACK in wide
