"""What the webhook answers to what is made to harm it."""

import asyncio
from typing import Any, NamedTuple, cast

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from admission.kube.webhook import review as webhook
from admission.kube.webhook.review import (
    MOST_REVIEWS,
    MOST_WAITING,
    InvalidReview,
    app,
    authorize,
    mutate,
    validate,
)
from admission.kube.webhook.watched_objects import WatchedObjects
from queues.api.api_resources import QUEUES, ApiResource
from queues.api.validation.known import Known
from queues.quota.queue import Queue
from queues.workload import QueueName
from tests.waiting import LIMIT

NOBODY = cast(WatchedObjects, None)


def review(depth: int) -> bytes:
    template = b'{"a":' * depth + b"1" + b"}" * depth
    return (
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE",'
        b'"object":{"apiVersion":"v1","kind":"Unknown","spec":' + template + b"}}}"
    )


async def test_an_object_that_is_nested_too_deeply_is_refused() -> None:
    answer = await validate(review(5000), NOBODY)
    assert answer.uid == "u"
    assert answer.refusals == ("found nesting deeper than 200 levels, expected less",)
    assert mutate(review(5000)).patch == ()


@pytest.mark.parametrize("entry", ["{}", '{"name":"a"}', "7"])
async def test_a_job_of_more_tasks_than_can_be_considered_is_refused_before_any_of_them_is_read(
    entry: str,
) -> None:
    tasks = ",".join([entry] * 75_000)
    job = f'{{"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","spec":{{"tasks":[{tasks}]}}}}'
    review = (
        '{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE",'
        f'"object":{job}}}}}'
    ).encode()
    nothing = cast(WatchedObjects, NothingKnown())
    assert (await validate(review, nothing)).refusals == (
        "spec.tasks: found 75000 entries, expected at most 256",
    )
    assert mutate(review).patch == ()


async def test_a_zero_for_which_a_default_is_filled_in_is_warned_of() -> None:
    template = {"spec": {"containers": [{"name": "main", "image": "x"}]}}
    spec = {"maxRetry": 0, "tasks": [{"name": "w", "replicas": 1, "maxRetry": 0, "template": template}]}
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "a"}, "spec": spec}
    asked = {"uid": "u", "operation": "CREATE", "object": job}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}
    answer = await validate(msgspec.json.encode(body), cast(WatchedObjects, NothingKnown()))
    assert [text.partition(":")[0] for text in answer.warnings] == ["spec.maxRetry", "spec.tasks[0].maxRetry"]
    assert all("0 counts as 3, as in Volcano" in text for text in answer.warnings)
    del spec["maxRetry"], spec["tasks"][0]["maxRetry"]
    answer = await validate(msgspec.json.encode(body), cast(WatchedObjects, NothingKnown()))
    assert answer.warnings == ()


async def test_a_flow_is_compared_with_the_templates_that_it_patches() -> None:
    """Each is read once, and only the first few."""
    template = {"spec": {"containers": [{"name": "main", "image": "x"}]}}
    tasks = [{"name": "w", "replicas": 1, "template": template}]
    larger = {"jobSpec": {"tasks": [{"name": "w", "replicas": 3}]}}
    flows = [{"name": "as-it-is"}, *({"name": f"t{number}", "patch": larger} for number in range(9))]
    asked = []

    class Small(NothingKnown):
        def known(self, namespace: str) -> Known:
            team = Queue(name=QueueName("default"), max_gang=2)
            return Known(queues={"default": team})

        async def find_job_template(self, namespace: str, name: str) -> dict[str, Any] | None:
            asked.append((namespace, name))
            return {"tasks": tasks} if name == "t1" else None

    flow = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", "metadata": {"name": "f"}}
    request = {
        "uid": "u",
        "operation": "CREATE",
        "namespace": "ns",
        "object": {**flow, "spec": {"flows": flows}},
    }
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    answer = await validate(msgspec.json.encode(body), cast(WatchedObjects, Small()))
    assert answer.warnings == (
        "spec.flows[2].patch.spec.tasks[0].replicas: found 3 pods, expected at most 2: it never fits, "
        "for queue default allows no more in one gang",
    )
    assert asked == [("ns", f"t{number}") for number in range(4)]


class NothingKnown:
    """A replica that knows nothing of the cluster."""

    def known(self, namespace: str) -> Known:
        return Known()


