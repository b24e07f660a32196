"""Verbs on workloads: which object they find by KIND/NAME or NAME, what they ask for, and what does it for others."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from queues.api.api_resources import (
    COMMANDS,
    DEPLOYMENTS,
    JOBS,
    POD_GROUPS,
    PODS,
    VOLCANO_JOBS,
    WORKLOAD_KINDS,
    ApiResource,
)
from tests.fakes.fake_api_server import FakeApiServer, answers, refusal
from tests.fakes.fake_reader import FakeReader
from tests.fakes.plugin import Asking, Plugin
from tests.tables import with_rows

JOBSETS = ApiResource("jobset.x-k8s.io/v1alpha2", "jobsets", "JobSet")
#: What ends the suspension of a Job.
ENDS = "`kubectl muster resume job/stopped -n ml` ends that"
TRAININGS = ApiResource("example.com/v1", "trainings", "Training")


class Cluster(FakeApiServer):
    """An API server that may refuse to show one object."""

    forbidden = ""

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.path == self.forbidden:
            message = (
                'jobs.batch is forbidden: User "bob" cannot get resource "jobs" in API group "batch" in the '
                'namespace "ml"'
            )
            return refusal(403, message, "Forbidden")
        return await super()._handle(request)


def add(server: FakeApiServer, resource: ApiResource, name: str, owner: str = "", **more: Any) -> None:
    """An object of namespace ml. ``owner``: KIND/NAME of what makes it."""
    kind, _, of = owner.partition("/")
    metadata = {"ownerReferences": [{"kind": kind, "name": of, "controller": True}]} if owner else {}
    document = {"metadata": {"name": name, "namespace": "ml", "uid": f"u-{name}", **metadata}, "spec": more}
    server.objects[resource.path("ml")]["", name] = document


def add_stopped(server: FakeApiServer) -> None:
    """A suspended Job, a pod on hold, and a Volcano Job that is both."""
    for resource, name, stated in (
        (JOBS, "stopped", "suspended"),
        (PODS, "held", "true"),
        (VOLCANO_JOBS, "away", "true"),
    ):
        add(server, resource, name)
        said_of_it = server.objects[resource.path("ml")]["", name]
        said_of_it["metadata"]["annotations"] = {"muster.dev/hold": stated}
        said_of_it["status"] = {"state": {"phase": "Aborted"}} if resource is VOLCANO_JOBS else {}


def changes(server: FakeApiServer) -> list[tuple[str, str]]:
    """Requests that changed something."""
    return [(each.verb, each.path) for each in server.requests if each.verb != "LIST"]


@pytest.fixture
async def server() -> AsyncIterator[Cluster]:
    """Each kind once; ``twice`` is a Job and a Volcano Job."""
    server = Cluster()
    groups = {"groups": [{"name": name} for name in ("jobset.x-k8s.io", "example.com")]}
    server.objects[""]["", "apis"] = groups
    tasks = [{"name": "master"}, {"name": "worker"}]
    for resource, name in (
        *((VOLCANO_JOBS, "train"), (VOLCANO_JOBS, "twice"), (JOBS, "sweep"), (JOBS, "twice")),
        *((JOBSETS, "set"), (PODS, "shell"), (POD_GROUPS, "group"), (DEPLOYMENTS, "web")),
        (TRAININGS, "tune"),
    ):
        add(server, resource, name, tasks=tasks if resource is VOLCANO_JOBS else ())
    add(server, JOBS, "set-0", "JobSet/set")
    add(server, JOBS, "nightly-1", "CronJob/nightly")
    said = {"apiVersion": TRAININGS.api_version, "plural": TRAININGS.plural, "kind": TRAININGS.kind}
    added = {"metadata": {"name": "training"}, "spec": {"resource": said, "nameLabels": ["example.com/job"]}}
    server.objects[WORKLOAD_KINDS.path()]["", "training"] = added
    async with server:
        yield server


@pytest.fixture
def ask(plugin: Plugin, server: Cluster) -> Asking:
    """A kubectl prints what it is called with."""
    plugin.put_kubectl()
    plugin.monkeypatch.setenv("COLUMNS", "400")
    asked = plugin.at(server)

    async def in_ml(line: str) -> Any:
        words = line.split()
        return await asked(words[0], "-n", "ml", *words[1:])

    return in_ml


@pytest.mark.parametrize(
    ("named", "kind", "resource"),
    [
        ("train", "vcjob", VOLCANO_JOBS),
        ("jobs.batch.volcano.sh/train", "vcjob", VOLCANO_JOBS),
        ("sweep", "job", JOBS),
        ("jobs/sweep", "job", JOBS),
        ("nightly-1", "job", JOBS),
        ("set", "jobset", JOBSETS),
        ("JobSet/set", "jobset", JOBSETS),
        ("tune", "training", TRAININGS),
        ("training/tune", "training", TRAININGS),
        ("shell", "pod", PODS),
        ("po/shell", "pod", PODS),
    ],
)
async def test_a_workload_of_any_kind_is_cancelled_by_kind_and_name_or_by_its_name(
    ask: Asking, server: Cluster, named: str, kind: str, resource: ApiResource
) -> None:
    name = named.rpartition("/")[2]
    assert await ask(f"cancel {named}") == (0, f"{kind}/{name} is cancelled\n", "")
    assert changes(server) == [("DELETE", resource.path("ml", name))]
    body = server.requests[-1].body
    assert (body["propagationPolicy"], body["preconditions"]) == ("Background", {"uid": f"u-{name}"})


@pytest.mark.parametrize("verb", ["cancel", "suspend", "resume", "hold", "unhold", "logs"])
async def test_of_a_name_of_several_all_are_listed_and_nothing_is_done(
    ask: Asking, server: Cluster, verb: str
) -> None:
    code, out, err = await ask(f"{verb} twice" if verb == "logs" else f"{verb} sweep twice")
    assert (code, out, changes(server)) == (1, "", [])
    assert "Nothing was changed: twice is the name of vcjob/twice, job/twice." in err
    assert f"Say which: `kubectl muster {verb} vcjob/twice -n ml`." in err


@with_rows("line", "said")
async def test_what_cannot_be_done_says_what_does_it(
    ask: Asking, server: Cluster, line: str, said: str
) -> None:
    code, out, err = await ask(line)
    assert (code in (1, 2), out, changes(server)) == (True, "", [])
    assert said in err


@with_rows("line", "done", "wish")
async def test_a_wish_is_an_annotation(ask: Asking, server: Cluster, line: str, done: str, wish: str) -> None:
    add_stopped(server)
    assert await ask(line) == (0, f"{done}\n", "")
    assert server.requests[-1].verb == "PATCH"
    assert server.requests[-1].body == {"metadata": {"annotations": {"muster.dev/hold": wish}}}


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("unhold stopped", 1, f"job/stopped is suspended, not on hold; nothing was changed: {ENDS}"),
        ("hold stopped", 1, f"job/stopped is suspended, not on hold; nothing was changed: {ENDS}"),
        ("suspend stopped", 0, "job/stopped is suspended already; nothing was changed"),
        ("unhold sweep", 0, "job/sweep is not on hold; nothing was changed"),
        ("resume sweep", 0, "job/sweep is not suspended; nothing was changed"),
        ("hold held", 0, "pod/held is on hold already; nothing was changed"),
    ],
)  # fmt: skip
async def test_a_wish_that_is_so_already_or_needs_another_verb_says_how_it_is(
    ask: Asking, server: Cluster, line: str, code: int, said: str
) -> None:
    add_stopped(server)
    assert await ask(line) == (code, f"{said}\n", "")
    assert changes(server) == []


@with_rows("metadata", "whole")
async def test_a_pod_that_waits_as_a_part_is_not_held_by_itself(
    ask: Asking, server: Cluster, metadata: dict[str, Any], whole: str
) -> None:
    server.objects[PODS.path("ml")]["", "a"] = {"metadata": {"name": "a", **metadata}}
    code, _, err = await ask("hold pod/a")
    assert (code, changes(server)) == (2, [])
    assert f"pod/a waits as a part of {whole}, whose annotation counts: name that." in err


async def test_a_kind_that_is_mistyped_is_named_also_where_the_user_may_not_see_added_ones(
    ask: Asking, server: Cluster
) -> None:
    server.forbidden = WORKLOAD_KINDS.path()
    code, _, err = await ask("hold jbo/train")
    assert (code, "'jbo' is no kind of workload. Did you mean job?" in err) == (2, True)


@pytest.mark.parametrize(("verb", "action"), [("suspend", "AbortJob"), ("resume", "ResumeJob")])
async def test_a_volcano_job_is_suspended_and_resumed_by_a_command(
    ask: Asking, server: Cluster, verb: str, action: str
) -> None:
    assert (await ask(f"{verb} train")).code == 0
    assert changes(server) == [("POST", COMMANDS.path("ml"))]
    body = server.requests[-1].body
    assert (body["action"], body["target"]["uid"]) == (action, "u-train")


async def test_logs_are_those_of_all_pods_and_containers_each_line_with_its_pod(
    server: Cluster, ask: Asking
) -> None:
    assert await ask("logs shell --tail 5") == (
        3,
        "logs -n ml shell --prefix --all-containers --tail=5\n",
        "",
    )
    await server.remove(PODS.path("ml"), "shell")
    assert await ask("logs train") == (
        1,
        "",
        "vcjob/train has no pods now; `kubectl muster explain vcjob/train -n ml` tells why.\n",
    )
    for index in range(3):
        await server.put(PODS.path("ml"), {"metadata": {"name": f"pod-{index}", "namespace": "ml"}})
    for named, label in (
        ("train", "volcano.sh/job-name=train"),
        ("sweep", "batch.kubernetes.io/job-name=sweep"),
        ("set", "jobset.sigs.k8s.io/jobset-name=set"),
        ("tune", "example.com/job=tune"),
    ):
        out = f"logs -n ml -l {label} --max-log-requests=3 --prefix --all-containers --tail=-1\n"
        assert await ask(f"logs {named}") == (3, out, "")
    _, out, _ = await ask("logs train -t worker -c main -f")
    assert "-l volcano.sh/job-name=train,volcano.sh/task-spec=worker " in out
    assert out.endswith("-c main --tail=-1 -f\n")


async def test_logs_without_kubectl_are_one_sentence(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert await ask("logs shell") == (1, "", "Error: Running kubectl logs: there is no kubectl on PATH.\n")


async def test_a_kind_that_the_user_may_not_read_is_as_if_it_had_no_object(
    ask: Asking, server: Cluster
) -> None:
    """KIND/NAME says which right is missing."""
    server.forbidden = JOBS.path("ml", "twice")
    assert (await ask("hold twice")).out == "vcjob/twice is on hold; what runs of it goes on\n"
    assert "Looking for job/twice: " in (await ask("hold job/twice")).err


@pytest.mark.parametrize(
    "line", ["hold gone", "suspend gone", "cancel gone", "logs gone", "cancel -l sweep=7"]
)
async def test_what_the_user_may_not_see_is_not_said_to_be_absent(
    ask: Asking, server: Cluster, line: str
) -> None:
    server.forbidden = JOBS.path("ml", None if "-l" in line else "gone")
    for path in filter(None, [*server.objects]):
        server.objects[path].clear()
    code, out, err = await ask(line)
    assert (code, out) == (1, "")
    assert "there is none that you may see: you (bob) may not get jobs.batch in namespace ml" in err
    assert "There is no workload" not in err


# -- cancel: several at a time ---------------------------------------------------------------------------------


async def test_several_are_cancelled_after_a_question(
    ask: Asking, server: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    several = "cancel train job/sweep train"
    code, out, err = await ask(several)
    assert (code, out, changes(server)) == (1, "", [])
    assert err == (
        "vcjob/train\njob/sweep\n"
        "Error: Nothing was changed, as there is no terminal to ask at.\nAdd --yes to go on.\n"
    )
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("click.confirm", lambda question, **_: questions.append(question))
    questions: list[str] = []
    assert "Nothing was changed." in (await ask(several)).err
    assert (questions, changes(server)) == (["Cancel these 2 workloads of namespace ml?"], [])

    assert await ask(f"{several} --yes") == (0, "vcjob/train is cancelled\njob/sweep is cancelled\n", "")
    assert len(changes(server)) == 2


async def test_one_that_is_gone_meanwhile_keeps_no_other(ask: Asking, server: Cluster) -> None:
    server.once("DELETE", answers(404, 'jobs "train" not found'))
    code, out, err = await ask("cancel train sweep --yes")
    assert (code, out) == (1, "job/sweep is cancelled\n")
    assert 'Cancelling vcjob/train: jobs "train" not found' in err


async def test_those_with_labels_are_cancelled_but_parts_and_groups_are_not(
    ask: Asking, server: Cluster
) -> None:
    """The fake lists all objects, whatever their labels."""
    code, out, _ = await ask("cancel -l sweep=7 --yes")
    gone = ["vcjob/train", "vcjob/twice", "job/nightly-1", "job/sweep", "job/twice", "pod/shell"]
    gone += ["jobset/set", "training/tune"]
    assert (code, out) == (0, "".join(f"{each} is cancelled\n" for each in gone))
    lists = {each.query.get("labelSelector") for each in server.requests if each.path == JOBS.path("ml")}
    assert lists == {"sweep=7"}


async def test_ones_own_are_cancelled(plugin: Plugin, server: Cluster) -> None:
    plugin.monkeypatch.setenv("MUSTER_TOKEN", "ada@example.com")
    async with plugin.served(FakeReader(), server=server) as ask:
        code, out, err = await ask("cancel --mine -n ml --yes")
        assert (code, out, err) == (0, "vcjob/bert is cancelled\nvcjob/llama-pretrain is cancelled\n", "")
        plugin.monkeypatch.setenv("MUSTER_TOKEN", "nobody@example.com")
        said = "No workload in namespace ml is so; nothing was changed.\n"
        assert await ask("cancel --mine -n ml") == (0, "", said)


@pytest.mark.parametrize("words", ["", "train --mine", "-l a=b --mine"])
async def test_it_is_said_in_one_way_what_is_cancelled(ask: Asking, server: Cluster, words: str) -> None:
    code, _, err = await ask(f"cancel {words}")
    assert (code, server.requests) == (2, [])
    assert "Expected names, -l SELECTOR or --mine: one of the three." in err
