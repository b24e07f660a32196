import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from admission.kube.client.client import Client
from admission.kube.watch.informer import Informer, Timing
from admission.kube.watch.store import ObjectChange, WatchedKind
from admission.wire import WireNode, WireStruct
from queues.api.api_resources import NODES, PODS, ApiResource
from tests.fakes.fake_api_server import (
    FakeApiServer,
    answers,
    breaks_before_answering,
    gone,
    hangs,
    says,
    says_and_breaks,
)
from tests.waiting import eventually, in_background

PATH = "/api/v1/nodes"
QUICK = Timing(page=2, silence=30.0, first_pause=0.01, longest_pause=0.05)


def node(name: str, uid: str = "", **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": uid or f"uid-{name}", "labels": labels}}


def labels_of(node: WireNode, raw: msgspec.Raw) -> dict[str, str]:
    return node.metadata.labels or {}


class Watched:
    """An informer of nodes whose facts are their labels, and all it has told."""

    def __init__(self, client: Client, timing: Timing = QUICK, struct: Any = WireNode) -> None:
        self.told: list[ObjectChange[Any]] = []
        kind: WatchedKind[Any, Any] = WatchedKind(
            name="nodes", resource=NODES, struct=struct, translate=labels_of
        )
        self.informer: Informer[Any, Any] = Informer(client, kind, self.told.extend, timing)

    def known(self) -> dict[str, Any]:
        return {kept.name: kept.value for kept in self.informer.collection.kept.values()}

    def replayed(self) -> dict[str, Any]:
        """What somebody knows who only heard the changes."""
        state: dict[str, Any] = {}
        for shift in self.told:
            assert state.get(shift.uid) == shift.before
            state[shift.uid] = shift.after
        return {uid: after for uid, after in state.items() if after is not None}

    async def knows(self, *nodes: str) -> None:
        await eventually(lambda: sorted(self.known()) == sorted(nodes), f"nodes {nodes}")


@asynccontextmanager
async def watching(
    server: FakeApiServer, folder: Path, timing: Timing = QUICK, struct: Any = WireNode
) -> AsyncIterator[Watched]:
    async with await Client.connect(server.kubeconfig(folder)) as client:
        watched = Watched(client, timing, struct)
        task = asyncio.create_task(watched.informer.run())
        try:
            yield watched
        finally:
            assert not task.done(), task.exception()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_what_is_there_is_listed_in_pages_and_then_watched(
    server: FakeApiServer, tmp_path: Path
) -> None:
    for name in "abcde":
        await server.put(PATH, node(name))
    async with watching(server, tmp_path) as watched:
        await watched.informer.synced.wait()
        assert sorted(watched.known()) == ["a", "b", "c", "d", "e"]
        await eventually(lambda: bool(server.seen("WATCH")), "a watch")
        await server.put(PATH, node("f"))
        await server.remove(PATH, "a")
        await watched.knows("b", "c", "d", "e", "f")
    assert [seen.query.get("continue") for seen in server.seen("LIST")] == [None, "2", "4"]
    (watch,) = server.seen("WATCH")
    assert watch.query["allowWatchBookmarks"] == "true"
    assert watch.query["resourceVersion"] == "15"
    assert watched.replayed().keys() == {f"uid-{name}" for name in "bcdef"}


async def test_an_update_that_changes_nothing_we_read_is_not_told(
    server: FakeApiServer, tmp_path: Path
) -> None:
    await server.put(PATH, node("a", rack="1"))
    async with watching(server, tmp_path) as watched:
        await eventually(lambda: bool(server.seen("WATCH")), "a watch")
        await server.put(PATH, {**node("a", rack="1"), "status": {"images": ["x"]}})
        await server.put(PATH, node("b"))
        await watched.knows("a", "b")
        assert [shift.name for shift in watched.told] == ["a", "b"]


async def test_after_a_410_everything_is_listed_anew_and_deletions_are_told(
    server: FakeApiServer, tmp_path: Path
) -> None:
    await server.put(PATH, node("a"))
    await server.put(PATH, node("b"))
    server.once("WATCH", says_and_breaks())
    async with watching(server, tmp_path) as watched:
        await watched.informer.synced.wait()
        stale = watched.informer.resource_version
        await server.remove_unseen(PATH, "a")
        server.version += 5
        server.forget_history()
        await watched.knows("b")
        assert "uid-a" not in watched.replayed()
        await eventually(lambda: len(server.seen("WATCH")) >= 3, "a fresh watch")
    versions = [seen.query["resourceVersion"] for seen in server.seen("WATCH")]
    assert versions.count(stale) == 2  # the broken watch, and the one that learned of the 410
    assert versions[-1] == str(server.version)


async def test_a_410_inside_the_stream_means_the_same(server: FakeApiServer, tmp_path: Path) -> None:
    await server.put(PATH, node("a"))
    error = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}
    server.once("WATCH", says(json.dumps(error).encode() + b"\n"))
    async with watching(server, tmp_path) as watched:
        await eventually(lambda: watched.informer.lists == 2, "a second list")
        await watched.knows("a")


