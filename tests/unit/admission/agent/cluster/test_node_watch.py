"""What the agent needs of its Node."""

import json
import random
import threading
from typing import Any, cast

import pytest

from admission.agent.cluster.api_client import ApiClient, ObjectEvent
from admission.agent.cluster.node_watch import NodeWatch, ObjectWatch, watched_node
from queues.api import names
from queues.errors import ApiUnavailable, Gone
from tests.fakes.agent_api import AgentApi, unavailable
from tests.waiting import LIMIT, until


@pytest.mark.parametrize(
    ("annotation", "is_recovered"),
    [
        (json.dumps({"phase": "recovering"}), True),
        ("[" * 100_000, False),
        (json.dumps({"phase": "draining"}), False),
        ("", False),
        ("x", False),
        ("[]", False),
        ("7", False),
    ],
)
def test_a_job_may_recover_the_node_while_its_annotation_says_so(annotation: str, is_recovered: bool) -> None:
    metadata = {
        "name": "n1",
        "uid": "u",
        "annotations": {names.RECOVERY: annotation, names.GPU_UNHEALTHY: "3"},
    }
    found = watched_node({"metadata": metadata})
    assert (found.is_recovered, found.mark) == (is_recovered, "3")
    assert not watched_node({"metadata": {"name": "n1", "uid": "u"}}).is_recovered


GONE = Gone(method="WATCH", path="/p", status=410, reason="too old")


class _Pages(AgentApi):
    """Lists come in pages of two objects."""

    def list(self, path: str, **query: str) -> dict[str, Any]:
        self.reads.append(query.get("continue", ""))
        self._fail()
        items = sorted(self.objects.values(), key=lambda each: each["metadata"]["uid"])
        first = int(query.get("continue") or 0)
        rest = {"continue": str(first + 2)} if first + 2 < len(items) else {}
        return {"items": items[first : first + 2], "metadata": {"resourceVersion": "40", **rest}}


def _object(uid: str, text: str = "", version: str = "1") -> dict[str, Any]:
    return {"metadata": {"uid": uid, "resourceVersion": version, "labels": {"text": text}}}


def _text(document: dict[str, Any]) -> str | None:
    return document["metadata"]["labels"]["text"] or None


class _Watch:
    def __init__(self, api: AgentApi) -> None:
        self.changes = 0
        self.stop = threading.Event()
        self.watch = ObjectWatch(
            cast(ApiClient, api),
            "/p",
            "metadata.name=a",
            value=_text,
            changed=self._changed,
            rng=random.Random(1),
        )

    def _changed(self) -> None:
        self.changes += 1


@pytest.fixture
def api() -> AgentApi:
    return _Pages()


@pytest.fixture
def tried(api: AgentApi) -> _Watch:
    return _Watch(api)


def test_a_list_without_objects_may_be_null(
    api: AgentApi, tried: _Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the API server says it of metadata."""
    monkeypatch.setattr(
        api, "list", lambda path, **rest: {"metadata": {"resourceVersion": "7"}, "items": None}
    )
    assert tried.watch.list() == "7"
    assert tried.watch.objects == {}


def test_a_list_is_read_in_pages_and_what_has_no_value_is_left_out(api: AgentApi, tried: _Watch) -> None:
    for uid, text in (("1", "a"), ("2", ""), ("3", "c")):
        api.objects[uid] = _object(uid, text)
    assert tried.watch.objects is None
    assert tried.watch.list() == "40"
    assert tried.watch.objects == {"1": "a", "3": "c"}
    assert api.reads == ["", "2"]
    assert tried.changes == 1


def test_events_change_what_is_known_and_only_changes_are_told(api: AgentApi, tried: _Watch) -> None:
    api.objects["1"] = _object("1", "a")
    tried.watch.list()
    api.watches.append(
        [
            ObjectEvent("MODIFIED", _object("1", "a", "41")),
            ObjectEvent("ADDED", _object("2", "b", "42")),
            ObjectEvent("BOOKMARK", {"metadata": {"resourceVersion": "50"}}),
            ObjectEvent("DELETED", _object("1", "a", "51")),
            ObjectEvent("MODIFIED", _object("2", "", "52")),
            GONE,
        ]
    )
    seen = []

    def progress() -> None:
        seen.append(dict(tried.watch.objects or {}))

    with pytest.raises(Gone):
        tried.watch.follow("40", tried.stop, progress)
    assert seen == [{"1": "a"}, {"1": "a", "2": "b"}, {"1": "a", "2": "b"}, {"2": "b"}, {}]
    assert tried.changes == 1 + 3


def test_a_watch_goes_on_from_where_the_last_one_ended(api: AgentApi, tried: _Watch) -> None:
    api.watches.append([ObjectEvent("BOOKMARK", {"metadata": {"resourceVersion": "50"}})])
    api.watches.append([GONE])
    with pytest.raises(Gone):
        tried.watch.follow("40", tried.stop, lambda: None)
    assert api.watched == ["40", "50"]


@pytest.mark.parametrize("fault", [GONE, unavailable()])
def test_after_a_failure_everything_is_listed_again(api: AgentApi, tried: _Watch, fault: Exception) -> None:
    api.objects["1"] = _object("1", "a")
    api.watches.append([fault])
    thread = threading.Thread(target=tried.watch.run, args=(tried.stop,))
    thread.start()
    until(lambda: tried.watch.objects == {"1": "a"}, "the first list")
    api.objects = {"2": _object("2", "b")}
    until(lambda: tried.watch.objects == {"2": "b"}, "the second list")
    tried.stop.set()
    thread.join(LIMIT)
    assert not thread.is_alive()


def test_what_was_seen_last_stays_while_the_api_server_does_not_answer(api: AgentApi, tried: _Watch) -> None:
    api.objects["1"] = _object("1", "a")
    tried.watch.list()
    api.faults.append(unavailable())
    with pytest.raises(ApiUnavailable):
        tried.watch.list()
    assert tried.watch.objects == {"1": "a"}


def test_of_a_node_its_uid_labels_and_the_word_of_a_person_are_kept() -> None:
    found = watched_node(
        {"metadata": {"uid": "u", "labels": {"a": "b"}, "annotations": {"muster.dev/gpu-unhealthy": "0"}}}
    )
    assert (found.uid, found.labels, found.mark) == ("u", {"a": "b"}, "0")
    assert watched_node({"metadata": {"uid": "u"}}).mark is None


def test_a_node_that_is_not_there_is_none() -> None:
    api = _Pages()
    watch = NodeWatch(cast(ApiClient, api), "n1", changed=lambda: None, rng=random.Random(1))
    assert watch.node is None
    assert watch.pods is None
    stop = threading.Event()
    threads = watch.threads(stop)
    for thread in threads:
        thread.start()
    until(lambda: watch.pods == {}, "the list of pods")
    assert watch.node is None
    stop.set()
    for thread in threads:
        thread.join(LIMIT)
