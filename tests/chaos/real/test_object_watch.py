"""The watch of chaos runs on real API servers: what it missed it reads version by version, or it says so."""

from pathlib import Path

import pytest

from queues.api.api_resources import PODS
from queues.errors import ApiError
from tests.chaos.history import Document
from tests.chaos.real.object_watch import HistoryGap, ObjectWatch


def _pod(uid: str, version: int) -> Document:
    return {"metadata": {"uid": uid, "name": uid, "namespace": "a", "resourceVersion": str(version)}}


#: Pods at versions 11 to 14: one comes and goes, one changes.
_LISTS = {
    11: [_pod("stays", 10), _pod("brief", 11)],
    12: [_pod("stays", 12), _pod("brief", 11)],
    13: [_pod("stays", 12)],
    14: [_pod("stays", 12)],
}


def _watch(monkeypatch: pytest.MonkeyPatch, lists: dict[int, list[Document]]) -> ObjectWatch:
    def listed(self: ObjectWatch, kind: object, query: str) -> Document:
        if query == "limit=1":
            return {"metadata": {"resourceVersion": "14"}}
        version = int(query.partition("=")[2].partition("&")[0])
        return {"items": lists[version]}

    monkeypatch.setattr(ObjectWatch, "_listed", listed)
    watch = ObjectWatch(Path("unused"), 0.0)
    watch.take(PODS, "ADDED", _pod("stays", 10))
    return watch


def test_versions_that_no_watch_tells_are_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = _watch(monkeypatch, _LISTS)
    assert watch.catch_up(PODS, 10) == 14
    told = [(each.number, each.change, each.document["metadata"]["uid"]) for each in watch.history()]
    assert told == [
        (10, "ADDED", "stays"),
        (11, "ADDED", "brief"),
        (12, "MODIFIED", "stays"),
        (13, "DELETED", "brief"),
    ]
    assert all(each.earliest <= each.at for each in watch.history())


def test_a_version_that_is_forgotten_is_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgotten(self: object, path: str) -> Document:
        raise ApiError(method="GET", path=path, status=410, reason="compacted")

    monkeypatch.setattr("tests.chaos.real.object_watch.LocalClient.__init__", lambda *_, **__: None)
    monkeypatch.setattr("tests.chaos.real.object_watch.LocalClient.close", lambda self: None)
    monkeypatch.setattr("tests.chaos.real.object_watch.LocalClient.get", forgotten)
    with pytest.raises(HistoryGap):
        ObjectWatch(Path("unused"), 0.0).catch_up(PODS, 10)