class Connection(NamedTuple):
    """A request whose handler has begun: the server has asked for the body."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def begun(cls, port: int) -> "Connection":
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = (
            "POST /validate HTTP/1.1",
            "Host: a",
            "Content-Length: 2",
            "Expect: 100-continue",
            "Connection: close",
        )
        writer.write("".join(f"{line}\r\n" for line in (*head, "")).encode())
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        return cls(reader, writer)

    def send(self) -> None:
        self.writer.write(b"{}")

    async def status(self) -> int:
        line = await self.reader.readline()
        self.writer.close()
        return int(line.split()[1])


async def test_so_many_reviews_are_answered_at_a_time_so_many_wait_and_more_are_sent_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(webhook, "RECEIVE_SECONDS", 60.0)
    runner = web.AppRunner(app(NOBODY), shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        taken = [await Connection.begun(port) for _ in range(MOST_REVIEWS)]
        waiting = [await Connection.begun(port) for _ in range(MOST_WAITING)]
        for each in waiting:
            each.send()
        answers = [asyncio.create_task(each.status()) for each in waiting]
        async with asyncio.timeout(LIMIT):
            assert await (await Connection.begun(port)).status() == 429
        assert not any(answer.done() for answer in answers), "they wait until a place is free"
        taken[0].send()
        # An empty document is no review.
        assert set(await asyncio.gather(*answers, taken[0].status())) == {400}
    finally:
        for each in taken:
            each.writer.close()
        await runner.cleanup()


# -- writes of those who are no platform administrators --------------------------------------------------------------


class TwoTenants(NothingKnown):
    """A replica that can list the Queues of two tenants."""

    async def list_documents(self, resource: ApiResource) -> dict[str, dict[str, Any]]:
        if resource is not QUEUES:
            return {"earlier": a_reservation("a-one", 1)}
        above = {"spec": {"parent": "root", "access": {"admins": [{"group": "leads"}]}}}
        one = {"spec": {"parent": "a", "deserved": {"nvidia.com/gpu": "16"}}}
        return {"a": above, "a-one": one, "b": {"spec": {"parent": "root"}}}

    def node_shapes(self) -> list[dict[str, int]]:
        return [{"nvidia.com/gpu": 8000}]


async def authorized(**request: Any) -> dict[str, Any]:
    body = msgspec.json.encode(
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "u",
                "userInfo": {"username": "ann", "groups": ["leads"], "uid": "1"},
                **request,
            },
        }
    )
    answer = await authorize(body, cast(WatchedObjects, TwoTenants()))
    return cast(dict[str, Any], msgspec.json.decode(answer.encoded())["response"])


def a_queue(name: str, parent: str) -> dict[str, Any]:
    version = "scheduling.volcano.sh/v1beta1"
    return {"apiVersion": version, "kind": "Queue", "metadata": {"name": name}, "spec": {"parent": parent}}


def a_reservation(queue: str, gpus: int) -> dict[str, Any]:
    window = {"from": "2027-01-15T12:00:00Z", "for": "4h"}
    return {
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": "night"},
        "spec": {"queue": queue, "resources": {"nvidia.com/gpu": str(gpus)}, **window},
    }


async def test_who_administers_a_queue_reserves_for_it_what_is_left_of_its_share() -> None:
    mine = a_reservation("a-one", 8)
    assert (await authorized(operation="CREATE", object=mine))["allowed"] is True
    assert (await authorized(operation="DELETE", name="night", object=None, oldObject=mine))[
        "allowed"
    ] is True
    told = await authorized(operation="CREATE", object=a_reservation("a-one", 9))
    assert "found 24 nvidia.com/gpu on whole nodes reserved for queue a-one" in told["status"]["message"]
    for operation, now, before in (
        ("CREATE", a_reservation("b", 1), None),
        ("UPDATE", mine, a_reservation("b", 1)),
        ("DELETE", None, a_reservation("b", 1)),
    ):
        told = await authorized(operation=operation, name="night", object=now, oldObject=before)
        assert (told["allowed"], told["status"]["code"]) == (False, 403)
        assert told["status"]["message"].startswith("reservation night: ann may not reserve for queue b")
    told = await authorized(
        operation="UPDATE", name="night", subResource="status", object=mine, oldObject=mine
    )
    assert told["status"]["message"].startswith("reservation night: found a status written by ann")


async def test_who_is_named_above_a_queue_writes_it_and_is_forbidden_others() -> None:
    mine, theirs = a_queue("a-one", "a"), a_queue("b-one", "b")
    assert (await authorized(operation="CREATE", object=a_queue("a-two", "a")))["allowed"] is True
    assert (await authorized(operation="UPDATE", name="a-one", object=mine, oldObject=mine))[
        "allowed"
    ] is True
    assert (await authorized(operation="DELETE", name="a-one", object=None, oldObject=mine))[
        "allowed"
    ] is True
    for operation, now, before in (
        ("CREATE", theirs, None),
        ("UPDATE", theirs, theirs),
        ("DELETE", None, theirs),
    ):
        told = await authorized(operation=operation, name="b-one", object=now, oldObject=before)
        assert (told["allowed"], told["status"]["code"], told["status"]["reason"]) == (
            False,
            403,
            "Forbidden",
        )
        assert told["status"]["message"].startswith("queue b-one: ann may not change it")


async def test_nobody_but_muster_writes_a_status() -> None:
    mine = a_queue("a-one", "a")
    told = await authorized(
        operation="UPDATE", name="a-one", subResource="status", object=mine, oldObject=mine
    )
    assert "expected one of Muster only" in told["status"]["message"]


@pytest.mark.parametrize(("target", "allowed"), [("a-one", True), ("a", False), ("b", False), ("", False)])
async def test_a_command_is_for_a_queue_of_the_tenant(target: str, allowed: bool) -> None:
    command = {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"name": "c"},
        "target": {"kind": "Queue", "name": target},
    }
    assert (await authorized(operation="CREATE", object=command))["allowed"] is allowed


async def test_what_is_neither_a_queue_nor_a_command_is_not_answered_with_yes() -> None:
    with pytest.raises(InvalidReview, match="an object of kind 'Pod'"):
        await authorized(operation="CREATE", object={"apiVersion": "v1", "kind": "Pod"})
    told = await authorize(review(5000), cast(WatchedObjects, TwoTenants()))
    assert told.refusals


async def test_a_review_that_is_given_up_is_a_line_in_the_log_and_no_defect(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def reset(self: web.Request) -> bytes:
        raise ConnectionResetError("Cannot read: the connection was closed")

    monkeypatch.setattr(web.Request, "read", reset)
    caplog.set_level("INFO", "admission.kube.webhook.review")
    handle = next(iter(app(NothingKnown()).router.routes())).handler
    with pytest.raises(web.HTTPRequestTimeout):
        await handle(make_mocked_request("POST", "/mutate"))
    (line,) = (record for record in caplog.records if record.name == "admission.kube.webhook.review")
    assert (line.levelname, line.exc_info) == ("INFO", None)
