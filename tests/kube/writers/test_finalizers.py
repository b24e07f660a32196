"""Pods whose end is stored are let go: once each, the deleted ones first, and nobody once the lease is lost."""

import pytest

from admission.facts.pods import PodFact
from admission.kube.client.client import Client
from admission.kube.writers import finalizers as finalizers_module
from admission.kube.writers.finalizers import AT_LEISURE, FinalizerRemover
from queues.errors import Fenced
from tests.builders.facts import pod
from tests.fakes.fake_api_server import FakeApiServer, answers, hangs
from tests.waiting import eventually


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finalizers_module, "_PAUSE", 0.01)


def allowed() -> None:
    return None


def ended(name: str, *, deleting: bool = False) -> PodFact:
    return pod(name, kept=True, deleting=deleting)


def dismissed(server: FakeApiServer) -> list[str]:
    return [request.path.rpartition("/")[2] for request in server.seen("PATCH")]


async def test_every_pod_is_let_go_once_and_other_finalizers_stay(
    server: FakeApiServer, client: Client
) -> None:
    finalizers = FinalizerRemover(client, allowed, requeue=lambda: None)
    pods = [ended(f"p{number}") for number in range(3 * AT_LEISURE)]
    for _ in range(3):
        finalizers.reconcile(pods)
    await eventually(lambda: len(dismissed(server)) == len(pods), "all to be let go")
    finalizers.reconcile(pods)
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


async def test_those_that_are_deleted_do_not_wait_for_those_that_are_not(
    server: FakeApiServer, client: Client
) -> None:
    server.once("PATCH", hangs, times=AT_LEISURE)
    finalizers = FinalizerRemover(client, allowed, requeue=lambda: None)
    at_leisure = [ended(f"p{number}") for number in range(AT_LEISURE + 1)]
    finalizers.reconcile(at_leisure)
    await eventually(lambda: len(dismissed(server)) == AT_LEISURE, "as many as may be at a time")
    finalizers.reconcile([ended("urgent", deleting=True), *at_leisure])
    await eventually(lambda: "urgent" in dismissed(server), "the one that is deleted")
    await finalizers.stop()
    assert at_leisure[-1].name not in dismissed(server)


async def test_what_the_server_could_not_do_is_asked_for_again(server: FakeApiServer, client: Client) -> None:
    def again() -> None:
        finalizers.reconcile([ended("a")])

    server.once("PATCH", answers(403, "forbidden"))
    finalizers = FinalizerRemover(client, allowed, requeue=again)
    finalizers.reconcile([ended("a")])
    await eventually(lambda: dismissed(server) == ["a", "a"], "a second try")
    await finalizers.stop()


async def test_nobody_is_let_go_once_the_lease_is_lost(server: FakeApiServer, client: Client) -> None:
    asked: list[bool] = []

    def fenced() -> None:
        asked.append(True)
        raise Fenced(term=1, holder="me", reason="the lease is lost")

    finalizers = FinalizerRemover(client, fenced, requeue=lambda: None)
    finalizers.reconcile([ended("a")])
    await eventually(lambda: bool(asked), "the lease to be looked at")
    await finalizers.stop()
    assert dismissed(server) == []
