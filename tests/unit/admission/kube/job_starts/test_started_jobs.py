"""Jobs of CronJobs and JobFlows, by their owner and by their template."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from admission.job_starts import cron_job_steps as cron_steps
from admission.job_starts import job_flow_steps as flow_steps
from admission.job_starts.job_flow import NetworkProbe, job_flow_fact
from admission.job_starts.owned_jobs import OwnedJob, owned_job
from admission.kube.client.client import Client
from admission.kube.job_starts import probes, started_jobs
from admission.kube.job_starts.probes import passing
from admission.kube.job_starts.started_jobs import StartedJobs
from admission.kube.job_starts.watched_kinds import template_fact
from admission.workloads.kinds.volcano_job import WireVolcanoJob
from queues.api.schedules.made_jobs import made_job_violations
from queues.api.validation.validation import violations_of
from tests.fakes.fake_api_server import FakeApiServer, answers
from tests.laws.worlds.settings import in_worlds
from tests.waiting import LIMIT

DECODER = msgspec.json.Decoder(WireVolcanoJob)


def document(name: str, owner: str | None = "flow", phase: str = "Running") -> msgspec.Raw:
    owners = [{"kind": "JobFlow", "name": "f", "uid": owner, "controller": True}] if owner else []
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "team",
        "uid": f"u-{name}",
        "ownerReferences": owners,
        "annotations": {"volcano.sh/created-by-jobtemplate": "team.a"},
    }
    body = {"metadata": metadata, "spec": {"tasks": []}, "status": {"state": {"phase": phase}}}
    return msgspec.Raw(msgspec.json.encode(body))


def seen(jobs: StartedJobs, raw: msgspec.Raw) -> None:
    jobs.seen(DECODER.decode(raw), raw)


def of(raw: msgspec.Raw) -> OwnedJob:
    job = owned_job(raw)
    assert job is not None
    return job


def test_jobs_are_found_by_owner_and_template_until_they_are_gone() -> None:
    jobs, changed = StartedJobs(), list[str]()
    jobs.changed = lambda owner, job: changed.append(f"{owner} {job.name}")
    seen(jobs, document("f-a"))
    seen(jobs, document("other", owner=None))
    assert [job.name for job in jobs.of_owner("flow")] == ["f-a"]
    assert jobs.of_template("team", "a") == ["f-a"]
    seen(jobs, document("f-a"))
    seen(jobs, document("f-a", phase="Completed"))
    assert [job.phase for job in jobs.of_owner("flow")] == ["Completed"]
    # A Job whose owner was taken away is not its Job any more.
    seen(jobs, document("f-a", owner=None))
    assert jobs.of_owner("flow") == []
    assert jobs.of_template("team", "a") == []
    assert changed == ["flow f-a"] * 3
    jobs.gone("u-unknown")


async def test_a_job_that_no_informer_shows_is_gone_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(started_jobs, "SHOWN_WITHIN", 0.02)
    jobs, gone = StartedJobs(), asyncio.Event()
    jobs.hand_in(of(document("shown")))
    jobs.hand_in(of(document("phantom")))
    seen(jobs, document("shown", phase="Pending"))
    jobs.changed = lambda owner, job: gone.set()
    await asyncio.wait_for(gone.wait(), LIMIT)
    assert [(job.name, job.phase) for job in jobs.of_owner("flow")] == [("shown", "Pending")]


async def test_what_is_handed_in_late_does_not_replace_what_is_shown() -> None:
    jobs = StartedJobs()
    seen(jobs, document("f-a", phase="Completed"))
    jobs.hand_in(of(document("f-a", phase="Pending")))
    assert [job.phase for job in jobs.of_owner("flow")] == ["Completed"]


# ── probes ──────────────────────────────────────────────────────────────────────────────────────────────────


PODS = "/api/v1/namespaces/team/pods"


def pod(name: str, owner: str = "job", phase: str = "Running", ip: str = "127.0.0.1", **metadata: Any) -> Any:
    owners = [{"kind": "Job", "name": "f-a", "uid": owner}]
    return {
        "metadata": {"name": name, "namespace": "team", "ownerReferences": owners, **metadata},
        "status": {"phase": phase, "podIP": ip},
    }


@asynccontextmanager
async def cluster(folder: Path, *pods: Any) -> AsyncIterator[tuple[FakeApiServer, Client]]:
    async with FakeApiServer() as server:
        for pod in pods:
            await server.put(PODS, pod)
        async with await Client.connect(server.kubeconfig(folder)) as client:
            yield server, client


@asynccontextmanager
async def answering() -> AsyncIterator[int]:
    """A pod's port: /ok answers, /moved leads to it, /broken fails, /slow says nothing."""

    async def answer(request: web.Request) -> web.Response:
        match request.path:
            case "/slow":
                await asyncio.Event().wait()
            case "/moved":
                raise web.HTTPFound("http://127.0.0.1:1/elsewhere")
        return web.Response(status=200 if request.path == "/ok" else 500)

    application = web.Application()
    application.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.05, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def probe(port: int, path: str = "", needed: int = 1) -> NetworkProbe:
    return NetworkProbe("f-a", "job", "server", needed, port, path)


