"""The Job controller of chaos runs: a sync that pauses goes on with what it read at its beginning."""

import pytest

from queues.api.api_resources import JOBS, NAMESPACES, PODS
from tests.chaos.cluster import job_syncs, requests
from tests.chaos.cluster.job_syncs import JobSyncs
from tests.chaos.cluster.store import ObjectStore, key_of
from tests.chaos.cluster.users import Users
from tests.chaos.drawn import documents
from tests.chaos.drawn.documents import Task
from tests.chaos.drawn.steps import UserAction
from tests.chaos.history import USER, Document

_KEY = ("team-a", "train")
#: Of the wall clock.
_NOW = 1_800_000_000.0


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> JobSyncs:
    """Of a cluster with one Job of three pods, which is not suspended; every sync that makes pods pauses."""
    monkeypatch.setattr(job_syncs, "_PAUSING", 1.0)
    store = ObjectStore(run=1)
    store.create(NAMESPACES, {"metadata": {"name": "team-a"}}, USER)
    task = Task(name="", replicas=3, gpus=1, annotations={})
    (job,) = documents.job("team-a/train", "team-b", "low", task).documents
    del job["metadata"]["labels"]  # no queue: nothing keeps it back
    requests.create(store, JOBS, "team-a", job, USER)
    return JobSyncs(store, seed=1, pause=True)


def _status(syncs: JobSyncs) -> Document:
    return dict(syncs.store.get(JOBS, _KEY)["status"])


def _suspend(syncs: JobSyncs) -> None:
    requests.patch(syncs.store, JOBS, _KEY, "", requests.MERGE, {"spec": {"suspend": True}}, USER)


def _live_pods(syncs: JobSyncs) -> int:
    return sum("deletionTimestamp" not in pod["metadata"] for pod in syncs.store.all(PODS))


def test_a_sync_without_a_pause_makes_all_pods_and_tells_so(syncs: JobSyncs) -> None:
    syncs.pause = False
    syncs.begin(0.0, _NOW)
    assert (_live_pods(syncs), _status(syncs)["active"], syncs.unfinished()) == (3, 3, "")


def test_a_sync_that_pauses_tells_nothing_before_its_last_pod(syncs: JobSyncs) -> None:
    syncs.begin(0.0, _NOW)
    assert _live_pods(syncs) < 3
    assert _status(syncs) == {}
    assert syncs.unfinished()
    syncs.begin(0.1, _NOW)
    assert not syncs.go_on(0.1)
    assert syncs.go_on(10.0)
    assert (_live_pods(syncs), _status(syncs)["active"], syncs.unfinished()) == (3, 3, "")


def test_what_users_want_in_a_sync_comes_when_one_pauses(syncs: JobSyncs) -> None:
    users = Users(syncs.store)
    syncs.on_pause = users.sync_pauses
    task = Task(name="", replicas=1, gpus=1, annotations={})
    for name in ("one", "another"):
        wanted = documents.pod(f"team-a/{name}", "team-b", "high", task).documents
        users.act(UserAction(at=0.0, verb="create-in-sync", documents=wanted))
    assert _live_pods(syncs) == 0
    syncs.begin(0.0, _NOW)
    assert syncs.store.find(PODS, ("team-a", "one"))
    assert not syncs.store.find(PODS, ("team-a", "another"))


def test_pods_of_a_job_that_was_suspended_in_the_pause_are_made_and_only_the_next_sync_tells_of_it(
    syncs: JobSyncs,
) -> None:
    syncs.begin(0.0, _NOW)
    _suspend(syncs)
    syncs.begin(0.1, _NOW)
    syncs.go_on(10.0)
    assert (_live_pods(syncs), _status(syncs)) == (3, {})
    syncs.begin(10.1, _NOW)
    (condition,) = _status(syncs)["conditions"]
    assert (_live_pods(syncs), condition["type"], condition["status"]) == (0, "Suspended", "True")


def test_pods_of_a_job_that_was_deleted_in_the_pause_are_made(syncs: JobSyncs) -> None:
    syncs.begin(0.0, _NOW)
    syncs.store.delete(JOBS, _KEY, USER)
    assert syncs.go_on(10.0)
    assert (_live_pods(syncs), syncs.unfinished()) == (3, "")


def test_a_pod_that_ends_slowly_is_replaced_only_when_it_has_ended(syncs: JobSyncs) -> None:
    syncs.pause = False
    syncs.begin(0.0, _NOW)
    slow, *_ = syncs.store.all(PODS)
    requests.bind(syncs.store, slow, "node-1", USER)
    requests.delete(syncs.store, PODS, key_of(slow), {"gracePeriodSeconds": 30}, USER)
    syncs.begin(1.0, _NOW)
    assert (_live_pods(syncs), _status(syncs)["active"]) == (2, 2)
    ending = syncs.store.get(PODS, key_of(slow))
    syncs.store.replace(PODS, key_of(slow), {**ending, "status": {"phase": "Failed"}}, USER)
    syncs.begin(2.0, _NOW)
    assert (_live_pods(syncs), _status(syncs)["active"]) == (3, 3)