async def test_a_list_that_grew_too_old_between_pages_starts_again_in_one_piece(
    server: FakeApiServer, tmp_path: Path
) -> None:
    for name in "abc":
        await server.put(PATH, node(name))
    listed = server.list

    async def first_page(fake: FakeApiServer, request: Any) -> Any:
        return listed(request)

    async def too_late(fake: FakeApiServer, request: Any) -> Any:
        await fake.remove_unseen(PATH, "a")
        return await gone(fake, request)

    server.once("LIST", first_page)
    server.once("LIST", too_late)
    async with watching(server, tmp_path) as watched:
        await watched.informer.synced.wait()
        assert sorted(watched.known()) == ["b", "c"]
        assert watched.replayed().keys() == {"uid-b", "uid-c"}
    assert [seen.query.get("limit") for seen in server.seen("LIST")] == ["2", "2", None]


async def test_a_bookmark_moves_the_place_to_resume_from(server: FakeApiServer, tmp_path: Path) -> None:
    async with watching(server, tmp_path) as watched:
        await eventually(lambda: bool(server.seen("WATCH")), "a watch")
        server.version = 400
        await server.bookmark(PATH)
        await eventually(lambda: watched.informer.resource_version == "400", "the bookmark's version")
        assert watched.told == []


async def test_a_broken_stream_is_resumed_where_it_broke(server: FakeApiServer, tmp_path: Path) -> None:
    event = {"type": "ADDED", "object": node("a")}
    event["object"]["metadata"]["resourceVersion"] = "11"  # type: ignore[index]
    server.once("WATCH", says_and_breaks(json.dumps(event).encode() + b'\n{"type":"ADDED","obj'))
    async with watching(server, tmp_path) as watched:
        await watched.knows("a")
        await eventually(lambda: len(server.seen("WATCH")) == 2, "a second watch")
    assert [seen.query["resourceVersion"] for seen in server.seen("WATCH")] == ["10", "11"]
    assert watched.informer.lists == 1


