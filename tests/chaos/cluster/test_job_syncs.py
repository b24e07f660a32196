"""The Job controller of chaos runs: a sync that pauses goes on with what it read at its beginning."""

import pytest

from queues.api.api_resources import JOBS, NAMESPACES, PODS
from tests.chaos.cluster import job_syncs, requests
from tests.chaos.cluster.job_syncs import JobSyncs
from tests.chaos.cluster.store import ObjectStore
from tests.chaos.drawn import documents
from tests.chaos.drawn.documents import Task
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
