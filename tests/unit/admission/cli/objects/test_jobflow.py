"""What ``kubectl muster jobflow`` says and asks for, to the letter."""

import asyncio
from typing import Any

import pytest
import yaml

from admission.cli.completion import candidates
from admission.cli.objects import jobflow
from queues.api.api_resources import JOB_FLOWS, VOLCANO_JOBS
from tests.fakes.fake_api_server import FakeApiServer, answers
from tests.fakes.plugin import Asking, Plugin, Said

Document = dict[str, Any]

NOW = "2026-11-20T10:10:00+00:00"
FLOWS = JOB_FLOWS.path("ml")
JOBS = VOLCANO_JOBS.path("ml")


@pytest.fixture
def ask(plugin: Plugin, api_server: FakeApiServer) -> Asking:
    plugin.monkeypatch.setattr(jobflow, "_now", lambda: NOW)
    return plugin.at(api_server, "jobflow")


def flow(name: str, *steps: Document, **status: Any) -> Document:
    return {
        "apiVersion": "flow.volcano.sh/v1alpha1",
        "kind": "JobFlow",
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": f"uid-{name}",
            "creationTimestamp": "2026-11-20T10:00:00Z",
        },
        "spec": {"flows": list(steps)},
        "status": status,
    }


def step(name: str, *targets: str, **depends: Any) -> Document:
    return {"name": name, **({"dependsOn": {"targets": list(targets), **depends}} if targets else {})}


def job(of: str, name: str, phase: str, reason: str = "", message: str = "", **status: Any) -> Document:
    return {
        "metadata": {
            "name": name,
            "creationTimestamp": "2026-11-20T10:05:00Z",
            "ownerReferences": [{"uid": f"uid-{of}", "controller": True}],
        },
        "status": {"state": {"phase": phase, "reason": reason, "message": message}, **status},
    }


def waiting(message: str) -> Document:
    return {"phase": "Waiting", "message": f"waits for {message}"}


WEEKLY = flow(
    "weekly",
    step("prepare"),
    step("train", "prepare"),
    step("probe", "prepare", probe={"tcpSocketList": []}),
    step("report", "train", "probe", strategy="any"),
    state={"phase": "Running"},
    completedJobs=["weekly-prepare"],
    pendingJobs=["weekly-train"],
    runningJobs=["weekly-probe"],
    conditions={
        "weekly-train": {"phase": "Pending"},
        "weekly-report": waiting("Job weekly-train to be completed; it is Pending"),
    },
)
FAILED = flow(
    "nightly",
    step("only"),
    step("next", "only"),
    state={"phase": "Failed"},
    failedJobs=["nightly-only"],
    conditions={"nightly-next": waiting("nothing more: the JobFlow is Failed")},
)
REASON = ("QueueLimit", "queue vision may use 8 nvidia.com/gpu,\nand 8 are in use")


async def put(api_server: FakeApiServer, *flows: Document) -> None:
    for each in flows:
        await api_server.put(FLOWS, each)
        # A path below a collection is answered with the object of that name.
        api_server.objects[FLOWS]["", each["metadata"]["name"]] = each
        del api_server.objects[FLOWS]["ml", each["metadata"]["name"]]


async def put_jobs(api_server: FakeApiServer) -> None:
    await api_server.put(JOBS, job("weekly", "weekly-train", "Pending", *REASON))
    await api_server.put(JOBS, job("weekly", "weekly-probe", "Running", running=3, pending=1, retryCount=2))
    await api_server.put(JOBS, job("weekly", "weekly-former", "Completed", succeeded=2))
    await api_server.put(JOBS, job("other", "weekly-prepare", "Running", running=9))


async def test_a_list_tells_how_far_flows_are_and_what_they_wait_for(
    api_server: FakeApiServer, ask: Asking
) -> None:
    await put(api_server, WEEKLY, FAILED)

    assert (await ask("list", "-n", "ml")).out == (
        "NAME      NAMESPACE   PHASE     COMPLETED   AGE   WAITS-FOR\n"
        "nightly   ml          Failed          0/2   10m   -\n"
        "weekly    ml          Running         1/4   10m   "
        "weekly-train: admission, or its pods to start (and 1 more)\n"
    )
    assert (await ask("list", "-n", "ml", "-o", "wide", "--no-headers")).out == (
        "nightly   ml   Failed    0/2   10m   nightly-only   -\n"
        "weekly    ml   Running   1/4   10m   -              weekly-train: admission, or its pods to start; "
        "weekly-report: Job weekly-train to be completed; it is Pending\n"
    )


async def test_a_flow_is_shown_with_its_jobs_and_what_each_waits_for(
    api_server: FakeApiServer, ask: Asking
) -> None:
    await put(api_server, WEEKLY)
    await put_jobs(api_server)

    assert (await ask("get", "weekly", "-n", "ml")).out == (
        "jobflow/weekly in namespace ml\n"
        "Phase    Running, 1 of 4 jobs completed\n"
        "Age      10m\n"
        "\n"
        "JOB              PHASE       PODS                   AGE   AFTER              WAITS-FOR\n"
        "weekly-prepare   Completed   -                        -   -                  -\n"
        "weekly-train     Pending     -                       5m   prepare            "
        "QueueLimit: queue vision may use 8 nvidia.com/gpu, and 8 are in use\n"
        "weekly-probe     Running     1 pending, 3 running    5m   prepare (probed)   -\n"
        "weekly-report    Waiting     -                        -   train or probe     "
        "Job weekly-train to be completed; it is Pending\n"
        "weekly-former    Completed   2 succeeded             5m   -                  -\n"
    )
    [asked] = [seen for seen in api_server.seen("LIST") if seen.path == JOBS]
    assert asked.query == {"labelSelector": "volcano.sh/created-by-jobflow=ml.weekly"}