async def test_a_cut_line_at_the_end_of_a_stream_is_not_lost(server: FakeApiServer, tmp_path: Path) -> None:
    line = json.dumps({"type": "ADDED", "object": node("a")}).encode()
    server.once("WATCH", says(line[:-5]))
    async with watching(server, tmp_path) as watched:
        await eventually(lambda: len(server.seen("WATCH")) == 2, "a second watch")
        assert watched.known() == {}
        await server.put(PATH, node("a"))
        await watched.knows("a")


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Warnings of the informer, without what the loop says of tasks of the fake server."""
    ours = (each for each in caplog.records if each.name.startswith("admission."))
    return [each.message for each in ours if each.levelno >= logging.WARNING]


async def test_a_silent_connection_is_given_up_and_resumed_without_a_warning(
    server: FakeApiServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.once("WATCH", hangs)
    timing = Timing(silence=0.1, first_pause=0.01, longest_pause=0.02)
    async with watching(server, tmp_path, timing) as watched:
        await eventually(lambda: bool(server.seen("WATCH")), "a watch")
        await server.put(PATH, node("a"))
        await watched.knows("a")
        assert watched.informer.lists == 1
    assert warnings_in(caplog) == []


async def test_a_store_is_current_while_its_watch_is_open_though_nothing_happens(
    server: FakeApiServer, tmp_path: Path
) -> None:
    await server.put(PATH, node("a"))
    async with watching(server, tmp_path) as watched:
        await eventually(lambda: bool(server.seen("WATCH")), "a watch")
        await watched.knows("a")

        assert watched.informer.behind(asyncio.get_running_loop().time() + 80.0) == 0.0


async def test_a_watch_that_is_open_again_counts_as_open_before_anything_happens(
    server: FakeApiServer, tmp_path: Path
) -> None:
    await server.put(PATH, node("a"))
    server.once("WATCH", answers(403, "not yet"))
    async with watching(server, tmp_path) as watched:
        await eventually(lambda: len(server.seen("WATCH")) == 2, "a second watch")
        await eventually(lambda: watched.informer.problem is None, "the watch to be open")

        assert watched.informer.behind(asyncio.get_running_loop().time() + 80.0) == 0.0


async def test_a_store_grows_old_while_its_watch_is_refused(server: FakeApiServer, tmp_path: Path) -> None:
    await server.put(PATH, node("a"))
    server.once("WATCH", answers(403, "not any more"), times=1_000_000)
    async with watching(server, tmp_path) as watched:
        await watched.knows("a")
        await eventually(lambda: watched.informer.problem is not None, "the refusal")

        assert watched.informer.behind(asyncio.get_running_loop().time() + 50.0) > 49.0


async def test_a_silent_watch_that_is_being_opened_again_does_not_count_as_behind(
    server: FakeApiServer, tmp_path: Path
) -> None:
    server.once("WATCH", hangs, times=1_000_000)
    timing = Timing(silence=0.05, first_pause=0.01, longest_pause=0.02)
    async with watching(server, tmp_path, timing) as watched:
        await eventually(lambda: watched.informer.problem is not None, "silence")
        now = asyncio.get_running_loop().time()

        assert watched.informer.behind(now) == 0.0
        assert watched.informer.behind(now + 60.0) > 59.0


async def test_one_object_that_cannot_be_read_does_not_stop_the_others(
    server: FakeApiServer, tmp_path: Path
) -> None:
    bad = {"metadata": {"name": "bad", "uid": "u-bad"}, "spec": {"unschedulable": "perhaps"}}
    await server.put(PATH, bad)
    await server.put(PATH, node("good"))
    async with watching(server, tmp_path) as watched:
        await watched.informer.synced.wait()
        assert sorted(watched.known()) == ["good"]
        await eventually(lambda: bool(server.seen("WATCH")), "a watch")
        await server.put(PATH, bad)
        await server.put(PATH, node("better"))
        await watched.knows("good", "better")
        assert watched.informer.collection.unreadable == 1
        assert watched.informer.lists == 1


async def test_an_object_that_breaks_its_translation_does_not_stop_the_others(
    server: FakeApiServer, tmp_path: Path
) -> None:
    async with await Client.connect(server.kubeconfig(tmp_path)) as client:
        told: list[ObjectChange[Any]] = []

        def translate(node: WireNode, raw: msgspec.Raw) -> str:
            if node.metadata.name == "bad":
                raise KeyError("a bug")
            return "fine"

        kind: WatchedKind[Any, Any] = WatchedKind(
            name="nodes", resource=NODES, struct=WireNode, translate=translate
        )
        informer: Informer[Any, Any] = Informer(client, kind, told.extend, QUICK)
        await server.put(PATH, node("bad"))
        await server.put(PATH, node("good"))
        async with in_background(informer.run()):
            await informer.synced.wait()
            assert [shift.name for shift in told] == ["good"]


async def test_an_object_made_anew_under_the_same_name_is_first_told_as_gone(
    server: FakeApiServer, tmp_path: Path
) -> None:
    await server.put(PATH, node("a", uid="old", rack="1"))
    async with watching(server, tmp_path) as watched:
        await eventually(lambda: bool(server.seen("WATCH")), "a watch")
        await server.put(PATH, node("a", uid="new", rack="1"))
        await eventually(lambda: len(watched.told) == 3, "three changes")
        assert [(shift.uid, shift.after is None) for shift in watched.told[1:]] == [
            ("old", True),
            ("new", False),
        ]


async def test_the_late_deletion_of_a_predecessor_does_not_hurt_its_successor(
    server: FakeApiServer, tmp_path: Path
) -> None:
    await server.put(PATH, node("a", uid="new"))
    async with watching(server, tmp_path) as watched:
        await eventually(lambda: bool(server.seen("WATCH")), "a watch")
        server.version += 1
        old = node("a", uid="old")
        old["metadata"]["resourceVersion"] = str(server.version)
        await server.event(PATH, "DELETED", old)
        await server.put(PATH, node("b"))
        await watched.knows("a", "b")


async def test_a_restart_of_the_server_costs_no_change(server: FakeApiServer, tmp_path: Path) -> None:
    async with watching(server, tmp_path) as watched:
        await server.put(PATH, node("a"))
        await watched.knows("a")
        await server.stop()
        await eventually(lambda: watched.informer.problem is not None, "an interruption")
        await server.put(PATH, node("b"))
        await server.remove(PATH, "a")
        await server.start()
        await watched.knows("b")
        assert watched.informer.problem is None


async def test_after_failures_that_do_not_end_everything_is_listed_anew(
    server: FakeApiServer, tmp_path: Path
) -> None:
    server.once("WATCH", answers(500, "cannot decode"), times=4)
    async with watching(server, tmp_path) as watched:
        await eventually(lambda: watched.informer.lists == 2, "a second list")
        await server.put(PATH, node("a"))
        await watched.knows("a")


async def test_a_server_that_ends_every_watch_at_once_is_not_asked_in_a_tight_loop(
    server: FakeApiServer, tmp_path: Path
) -> None:
    server.once("WATCH", says(), times=1000)
    timing = Timing(first_pause=0.05, longest_pause=10.0)
    async with watching(server, tmp_path, timing) as watched:
        await eventually(lambda: len(server.seen("WATCH")) == 4, "four watches")
        loop = asyncio.get_running_loop()
        before = loop.time()
        await eventually(lambda: len(server.seen("WATCH")) == 5, "a fifth watch")
        assert loop.time() - before >= 0.1
        assert watched.informer.synced.is_set()


async def test_an_event_of_several_megabytes_arrives(server: FakeApiServer, tmp_path: Path) -> None:
    async with watching(server, tmp_path) as watched:
        await eventually(lambda: bool(server.seen("WATCH")), "a watch")
        await server.put(PATH, {**node("a"), "data": "x" * 3_500_000})
        await watched.knows("a")


async def test_nothing_counts_as_synced_before_the_list_succeeds(
    server: FakeApiServer, tmp_path: Path
) -> None:
    server.once("LIST", answers(403, "nodes is forbidden"), times=2)
    server.once("LIST", breaks_before_answering)
    async with watching(server, tmp_path) as watched:
        await eventually(lambda: watched.informer.problem is not None, "a problem")
        assert "forbidden" in str(watched.informer.problem)
        assert not watched.informer.synced.is_set()
        await watched.informer.synced.wait()
        assert watched.informer.problem is None


async def test_namespaced_objects_of_the_same_name_are_different(
    server: FakeApiServer, tmp_path: Path
) -> None:
    class Thing(WireStruct):
        metadata: Any = None

    path = "/api/v1/pods"
    for namespace in ("x", "y"):
        await server.put(path, {"metadata": {"name": "a", "namespace": namespace, "uid": namespace}})
    async with await Client.connect(server.kubeconfig(tmp_path)) as client:
        resource: ApiResource = PODS
        kind: WatchedKind[Any, Any] = WatchedKind(
            name="pods", resource=resource, struct=WireNode, translate=labels_of
        )
        informer: Informer[Any, Any] = Informer(client, kind, lambda shifts: None, QUICK)
        async with in_background(informer.run()):
            await informer.synced.wait()
            assert set(informer.collection.kept.places()) == {("x", "a"), ("y", "a")}


async def test_a_kind_that_the_cluster_does_not_serve_has_no_objects_until_it_does(
    server: FakeApiServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing waits for it, it makes nothing look old, and the log warns of nothing."""
    server.once("LIST", answers(404, "the server could not find the requested resource"), times=2)
    async with await Client.connect(server.kubeconfig(tmp_path)) as client:
        kind: WatchedKind[Any, Any] = WatchedKind(
            name="nodes", resource=NODES, struct=WireNode, translate=labels_of, may_be_absent=True
        )
        informer: Informer[Any, Any] = Informer(client, kind, lambda _: None, replace(QUICK, absent=0.05))
        async with in_background(informer.run()):
            await informer.synced.wait()
            assert (informer.is_served, informer.problem) == (False, None)
            assert informer.behind(asyncio.get_running_loop().time() + 60) == 0.0
            await server.put(PATH, node("a"))
            await eventually(
                lambda: informer.is_served and ("", "a") in informer.collection.kept, "the kind to be served"
            )
            server.forget_history()
            server.once("LIST", answers(404, "the server could not find the requested resource"), times=1000)
            informer.resource_version = ""
        async with in_background(informer.run()):
            await eventually(informer.collection.is_empty, "its objects to go with it")
            heard = informer.heard
            await eventually(lambda: informer.heard > heard, "the next answer to count as heard")
    assert warnings_in(caplog) == []
