"""Pods whose end is stored are let go: once each, the deleted ones first, and nobody once the lease is lost."""

import pytest

from admission.facts.pods import PodFact
from admission.kube.client.client import Client
from admission.kube.writers import repeated_writes
from admission.kube.writers.repeated_writes import (
    AT_LEISURE,
    RepeatedWrite,
    RepeatedWrites,
    command_deleted,
    finalizer_changed,
    finalizer_removed,
)
from queues.command import Command
from queues.errors import Fenced
from tests.builders.facts import job, pod
from tests.fakes.fake_api_server import FakeApiServer, answers, hangs
from tests.waiting import eventually


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated_writes, "_PAUSE", 0.01)


def allowed() -> None:
    return None


def ended(name: str, *, deleting: bool = False) -> PodFact:
    return pod(name, kept=True, deleting=deleting)


def of(client: Client, pods: list[PodFact]) -> list[RepeatedWrite]:
    return [finalizer_removed(client, allowed, each) for each in pods]


def dismissed(server: FakeApiServer) -> list[str]:
    return [request.path.rpartition("/")[2] for request in server.seen("PATCH")]


async def test_every_pod_is_let_go_once_and_other_finalizers_stay(
    server: FakeApiServer, client: Client
) -> None:
    finalizers = RepeatedWrites(lambda: None)
    pods = [ended(f"p{number}") for number in range(3 * AT_LEISURE)]
    for _ in range(3):
        finalizers.reconcile(of(client, pods))
    await eventually(lambda: len(dismissed(server)) == len(pods), "all to be let go")
    finalizers.reconcile(of(client, pods))
    await finalizers.stop()
    assert sorted(dismissed(server)) == sorted(pod.name for pod in pods)
    request = server.seen("PATCH")[0]
    assert request.headers["Content-Type"] == "application/strategic-merge-patch+json"
    assert request.body == {
        "metadata": {
            "uid": request.path.rpartition("/")[2],
            "$deleteFromPrimitiveList/finalizers": ["muster.dev/outcome"],
        }
    }


async def test_a_job_gets_the_finalizer_once_and_loses_it_though_nothing_came_between(
    server: FakeApiServer, client: Client
) -> None:
    finalizers = RepeatedWrites(lambda: None)
    for count, kept in ((1, False), (1, False), (2, True), (2, True)):
        finalizers.reconcile([finalizer_changed(client, allowed, job(1, kept=kept))])
        await eventually(lambda count=count: len(server.seen("PATCH")) == count, "its write")
    await finalizers.stop()
    added, removed = server.seen("PATCH")
    uid = job(1).key.uid
    assert added.headers["Content-Type"] == "application/strategic-merge-patch+json"
    assert added.body == {"metadata": {"uid": uid, "finalizers": ["muster.dev/outcome"]}}
    assert removed.body == {
        "metadata": {"uid": uid, "$deleteFromPrimitiveList/finalizers": ["muster.dev/outcome"]}
    }


async def test_those_that_are_deleted_do_not_wait_for_those_that_are_not(
    server: FakeApiServer, client: Client
) -> None:
    server.once("PATCH", hangs, times=AT_LEISURE)
    finalizers = RepeatedWrites(lambda: None)
    at_leisure = [ended(f"p{number}") for number in range(AT_LEISURE + 1)]
    finalizers.reconcile(of(client, at_leisure))
    await eventually(lambda: len(dismissed(server)) == AT_LEISURE, "as many as may be at a time")
    finalizers.reconcile(of(client, [ended("urgent", deleting=True), *at_leisure]))
    await eventually(lambda: "urgent" in dismissed(server), "the one that is deleted")
    await finalizers.stop()
    assert at_leisure[-1].name not in dismissed(server)


async def test_what_the_server_could_not_do_is_asked_for_again(server: FakeApiServer, client: Client) -> None:
    def again() -> None:
        finalizers.reconcile(of(client, [ended("a")]))

    server.once("PATCH", answers(403, "forbidden"))
    finalizers = RepeatedWrites(again)
    finalizers.reconcile(of(client, [ended("a")]))
    await eventually(lambda: dismissed(server) == ["a", "a"], "a second try")
    await finalizers.stop()


async def test_nobody_is_let_go_once_the_lease_is_lost(server: FakeApiServer, client: Client) -> None:
    asked: list[bool] = []

    def fenced() -> None:
        asked.append(True)
        raise Fenced(term=1, holder="me", reason="the lease is lost")

    finalizers = RepeatedWrites(lambda: None)
    finalizers.reconcile([finalizer_removed(client, fenced, ended("a"))])
    await eventually(lambda: bool(asked), "the lease to be looked at")
    await finalizers.stop()
    assert dismissed(server) == []


async def test_a_command_that_was_carried_out_is_deleted_once(server: FakeApiServer, client: Client) -> None:
    commands = RepeatedWrites(lambda: None)
    done = Command(uid="u", namespace="ns", name="c", action="AbortJob", target_kind="Job")
    for _ in range(2):
        commands.reconcile([command_deleted(client, allowed, done)])
    await eventually(lambda: len(server.seen("DELETE")) == 1, "its deletion")
    commands.reconcile([command_deleted(client, allowed, done)])
    await commands.stop()
    (request,) = server.seen("DELETE")
    assert request.path.endswith(f"/commands/{done.name}")
    assert request.body["preconditions"] == {"uid": done.uid}