async def test_jobs_of_a_flow_with_a_name_too_long_for_a_label_are_found(
    api_server: FakeApiServer, ask: Asking
) -> None:
    name = "n" * 63
    await put(api_server, flow(name, step("a"), state={"phase": "Running"}))
    await api_server.put(JOBS, job(name, f"{name}-a", "Running", running=1))

    assert "1 running" in (await ask("get", name, "-n", "ml")).out
    [asked] = [seen for seen in api_server.seen("LIST") if seen.path == JOBS]
    assert asked.query == {}, "no label can have its name"


async def test_a_flow_that_cannot_be_read_is_shown_with_its_problem(
    api_server: FakeApiServer, ask: Asking
) -> None:
    problem = {"phase": "Waiting", "reason": "InvalidSpec", "message": "found a cycle: a, b"}
    await put(api_server, flow("broken", step("a", "b"), step("b", "a"), conditions={"broken": problem}))
    # Whatever a user wrote before there was a definition that refuses it.
    odd = flow("odd", state="Running", conditions=[1], completedJobs="x")
    odd["spec"] = {"flows": {"name": "a"}}
    await put(api_server, odd)

    assert "Problem  InvalidSpec: found a cycle: a, b\n" in (await ask("get", "broken", "-n", "ml")).out
    assert (await ask("get", "odd", "-n", "ml")).code == 0
    assert (await ask("list", "-n", "ml")).code == 0


async def test_without_the_right_to_list_jobs_the_flow_itself_tells_of_them(
    api_server: FakeApiServer, ask: Asking
) -> None:
    await put(api_server, WEEKLY)

    async def only_flows(at: FakeApiServer, request: Any) -> Any:
        if request.path == JOBS:
            return await answers(403, "jobs is forbidden: user me cannot list them")(at, request)
        return at.list(request)

    api_server.once("LIST", only_flows, times=2)
    said = await ask("get", "weekly", "-n", "ml")

    assert said.code == 0
    assert "cannot list them" in said.err
    assert "weekly-train     Pending" in said.out


async def test_documents_are_those_of_the_api_server(api_server: FakeApiServer, ask: Asking) -> None:
    await put(api_server, WEEKLY)
    await put_jobs(api_server)
    found = yaml.safe_load((await ask("get", "weekly", "-n", "ml", "-o", "yaml")).out)

    assert found["kind"] == "List"
    assert [each["metadata"]["name"] for each in found["items"]] == [
        "weekly",
        "weekly-former",
        "weekly-probe",
        "weekly-train",
    ]
    assert yaml.safe_load((await ask("list", "-n", "ml", "-o", "json")).out)["items"] == [
        api_server.objects[FLOWS]["", "weekly"]
    ]


async def test_flows_are_deleted_with_their_jobs(api_server: FakeApiServer, ask: Asking) -> None:
    said = await ask("delete", "weekly", "nightly", "-n", "ml")

    assert said == Said(0, "jobflow weekly deleted\njobflow nightly deleted\n", "")
    assert [(seen.path, seen.query) for seen in api_server.seen("DELETE")] == [
        (f"{FLOWS}/{name}", {"propagationPolicy": "Background"}) for name in ("weekly", "nightly")
    ]


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["list", "-n", "empty"], 0, "There is no JobFlow in namespace empty.\n"),
        (["list", "-A"], 0, "There is no JobFlow.\n"),
        (["list", "-A", "-n", "ml"], 2, "Error: -n and -A exclude each other.\n"),
        (["get", "a/b", "-n", "ml"], 1, "a/b"),
        (["delete"], 2, "Missing argument 'NAME…'.\n"),
    ],
)
async def test_what_is_not_there_or_wrong_is_a_sentence(
    ask: Asking, words: list[str], code: int, complaint: str
) -> None:
    said = await ask(*words)

    assert (said.code, said.out) == (code, "")
    assert complaint in said.err
    assert "fault of Muster" not in said.err


async def test_a_flow_that_is_not_there_is_told_in_the_words_of_the_api_server(
    api_server: FakeApiServer, ask: Asking
) -> None:
    api_server.once("LIST", answers(404, 'jobflows.flow.volcano.sh "x" not found'))
    said = await ask("get", "x", "-n", "ml")

    assert said.code == 1
    assert 'Looking for jobflow x: jobflows.flow.volcano.sh "x" not found' in said.err


async def test_a_shell_offers_the_names_of_flows(api_server: FakeApiServer, ask: Asking) -> None:
    await put(api_server, WEEKLY, FAILED)
    words = ("jobflow", "delete", "-n", "ml", "w")

    assert await asyncio.to_thread(candidates, words) == [("weekly", "Running")]
