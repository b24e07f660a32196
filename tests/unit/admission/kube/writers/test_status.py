"""When a status is written."""

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from admission.facts.workloads import ADMITTED, NO_CONDITION
from admission.kube.writers import status
from admission.kube.writers.status import StatusWriter
from admission.reconcile.status import (
    StatusCondition,
    StatusWanted,
    WorkloadStatus,
    admitted_condition,
)
from queues.api.api_resources import JOBS, POD_GROUPS, ObjectRef
from queues.errors import ApiRefused, ApiUnavailable
from queues.plan import Reason
from queues.reason_codes import ReasonCode
from tests.waiting import LIMIT, eventually, in_background

REF = ObjectRef(resource=POD_GROUPS, namespace="team", name="g", uid="uid-g")


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes do not wait for others to come."""
    for name in ("COALESCE", "BETWEEN_WRITES", "BETWEEN_NUMBERS"):
        monkeypatch.setattr(status, name, 0.0)


class Api:
    """Takes every patch."""

    def __init__(self) -> None:
        self.written: list[Any] = []
        self.asked = 0

    async def get(self, path: str) -> bytes:
        self.asked += 1
        return b'{"metadata": {"uid": "uid-j"}, "status": {"conditions": []}}'

    async def patch(self, path: str, body: dict[str, Any], **_: Any) -> bytes:
        self.written.append(body["status"])
        return msgspec.json.encode(body)


class ApiWithAnEarlierStatus(Api):
    """Another leader wrote a status after the object was listed without one."""

    def __init__(self) -> None:
        super().__init__()
        self.status: dict[str, Any] = {"state": "Open", "allocated": {"cpu": "8"}}

    async def patch(self, path: str, body: dict[str, Any], *, brief: bool, **_: Any) -> bytes:
        self.written.append(body["status"])
        self.status = {
            key: value for key, value in (self.status | body["status"]).items() if value is not None
        }
        return msgspec.json.encode(
            {"metadata": body["metadata"]} | ({} if brief else {"status": self.status})
        )


async def test_no_more_statuses_are_worked_out_than_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "BACKLOG", 2)
    api = Api()
    writer = StatusWriter(api, lambda: None)
    await writer.room()
    refs = [replace(REF, uid=f"uid-{number}") for number in range(2)]
    writer.submit(StatusWanted(ref=ref, fields={"phase": "Running"}, seen="") for ref in refs)
    waits = asyncio.create_task(writer.room())
    await asyncio.sleep(0)
    assert not waits.done()
    async with in_background(writer.run()):
        await asyncio.wait_for(waits, LIMIT)


async def test_objects_that_say_the_same_share_what_is_known_of_it_and_are_not_written_again() -> None:
    api = Api()
    writer = StatusWriter(api, lambda: None)
    waits = StatusCondition(type=ADMITTED, status="False", reason="QueueLimit", message="needs 2")
    wanted = [
        StatusWanted(ref=replace(REF, uid=f"uid-{number}"), conditions=(waits,), shared=True, seen="")
        for number in range(3)
    ]
    async with in_background(writer.run()):
        writer.submit(wanted)
        await eventually(
            lambda: len(api.written) == 3 and not any(each.busy for each in writer._known.values()),
            "the conditions",
        )
        same = replace(waits, message="needs 1")
        writer.submit(replace(each, conditions=(same,)) for each in wanted)
        assert not writer._waiting
    assert len({id(known.status) for known in writer._known.values()}) == 1


async def test_a_state_that_passes_is_not_written_and_one_that_lasts_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(status, "PASSING", 3600.0)
    api = Api()
    writer = StatusWriter(api, lambda: None)
    starts = StatusWanted(ref=REF, fields={"phase": "Inqueue"}, seen="", is_passing=True)
    async with in_background(writer.run()):
        writer.submit([starts])
        writer.submit([replace(starts, fields={"phase": "Running"}, is_passing=False)])
        await eventually(lambda: api.written, "the first status")
        monkeypatch.setattr(status, "PASSING", 0.0)
        writer.submit([starts])
        await eventually(lambda: len(api.written) == 2, "what lasts")
    assert [each["phase"] for each in api.written] == ["Running", "Inqueue"]


async def test_a_phase_does_not_wait_for_the_time_of_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "BETWEEN_NUMBERS", 3600.0)
    api = Api()
    writer = StatusWriter(api, lambda: None)
    async with in_background(writer.run()):
        writer.submit([StatusWanted(ref=REF, fields={"phase": "Running", "running": 2}, seen="")])
        await eventually(lambda: api.written, "the first status")
        writer.submit([StatusWanted(ref=REF, fields={"phase": "Running", "running": 1})])
        writer.submit([StatusWanted(ref=REF, fields={"phase": "Completed", "running": 0})])
        await eventually(lambda: len(api.written) == 2, "the phase")
    assert api.written[1] == {"phase": "Completed", "running": 0}


async def test_what_the_leader_before_wrote_after_the_list_is_taken_away() -> None:
    api = ApiWithAnEarlierStatus()
    writer = StatusWriter(api, lambda: None)
    async with in_background(writer.run()):
        writer.submit([StatusWanted(ref=REF, fields={"state": "Open"}, seen="")])
        await eventually(lambda: api.status == {"state": "Open"}, "nothing allocated")
        writer.submit([StatusWanted(ref=REF, fields={"state": "Closed"}, seen="")])
        await eventually(lambda: api.status == {"state": "Closed"}, "the queue to be closed")
    assert (len(api.written), api.asked) == (3, 0)


class ApiWithoutAnswers(Api):
    """Has the status of one object, and answers no write."""

    def __init__(self) -> None:
        super().__init__()
        self.status: dict[str, Any] = {}

    async def get(self, path: str) -> bytes:
        return msgspec.json.encode({"metadata": {"uid": REF.uid}, "status": self.status})

    async def patch(self, path: str, body: dict[str, Any], **_: Any) -> bytes:
        self.status |= body["status"]
        self.written.append(body["status"])
        raise ApiUnavailable(method="PATCH", path=path, status=0, reason="no answer")


async def test_a_status_is_written_back_after_a_write_without_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(status, "_AFTER_FAILURE", 0.2)
    api = ApiWithoutAnswers()
    api.status = {"used": "0"}
    writer = StatusWriter(api, lambda: None)
    async with in_background(writer.run()):
        for used in ("0", "8", "0"):
            writer.submit([StatusWanted(ref=REF, fields={"used": used})])
            await eventually(lambda used=used: api.status == {"used": used}, f"{used} in use")


@pytest.mark.parametrize(("told", "asked"), [(NO_CONDITION, 0), (None, 1), (("False", "QueueLimit"), 1)])
async def test_an_object_that_had_no_condition_is_not_asked_for_it(
    told: tuple[str, str] | None, asked: int
) -> None:
    reason = Reason(code=ReasonCode.QUEUE_PAUSED, message="queue a is paused")
    ref = ObjectRef(resource=JOBS, namespace="team", name="j", uid="uid-j")
    api = Api()
    writer = StatusWriter(api, lambda: None)
    async with in_background(writer.run()):
        waiting = WorkloadStatus(ref=ref, minimum=1, admitted=False, reason=reason, told=told)
        writer.submit([admitted_condition(waiting)])
        await eventually(lambda: api.written, "the condition")
    (written,) = api.written
    assert [(each["status"], each["reason"]) for each in written["conditions"]] == [("False", "QueuePaused")]
    assert api.asked == asked


class ApiWithAnotherObject(Api):
    """The object was deleted after its status was read, and another one has its name."""

    async def get(self, path: str) -> bytes:
        return msgspec.json.encode({"metadata": {"uid": REF.uid}})

    async def patch(self, path: str, body: dict[str, Any], **_: Any) -> bytes:
        self.written.append(body["status"])
        reason = f'Pod "g" is invalid: metadata.uid: Invalid value: "{REF.uid}": field is immutable'
        raise ApiRefused(method="PATCH", path=path, status=422, reason=reason, code="Invalid")


async def test_that_another_object_has_the_name_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    api = ApiWithAnotherObject()
    writer = StatusWriter(api, lambda: None)
    async with in_background(writer.run()):
        writer.submit([StatusWanted(ref=REF, fields={"used": "0"})])
        await eventually(lambda: REF.uid not in writer._known and api.written, "the object to be forgotten")
    assert not caplog.records
