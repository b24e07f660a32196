"""``kubectl muster run --interactive``: the pod is made, waited for and deleted; its heartbeat goes on meanwhile."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from admission.cli.plugin import interactive
from queues.api.api_resources import PODS
from tests.fakes.fake_api_server import FakeApiServer, answers
from tests.fakes.plugin import Asking, Plugin

SHELL = "run shell -i busybox:1.37 -n ml --interactive"
PATH = PODS.path("ml", "shell")
WAITS = {
    "phase": "Pending",
    "conditions": [
        {"type": "muster.dev/Admitted", "status": "False", "reason": "QueueLimit", "message": "8 of 8 used"}
    ],
}
RUNS = {"phase": "Running"}


class PodServer(FakeApiServer):
    """Keeps one pod, whose status is another at each look."""

    statuses: tuple[dict[str, Any], ...] = (WAITS, WAITS, RUNS)
    looks = 0

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.method == "GET" and request.path == PATH:
            status = self.statuses[min(self.looks, len(self.statuses) - 1)]
            self.looks += 1
            pod = {"metadata": {"name": "shell", "namespace": "ml", "uid": "u"}, "status": status}
            self.objects[PODS.path("ml")]["", "shell"] = pod
        answer = await super()._handle(request)
        if request.method == "POST":
            return web.json_response({"metadata": {"name": "shell", "uid": "u"}})
        return answer


@pytest.fixture
async def server() -> AsyncIterator[PodServer]:
    async with PodServer() as server:
        yield server


@pytest.fixture
def ask(plugin: Plugin, server: PodServer) -> Asking:
    """A kubectl that prints what it is called with is the shell; between two looks no time passes."""
    plugin.put_kubectl()
    plugin.monkeypatch.setenv("COLUMNS", "400")
    plugin.monkeypatch.setattr(interactive, "_LOOK_EVERY", 0.0)
    return plugin.at(server)


def deleted(server: PodServer) -> list[Any]:
    return [(each.path, each.body["preconditions"]) for each in server.seen("DELETE")]


async def test_a_pod_with_a_shell_is_made_waited_for_and_deleted(
    golden: Any, ask: Asking, server: PodServer
) -> None:
    code, out, err = await ask(f"{SHELL} -q team-a --gpus-per-pod 1 -- bash -l")

    assert (code, out) == (3, "attach -n ml shell --container=main --stdin\n")
    assert err.splitlines() == [
        "pod/shell created; it is deleted at the end of its shell, or by Ctrl-C while it waits",
        "pod/shell waits: QueueLimit: 8 of 8 used",
        "pod/shell is deleted",
    ]
    (made,) = server.seen("POST")
    assert made.body["metadata"]["annotations"].pop("muster.dev/heartbeat").endswith("Z")
    assert made.body == golden
    assert deleted(server) == [(PATH, {"uid": "u"})]


async def test_the_exit_code_is_that_of_the_shell(ask: Asking, server: PodServer) -> None:
    ended = {"phase": "Failed", "reason": "DeadlineExceeded", "message": "it was active for too long"}
    ended["containerStatuses"] = [{"name": "main", "state": {"terminated": {"exitCode": 137}}}]  # type: ignore[assignment]
    server.statuses = (RUNS, ended)
    code, _, err = await ask(SHELL)
    assert code == 137
    assert "pod/shell has ended: DeadlineExceeded: it was active for too long" in err


async def test_heartbeats_go_on_meanwhile(plugin: Plugin, ask: Asking, server: PodServer) -> None:
    plugin.monkeypatch.setattr(interactive, "_EVERY", 0.01)
    seen = plugin.folder / "seen"
    (plugin.folder / "bin/kubectl").write_text(f'#!/bin/sh\nwhile [ ! -e "{seen}" ]; do :; done\n')
    server.once("PATCH", answers(500, "not now"))

    async def second(server: FakeApiServer, request: web.Request) -> web.StreamResponse:
        seen.touch()
        return web.json_response({})

    server.once("PATCH", second)
    assert (await ask(SHELL))[0] == 0
    bodies = [each.body["metadata"] for each in server.seen("PATCH")]
    assert len(bodies) >= 2, "one that fails is not the last"
    assert {(body["uid"], *body["annotations"]) for body in bodies} == {("u", "muster.dev/heartbeat")}


@pytest.mark.parametrize(
    ("statuses", "code", "said"),
    [
        (
            (WAITS, {"phase": "Failed", "reason": "Evicted"}),
            1,
            "pod/shell has ended before it had a shell: Evicted",
        ),
        ((WAITS, KeyboardInterrupt), 130, "pod/shell is deleted"),
    ],
    ids=["it ends", "Ctrl-C"],
)
async def test_what_ends_before_it_has_a_shell_is_deleted(
    plugin: Plugin, ask: Asking, server: PodServer, statuses: tuple[Any, ...], code: int, said: str
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    if KeyboardInterrupt in statuses:
        plugin.monkeypatch.setattr(interactive.time, "sleep", interrupt)
    server.statuses = tuple(each for each in statuses if each is not KeyboardInterrupt)
    ended, out, err = await ask(SHELL)
    assert (ended, out, deleted(server)) == (code, "", [(PATH, {"uid": "u"})])
    assert said in err


async def test_a_pod_that_is_gone_is_not_waited_for(ask: Asking, server: PodServer) -> None:
    server.once("LIST", answers(404, 'pods "shell" not found', "NotFound"))
    server.once("DELETE", answers(404, 'pods "shell" not found', "NotFound"))
    code, _, err = await ask(SHELL)
    assert (code, "is deleted" in err.splitlines()[-1]) == (1, False)
    assert 'pods "shell" not found' in err
