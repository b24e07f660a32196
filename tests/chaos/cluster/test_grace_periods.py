"""Deletions of pods in chaos runs: who says nothing of a grace period gets the pod's, as in Kubernetes."""

import pytest

from queues.api.api_resources import NAMESPACES, PODS
from queues.api.names import QUEUE_LABEL
from tests.chaos.cluster import requests
from tests.chaos.cluster.store import GRACE, ObjectStore
from tests.chaos.history import USER

_KEY = ("team-a", "train")


@pytest.mark.parametrize(
    ("labels", "asked", "left"),
    [
        ({}, {}, GRACE),
        ({}, {"terminationGracePeriodSeconds": 9}, 9),
        ({}, {"terminationGracePeriodSeconds": 0}, None),
        # The policies write 1.
        ({QUEUE_LABEL: "team-a"}, {"terminationGracePeriodSeconds": 0}, 1),
    ],
)
def test_a_bound_pod_ends_in_the_time_that_it_asks_for(
    labels: dict[str, str], asked: dict[str, int], left: int | None
) -> None:
    store = ObjectStore(run=1)
    store.create(NAMESPACES, {"metadata": {"name": "team-a"}}, USER)
    spec = {"containers": [{"name": "main"}], "nodeName": "n1", **asked}
    pod = {"metadata": {"name": "train", "labels": labels}, "spec": spec}
    requests.create(store, PODS, "team-a", pod, USER)
    store.delete(PODS, _KEY, USER)
    found = store.find(PODS, _KEY)
    assert (found and found["metadata"]["deletionGracePeriodSeconds"]) == left
