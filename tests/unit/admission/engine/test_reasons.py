"""Sentences of reasons."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from admission.engine.reasons import unknown_resource, with_room_alone
from queues.api.names import GROUP_MIN_MEMBER
from queues.plan import Reason
from queues.reason_codes import ReasonCode, advice_on
from queues.resources import GPU
from tests.builders.decided_work import a_workload, gpu_pods
from tests.tables import with_rows

OFFERED = ("pods", "cpu", "memory", "nvidia.com/gpu")


@with_rows("asked", "meant")
def test_a_resource_that_no_node_offers_is_told_with_the_one_that_may_be_meant(
    asked: str, meant: str
) -> None:
    told = unknown_resource(asked, OFFERED)
    assert told.message == f"no node offers {asked}; {meant}nodes offer cpu, memory, nvidia.com/gpu, pods"


@pytest.mark.parametrize(
    ("code", "facts", "says"),
    [
        (ReasonCode.NO_FIT, {"fit": 3}, ": up to 3 of 4 now"),
        (ReasonCode.NO_FIT, {"fit": 0}, ": none of 4 now"),
        (
            ReasonCode.QUEUE_LIMIT,
            {"limit": 8000, "used": 5000, "kept": 1000, "resource": GPU},
            ": up to 2 of 4 now",
        ),
        (ReasonCode.NEVER_FITS, {"limit": 3000, "used": 3000, "resource": GPU}, ": up to 3 of 4 at a time"),
        (ReasonCode.NEVER_FITS, {"limit": 500, "resource": GPU}, None),
        (ReasonCode.NO_FIT, {}, ""),
        (ReasonCode.QUEUE_PAUSED, {}, None),
    ],
)
def test_a_job_that_is_a_gang_by_default_says_how_many_of_its_pods_would_start_alone(
    code: ReasonCode, facts: Mapping[str, Any], says: str | None
) -> None:
    gang, reason = a_workload("train", gpu_pods(4)), Reason(code=code, message="why", facts=facts)
    assert with_room_alone(reason, gang) is reason, "it says itself that they start together"
    told = with_room_alone(reason, replace(gang, whole_by_default=True))
    words = f'let them start one by one (annotation {GROUP_MIN_MEMBER}: "1")'
    assert advice_on(code, told.facts).owner.endswith(f"{words}{says}") == (says is not None)
    assert (told is reason) == (says is None)