async def test_an_answer_counts_if_it_comes_in_time_and_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "ANSWER_SECONDS", 0.3)
    async with answering() as port, cluster(tmp_path, pod("p")) as (server, client):
        asked = {path: probe(port, path) for path in ("", "/ok", "/moved", "/broken", "/slow")}
        found = await passing(client, "team", asked.values())
        assert {path for path, each in asked.items() if each in found} == {"", "/ok", "/moved"}
        assert server.seen("LIST")[0].query["labelSelector"] == (
            "volcano.sh/job-name=f-a,volcano.sh/task-spec=server"
        )
    async with cluster(tmp_path, pod("p")) as (_, client):
        closed = probe(port), probe(port, "/ok")
        assert await passing(client, "team", closed) == frozenset()


@pytest.mark.parametrize(
    "other",
    [
        pod("q", owner="another"),
        pod("q", phase="Pending"),
        pod("q", ip=""),
        pod("q", ip="169.254.169.254"),
        pod("q", ip="localhost"),
        pod("q", deletionTimestamp="2026-03-01T00:00:00Z"),
    ],
)
async def test_pods_that_do_not_run_for_the_job_do_not_count(tmp_path: Path, other: Any) -> None:
    async with answering() as port, cluster(tmp_path, pod("p"), other) as (_, client):
        one, two = probe(port, "/ok"), probe(port, "/ok", needed=2)
        assert await passing(client, "team", [one, two]) == {one}


async def test_two_pods_are_needed_where_two_have_to_start_together(tmp_path: Path) -> None:
    async with answering() as port, cluster(tmp_path, pod("p"), pod("q")) as (_, client):
        two, three = probe(port, "/ok", needed=2), probe(port, needed=3)
        assert await passing(client, "team", [two, three]) == {two}


async def test_pods_that_cannot_be_listed_do_not_pass(tmp_path: Path) -> None:
    async with answering() as port, cluster(tmp_path, pod("p")) as (server, client):
        server.once("LIST", answers(403, "no", "Forbidden"))
        assert await passing(client, "team", [probe(port)]) == frozenset()
        assert await passing(client, "team", []) == frozenset()


# ── anything in their fields ────────────────────────────────────────────────────────────────────────────────


#: What a document may hold where its definition does not look, or an older definition did not.
ANYTHING = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False, allow_infinity=False),
        st.sampled_from(
            ["", "a", "* * * * *", "0 0 31 2 *", "@every 1ns", "Europe/Berlin", "x" * 300, "\0\n"]
        ),
        st.text(max_size=8),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
FIELDS = [
    "schedule timeZone startingDeadlineSeconds concurrencyPolicy suspend jobTemplate successfulJobsHistoryLimit",
    "failedJobsHistoryLimit flows name dependsOn targets probe strategy httpGetList tcpSocketList taskStatusList",
    "taskName port path httpHeader phase value patch jobSpec spec jobRetainPolicy tasks replicas minAvailable",
    "template metadata labels annotations containers queue plugins priorityClassName state jobStatusList active",
    "conditions lastScheduleTime runningHistories startTimestamp uid ownerReferences controller kind",
]
KEYS = st.sampled_from(" ".join(FIELDS).split())


def parts(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(ANYTHING, st.dictionaries(KEYS, inner, max_size=5), st.lists(inner, max_size=3))


PART = parts(parts(parts(parts(ANYTHING))))
SPEC = st.dictionaries(KEYS, PART, max_size=8)
#: As the API server itself writes it.
METADATA = {"name": "x", "namespace": "team", "uid": "u", "creationTimestamp": "2026-03-01T00:00:00Z"}


def job() -> Any:
    owner = {"kind": "CronJob", "name": "x", "uid": "u", "controller": True}
    found = owned_job(json.dumps({"metadata": {**METADATA, "ownerReferences": [owner]}}).encode())
    assert found is not None
    return found


@given(spec=SPEC, status=SPEC)
@in_worlds(120)
def test_no_cron_job_raises(spec: Any, status: Any) -> None:
    document = {"metadata": METADATA, "spec": spec, "status": status}
    violations_of({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "CronJob", **document})
    fact = cron_steps.cron_job_fact(document)
    found = cron_steps.step(fact, [job()], fact.created + 10_000_000)
    cron_steps.status_of(fact, [job()])
    if found.start is not None:
        made_job_violations(cron_steps.job_document(fact, found.start, namespace_queue=None))


@given(spec=SPEC, status=SPEC, template=SPEC)
@in_worlds(120)
def test_no_job_flow_raises(spec: Any, status: Any, template: Any) -> None:
    flows = [{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}, **spec}]
    for each in (spec, {"flows": flows}):
        document = {"metadata": METADATA, "spec": each, "status": status}
        violations_of({"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", **document})
        fact = job_flow_fact(document)
        templates = {"a": template_fact({"metadata": METADATA, "spec": template}).spec}
        found = flow_steps.step(fact, {"x-a": job()}, {**templates, "b": template})
        found = flow_steps.step(fact, {}, {**templates, "b": template})
        for start in found.starts:
            made_job_violations(start)
        msgspec.json.encode(found.status)


@given(document=st.fixed_dictionaries({"metadata": SPEC, "spec": PART, "status": PART}))
@in_worlds(100)
def test_no_job_raises(document: Any) -> None:
    owned_job(json.dumps(document).encode())
