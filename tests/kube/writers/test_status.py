"""Statuses, conditions and events on a real API server; the condition by which root says why nothing is decided."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from admission.kube.client.client import Client
from admission.kube.writers import events as event_writer
from admission.kube.writers import status as status_writer
from admission.kube.writers.events import EventWriter
from admission.kube.writers.rate_limit import BUSY_LOOK
from admission.kube.writers.status import COALESCE, StatusWriter, write_deciding_condition
from admission.reconcile.status import (
    EventNote,
    WorkloadStatus,
    admitted_condition,
    job_status,
    pod_group_status,
)
from admission.volcano_jobs.lifecycle import advance
from admission.volcano_jobs.state import JobState
from admission.volcano_jobs.view import JobView
from queues.api.api_resources import JOBS, POD_GROUPS, PODS, ObjectRef
from queues.errors import Fenced
from queues.plan import Reason
from queues.reason_codes import ReasonCode
from tests import waiting
from tests.fakes.fake_api_server import FakeApiServer, answers, says
from tests.kube.support.posted_volcano_jobs import eventually, listed, plain, submitted
from tests.waiting import in_background

LIMIT = Reason(code="QueueLimit", message="needs 32, queue has 12")
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/{}/podgroups"


async def seen(api: Client, path: str, look: Callable[[Any], Any]) -> Any:
    async def found() -> Any:
        return look(json.loads(await api.get(path)).get("status") or {})

    return await eventually(found)


async def new_group(api: Client, namespace: str) -> ObjectRef:
    made = json.loads(
        await api.create(
            GROUPS.format(namespace),
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "PodGroup",
                "metadata": {"name": "g"},
                "spec": {"minMember": 4},
            },
        )
    )
    return ObjectRef(resource=POD_GROUPS, namespace=namespace, name="g", uid=made["metadata"]["uid"])


def writes(api: Client, made: str = "PATCH") -> int:
    return sum(count for (verb, _, _), count in api.counts.items() if verb == made)


async def test_statuses_and_events_wait_while_pods_are_let_go(
    api: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for writer in (status_writer, event_writer):
        monkeypatch.setattr(writer, "HOLD", 3600.0)
    ref = await new_group(api, namespace)
    busy, asked = True, 0

    def is_busy() -> bool:
        nonlocal asked
        asked += 1
        return busy

    status = StatusWriter(api, lambda: None, busy=is_busy)
    events = EventWriter(api, lambda: None, instance="t", busy=is_busy)
    before = {verb: writes(api, verb) for verb in ("PATCH", "POST")}

    def written() -> tuple[int, ...]:
        return tuple(writes(api, verb) - count for verb, count in before.items())

    async with in_background(status.run()), in_background(events.run()):
        status.submit([pod_group_status(WorkloadStatus(ref=ref, minimum=4, admitted=False))])
        events.tell(EventNote(ref=ref, reason="Admitted", message="4 seats", action="Admit"))
        await waiting.eventually(lambda: asked > 5 * COALESCE / BUSY_LOOK, "some looks")
        assert written() == (0, 0)
        busy = False
        await waiting.eventually(lambda: written() == (1, 1), "both writes")


async def test_a_group_without_pods_is_pending_and_says_so(api: Client, namespace: str) -> None:
    ref = await new_group(api, namespace)
    status = StatusWriter(api, lambda: None)

    async with in_background(status.run()):
        status.submit([pod_group_status(WorkloadStatus(ref=ref, minimum=4, admitted=False, seen=""))])
        told = await seen(api, ref.path, lambda status: status)

    assert told["phase"] == "Pending"
    (condition,) = told["conditions"]
    assert (condition["type"], condition["message"]) == ("Unschedulable", "0 of 4 pods exist")


async def test_changes_that_come_together_are_one_write_and_the_same_again_is_none(
    api: Client, namespace: str
) -> None:
    ref = await new_group(api, namespace)
    status = StatusWriter(api, lambda: None)
    before = writes(api)

    def group(count: int) -> WorkloadStatus:
        return WorkloadStatus(ref=ref, minimum=4, admitted=True, running=count, bound=count, seen="")

    async with in_background(status.run()):
        for count in range(5):
            status.submit([pod_group_status(group(count))])
        await seen(api, ref.path, lambda status: status.get("running") == 4)
        await waiting.eventually(lambda: writes(api) == before + 1, "the answer")
        assert writes(api) - before == 1

        status.submit([pod_group_status(replace(group(4), seen="Running"))])
        assert not status._waiting
        assert writes(api) - before == 1


async def test_the_next_leader_reads_first_and_writes_only_what_differs(api: Client, namespace: str) -> None:
    ref = await new_group(api, namespace)
    workload = WorkloadStatus(ref=ref, minimum=4, admitted=False, reason=LIMIT, seen="")
    first, second = StatusWriter(api, lambda: None), StatusWriter(api, lambda: None)
    async with in_background(first.run()):
        first.submit([pod_group_status(workload)])
        before = await seen(api, ref.path, lambda status: status)

    count = writes(api)
    async with in_background(second.run()):
        second.submit([pod_group_status(replace(workload, seen=None))])
        second.submit([pod_group_status(replace(workload, seen=None, failed=1))])
        after = await seen(api, ref.path, lambda status: status if status.get("failed") else None)

    assert writes(api) - count == 1
    assert after["conditions"] == before["conditions"]


async def test_a_volcano_job_shows_phase_counts_and_what_is_not_supported(
    api: Client, namespace: str
) -> None:
    spec = await submitted(api, namespace, plain(policies=[{"event": "PodFailed", "action": "RestartJob"}]))
    view = JobView(spec=spec)
    state = advance(JobState(uid=spec.uid), view, 60)
    status = StatusWriter(api, lambda: None)

    async with in_background(status.run()):
        wanted = job_status(view, state, reason=LIMIT, seen="")
        status.submit([wanted])
        told = await seen(api, wanted.ref.path, lambda status: status)

    assert {key: wanted.fields[key] for key in told} == told
    assert told.keys() == wanted.fields.keys()


async def test_a_suspended_job_and_a_gated_pod_say_why_they_wait_beside_what_others_say(
    api: Client, namespace: str
) -> None:
    container = {"name": "c", "image": "i"}
    job = json.loads(
        await api.create(
            f"/apis/batch/v1/namespaces/{namespace}/jobs",
            {
                "metadata": {"name": "j"},
                "spec": {
                    "suspend": True,
                    "template": {"spec": {"containers": [container], "restartPolicy": "Never"}},
                },
            },
        )
    )
    pod = json.loads(
        await api.create(
            f"/api/v1/namespaces/{namespace}/pods",
            {
                "metadata": {"name": "p"},
                "spec": {"containers": [container], "schedulingGates": [{"name": "muster.dev/admission"}]},
            },
        )
    )
    refs = (
        ObjectRef(resource=JOBS, namespace=namespace, name="j", uid=job["metadata"]["uid"]),
        ObjectRef(resource=PODS, namespace=namespace, name="p", uid=pod["metadata"]["uid"]),
    )
    others = {"Job": "Suspended", "Pod": "PodScheduled"}
    status = StatusWriter(api, lambda: None)

    async with in_background(status.run()):
        waiting = [WorkloadStatus(ref=ref, minimum=1, admitted=False, reason=LIMIT) for ref in refs]
        status.submit(admitted_condition(one) for one in waiting)
        for ref in refs:

            def both(status: Any, other: str = others[ref.resource.kind]) -> Any:
                found = {one["type"]: one for one in status.get("conditions", [])}
                return found if {"muster.dev/Admitted", other} <= found.keys() else None

            found = await seen(api, ref.path, both)
            assert found["muster.dev/Admitted"]["status"] == "False"
            assert found["muster.dev/Admitted"]["message"] == LIMIT.message


async def test_what_cannot_be_written_does_not_stop_the_others(api: Client, namespace: str) -> None:
    ref = await new_group(api, namespace)
    status = StatusWriter(api, lambda: None)
    gone = replace(ref, name="gone", uid="gone")
    other = replace(ref, uid="another-object-of-this-name")

    async with in_background(status.run()):
        status.submit(
            pod_group_status(WorkloadStatus(ref=one, minimum=4, admitted=False, seen=""))
            for one in (gone, other, ref)
        )
        assert await seen(api, ref.path, lambda status: status.get("phase")) == "Pending"


async def test_a_leader_whose_lease_is_over_tells_nothing(api: Client, namespace: str) -> None:
    def over() -> None:
        raise Fenced(term=1, holder="me", reason="its lease ran out")

    ref = await new_group(api, namespace)
    status = StatusWriter(api, over)
    status.submit([pod_group_status(WorkloadStatus(ref=ref, minimum=4, admitted=False, seen=""))])

    with pytest.raises(ExceptionGroup) as caught:
        await status.run()

    assert caught.group_contains(Fenced)
    assert "status" not in json.loads(await api.get(ref.path))


async def test_an_event_is_told_once_until_something_else_happens(api: Client, namespace: str) -> None:
    ref = await new_group(api, namespace)
    events, before = EventWriter(api, lambda: None, instance="me"), writes(api, "POST")

    def note(reason: str) -> EventNote:
        return EventNote(ref=ref, reason=reason, message=f"because {reason}", action="Admit")

    async with in_background(events.run()):
        for reason in ("QueueLimit", "QueueLimit", "Admitted", "QueueLimit"):
            events.tell(note(reason))

        async def all_told() -> Any:
            found = await listed(api, namespace, "events")
            told = sorted(one["reason"] for one in found if one["involvedObject"]["uid"] == ref.uid)
            return told if len(told) >= 2 and writes(api, "POST") >= before + 2 else None

        assert await eventually(all_told) == ["Admitted", "QueueLimit"]


ROOT = b'{"metadata": {"name": "root", "uid": "u1"}, "status": {"state": "Open", "conditions": [%s]}}'
FAILING = Reason(code=ReasonCode.TURNS_FAIL, message="5 turns in a row ended with the same error: …")


async def test_other_conditions_stay_beside_it(server: FakeApiServer, client: Client) -> None:
    usable = b'{"type": "Usable", "status": "False", "reason": "QueueBroken"}'
    server.once("LIST", says(ROOT % usable))
    await write_deciding_condition(client, lambda: None, FAILING)
    (patch,) = server.seen("PATCH")
    assert patch.path.endswith("/queues/root/status")
    assert patch.body["metadata"]["uid"] == "u1"
    first, second = patch.body["status"]["conditions"]
    assert first["type"] == "Usable"
    assert (second["type"], second["status"], second["reason"]) == ("Deciding", "False", "TurnsFail")
    assert second["message"] == FAILING.message


async def test_what_is_said_already_is_not_written_again(server: FakeApiServer, client: Client) -> None:
    said = {"type": "Deciding", "status": "False", "reason": "TurnsFail", "message": FAILING.message}
    server.once("LIST", says(ROOT % msgspec.json.encode(said)))
    await write_deciding_condition(client, lambda: None, FAILING)
    assert server.seen("PATCH") == []


async def test_another_cause_takes_the_place_of_the_one_that_was_told(
    server: FakeApiServer, client: Client
) -> None:
    said = {"type": "Deciding", "status": "False", "reason": "TurnsFail", "message": "it tried another one"}
    server.once("LIST", says(ROOT % msgspec.json.encode(said)))
    await write_deciding_condition(client, lambda: None, FAILING)
    (patch,) = server.seen("PATCH")
    assert [each["message"] for each in patch.body["status"]["conditions"]] == [FAILING.message]


async def test_a_cluster_without_root_stops_nothing(server: FakeApiServer, client: Client) -> None:
    server.once("LIST", answers(404, "not found", "NotFound"))
    await write_deciding_condition(client, lambda: None, FAILING)
    assert server.seen("PATCH") == []


async def test_without_a_lease_nothing_is_said(server: FakeApiServer, client: Client) -> None:
    def fenced() -> None:
        raise Fenced(term=1, holder="me", reason="its lease ran out unrenewed")

    server.once("LIST", says(ROOT % b""))
    with pytest.raises(Fenced):
        await write_deciding_condition(client, fenced, FAILING)
    assert server.seen("PATCH") == []
