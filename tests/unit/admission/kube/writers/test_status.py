"""When a status is written."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from admission.kube.writers import status
from admission.kube.writers.status import StatusWriter
from admission.reconcile.status import StatusWanted
from queues.api.api_resources import POD_GROUPS, ObjectRef
from tests.waiting import eventually

REF = ObjectRef(resource=POD_GROUPS, namespace="team", name="g", uid="uid-g")


class Api:
    """Takes every patch."""

    def __init__(self) -> None:
        self.written: list[Any] = []

    async def patch(self, path: str, body: dict[str, Any], **_: Any) -> bytes:
        self.written.append(body["status"])
        return b"{}"


async def test_no_more_statuses_are_worked_out_than_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "BACKLOG", 2)
    monkeypatch.setattr(status, "COALESCE", 0.0)
    api = Api()
    writer = StatusWriter(api, lambda: None)
    await writer.room()
    refs = [replace(REF, uid=f"uid-{number}") for number in range(2)]
    writer.submit(StatusWanted(ref=ref, fields={"phase": "Running"}, seen="") for ref in refs)
    waits = asyncio.create_task(writer.room())
    await asyncio.sleep(0)
    assert not waits.done()
    task = asyncio.create_task(writer.run())
    try:
        await asyncio.wait_for(waits, 10)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_phase_does_not_wait_for_the_time_of_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("COALESCE", 0.0), ("BETWEEN_WRITES", 0.0), ("BETWEEN_NUMBERS", 3600.0)):
        monkeypatch.setattr(status, name, seconds)
    api = Api()
    writer = StatusWriter(api, lambda: None)
    task = asyncio.create_task(writer.run())
    try:
        writer.submit([StatusWanted(ref=REF, fields={"phase": "Running", "running": 2}, seen="")])
        await eventually(lambda: api.written, "the first status")
        writer.submit([StatusWanted(ref=REF, fields={"phase": "Running", "running": 1})])
        writer.submit([StatusWanted(ref=REF, fields={"phase": "Completed", "running": 0})])
        await eventually(lambda: len(api.written) == 2, "the phase")
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    assert api.written[1] == {"phase": "Completed", "running": 0}
