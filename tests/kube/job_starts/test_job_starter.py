"""CronJobs and JobFlows on a real API server, without a webhook: what starts, once, whoever leads."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from aiohttp import web

from admission.kube.client.client import Client
from admission.kube.job_starts import job_starter
from admission.kube.job_starts.job_starter import JobStarter
from admission.kube.job_starts.started_jobs import StartedJobs
from admission.kube.watch.informers import Informers
from queues.api.api_resources import (
    JOB_FLOWS,
    JOB_TEMPLATES,
    PODS,
    VOLCANO_CRON_JOBS,
    VOLCANO_JOBS,
    ApiResource,
)
from queues.errors import Fenced
from tests import waiting
from tests.builders.volcano_jobs import document
from tests.kube.support.posted_volcano_jobs import eventually

Document = dict[str, Any]
SPEC: Document = {**document(plugins={})["spec"], "minAvailable": 1}


@dataclass
class Clock:
    """Seconds since the epoch, as the test says."""

    seconds: int

    def __call__(self) -> float:
        return float(self.seconds)


def at(text: str) -> int:
    return int(datetime.fromisoformat(f"{text}+00:00").timestamp())


class _Done(Exception):
    """Ends the task group."""


@asynccontextmanager
async def leading(
    api: Client, clock: Callable[[], float], check_lease: Callable[[], None] = lambda: None
) -> AsyncIterator[None]:
    """A leader that starts Jobs; each one knows nothing of those before it."""
    jobs = StartedJobs()
    informers = Informers(api, listeners={"volcano-jobs": jobs})
    starter = JobStarter(api, check_lease, jobs, now=clock, namespace_queues=dict, instance="test")
    try:
        async with asyncio.TaskGroup() as tasks:
            of_jobs = informers.by_name["volcano-jobs"]
            tasks.create_task(of_jobs.run())
            await of_jobs.synced.wait()
            tasks.create_task(starter.run())
            yield
            raise _Done
    except* _Done:
        pass


async def post(api: Client, kind: ApiResource, namespace: str, name: str, **content: Any) -> Document:
    async def create() -> bytes:
        # A kind may not be served yet right after its definition was created.
        return await api.create(
            kind.path(namespace),
            {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, **content},
        )

    return dict(json.loads(await eventually(create)))


async def cron_job(api: Client, namespace: str, name: str, **spec: Any) -> None:
    """Its last Job was started before the times of these tests."""
    content = {"schedule": "0 2 * * *", "jobTemplate": {"spec": SPEC}, "suspend": True, **spec}
    await post(api, VOLCANO_CRON_JOBS, namespace, name, spec=content)
    path = VOLCANO_CRON_JOBS.path(namespace, name)
    await api.patch(f"{path}/status", {"status": {"lastScheduleTime": "2026-03-01T02:00:00Z"}})
    await api.patch(path, {"spec": {"suspend": False}})


async def names(api: Client, namespace: str) -> list[str]:
    found = json.loads(await api.get(VOLCANO_JOBS.path(namespace)))["items"]
    return [job["metadata"]["name"] for job in found]


async def has_jobs(api: Client, namespace: str, *wanted: str) -> bool:
    return await names(api, namespace) == sorted(wanted)


async def status(api: Client, kind: ApiResource, namespace: str, name: str) -> Document:
    return dict(json.loads(await api.get(kind.path(namespace, name))).get("status") or {})


async def set_phase(api: Client, namespace: str, name: str, phase: str, **more: Any) -> None:
    body = {"status": {"state": {"phase": phase, "lastTransitionTime": "2026-03-02T03:00:00Z"}, **more}}
    await api.patch(f"{VOLCANO_JOBS.path(namespace, name)}/status", body)


FIRST, SECOND = (f"nightly-{at(f'2026-03-0{day} 02:00') // 60}" for day in (2, 3))


async def test_whoever_leads_starts_each_job_once(api: Client, namespace: str) -> None:
    clock = Clock(at("2026-03-02 02:00") - 1)
    async with leading(api, clock):
        await cron_job(api, namespace, "nightly")
        await asyncio.sleep(0)
        clock.seconds += 1
        await eventually(lambda: has_jobs(api, namespace, FIRST))
    # As if the last leader had crashed before it could write: the Job itself says so.
    path = VOLCANO_CRON_JOBS.path(namespace, "nightly")
    await api.patch(
        f"{path}/status", {"status": {"lastScheduleTime": "2026-03-01T02:00:00Z", "active": None}}
    )
    async with leading(api, clock):

        async def is_recorded() -> bool:
            found = await status(api, VOLCANO_CRON_JOBS, namespace, "nightly")
            return (
                found.get("lastScheduleTime") == "2026-03-02T02:00:00Z" and len(found.get("active", ())) == 1
            )

        await eventually(is_recorded)
        assert await names(api, namespace) == [FIRST]
    clock.seconds = at("2026-03-03 02:30")
    async with leading(api, clock):
        await eventually(lambda: has_jobs(api, namespace, FIRST, SECOND))


async def test_nothing_is_written_without_the_lease(api: Client, namespace: str) -> None:
    is_over = False

    def check_lease() -> None:
        if is_over:
            raise Fenced(term=1, holder="test", reason="its lease ran out")

    clock = Clock(at("2026-03-02 02:30"))
    is_over = True
    await cron_job(api, namespace, "nightly")
    try:
        async with leading(api, clock, check_lease):
            for _ in range(20):
                await asyncio.sleep(0.01)
    except* Fenced:
        pass
    assert await names(api, namespace) == []


async def test_what_slipped_in_without_a_webhook_says_so_and_blocks_nobody(
    api: Client, namespace: str
) -> None:
    task = {
        **SPEC["tasks"][0],
        "template": {"spec": {**SPEC["tasks"][0]["template"]["spec"], "nodeName": "n1"}},
    }
    bad = {"spec": {**SPEC, "tasks": [task]}}
    clock = Clock(at("2026-03-02 02:30"))
    async with leading(api, clock):
        await cron_job(api, namespace, "wrong", schedule="every day")
        await cron_job(api, namespace, "forbidden", jobTemplate=bad)
        await cron_job(api, namespace, "nightly")
        await post(
            api,
            JOB_FLOWS,
            namespace,
            "ring",
            spec={"flows": [{"name": "a", "dependsOn": {"targets": ["a"]}}]},
        )
        await eventually(lambda: has_jobs(api, namespace, FIRST))
        for name, words in (
            ("wrong", "expected a schedule such as"),
            ("forbidden", "Muster chooses the node"),
        ):

            async def says_so(name: str = name, words: str = words) -> bool:
                found = await status(api, VOLCANO_CRON_JOBS, namespace, name)
                [ready] = found.get("conditions") or [{"status": ""}]
                return ready["status"] == "False" and words in ready["message"]

            await eventually(says_so)

        async def flow_says_so() -> bool:
            found = await status(api, JOB_FLOWS, namespace, "ring")
            return "flows that depend on one another in a cycle" in str(found.get("conditions"))

        await eventually(flow_says_so)
        # Corrected, it goes.
        good = {"spec": {"jobTemplate": {"spec": {"tasks": SPEC["tasks"]}}}}
        await api.patch(VOLCANO_CRON_JOBS.path(namespace, "forbidden"), good)
        await eventually(lambda: has_jobs(api, namespace, FIRST, FIRST.replace("nightly", "forbidden")))


async def test_a_flow_starts_when_the_pods_of_its_target_answer(
    api: Client, namespace: str, monkeypatch: Any
) -> None:
    monkeypatch.setattr(job_starter, "PROBE_EVERY", 0.05)
    is_ready, asked = False, 0

    async def answer(request: web.Request) -> web.Response:
        nonlocal asked
        asked += request.headers.get("X-Probe") == "yes"
        # A redirect is not followed, and an error is none.
        return web.Response(status=200 if is_ready else 503)

    application = web.Application()
    application.router.add_get("/ready", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    probe = {
        "httpGetList": [
            {
                "taskName": "server",
                "path": "/ready",
                "port": port,
                "httpHeader": {"name": "X-Probe", "value": "yes"},
            }
        ],
        "tcpSocketList": [{"taskName": "server", "port": port}],
    }
    one = {**SPEC, "tasks": [{**SPEC["tasks"][0], "name": "server", "replicas": 1, "minAvailable": 1}]}
    for name in ("front", "back"):
        await post(api, JOB_TEMPLATES, namespace, name, spec=one)
    flows = [{"name": "back"}, {"name": "front", "dependsOn": {"targets": ["back"], "probe": probe}}]
    async with leading(api, Clock(at("2026-03-02 02:30"))):
        await post(api, JOB_FLOWS, namespace, "web", spec={"flows": flows})
        await eventually(lambda: has_jobs(api, namespace, "web-back"))
        await set_phase(api, namespace, "web-back", "Running")
        labels = {"volcano.sh/job-name": "web-back", "volcano.sh/task-spec": "server"}
        container = {"name": "main", "image": "server"}
        uid = json.loads(await api.get(VOLCANO_JOBS.path(namespace, "web-back")))["metadata"]["uid"]
        owner = {"apiVersion": VOLCANO_JOBS.api_version, "kind": "Job", "name": "web-back", "uid": uid}
        pod = {
            "metadata": {"name": "web-back-server-0", "labels": labels, "ownerReferences": [owner]},
            "spec": {"containers": [container], "schedulerName": "nobody"},
        }
        await api.create(PODS.path(namespace), {"apiVersion": "v1", "kind": "Pod", **pod})
        running = {"status": {"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}}
        await api.patch(f"{PODS.path(namespace, 'web-back-server-0')}/status", running, kind="strategic")
        await waiting.eventually(lambda: asked >= 2, "a second look")
        assert await names(api, namespace) == ["web-back"]
        is_ready = True
        await eventually(lambda: has_jobs(api, namespace, "web-back", "web-front"))
    await runner.cleanup()
