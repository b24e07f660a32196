"""What runs is what was admitted, whatever users change or forge in between."""

from collections.abc import Iterator
from contextlib import suppress

import pytest

from deploy.local.client import LocalClient
from queues.errors import ApiError
from tests.e2e.support.api_paths import Document, path
from tests.e2e.support.gang_kinds import finish, finish_all
from tests.e2e.support.manifests import batch_job, container, pod_spec, volcano_job
from tests.e2e.support.namespace_history import admission_id
from tests.e2e.support.sandbox import GPU, Sandbox

#: An identity whose owner references the admission policies believe.
JOB_CONTROLLER = "system:serviceaccount:kube-system:job-controller"


def gpus_of(pod: Document) -> int:
    return int(pod["spec"]["containers"][0]["resources"]["requests"][GPU])


def test_a_suspended_job_that_asks_more_before_it_is_resumed_does_not_run_with_its_old_seats(
    sandbox: Sandbox,
) -> None:
    """Its owner suspends it, raises the request as soon as the API server takes that, and resumes it."""
    sandbox.add_nodes(3)
    sandbox.add_queue(capability={GPU: 16})
    sandbox.add(batch_job(sandbox, "race", 3, 5))
    sandbox.wait_running("race-", 3)
    at = path("batch/v1 Job", sandbox.name, "race")
    larger = {"spec": {"template": {"spec": {"containers": [container(8)]}}}}
    with sandbox.as_user("alice") as alice:

        def is_larger() -> bool:
            with suppress(ApiError):  # its template is immutable as long as it has pods
                alice.merge(at, larger)
                return True
            return False

        alice.merge(at, {"spec": {"suspend": True}})
        sandbox.wait(is_larger, "the request to be raised")
        alice.merge(at, {"spec": {"suspend": False}})
    sandbox.wait_reason("race", "NeverFits")
    assert not [pod for pod in sandbox.running("race-") if gpus_of(pod) > 5], "larger than what was booked"
    sandbox.wait_free()


@pytest.fixture
def elsewhere(sandbox: Sandbox) -> Iterator[str]:
    """Another tenant's namespace, with an object that can own others."""
    name = f"{sandbox.name}-2"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    sandbox.api.create(path("Namespace", ""), namespace)
    yield name
    for pod in sandbox.api.get(path("Pod", name))["items"]:
        sandbox.api.delete(path("Pod", name, pod["metadata"]["name"]))
    sandbox.wait(lambda: not sandbox.api.get(path("Pod", name))["items"], "the intruder to go")
    sandbox.api.delete(path("Namespace", "", name))


def test_a_pod_gets_no_seat_of_a_job_in_another_namespace_whose_uid_it_names(
    sandbox: Sandbox, elsewhere: str
) -> None:
    sandbox.add_nodes(2)
    sandbox.add_queue()
    sandbox.add(batch_job(sandbox, "victim", 2, 5))
    running = sandbox.wait_running("victim-", 2)
    uid = sandbox.get("batch/v1 Job", "victim")["metadata"]["uid"]
    # Its controller waits ten seconds before it makes another pod: so long the seat is vacant.
    finish(sandbox, [running[0]["metadata"]["name"]], exit_code=1)
    sandbox.wait(lambda: len(sandbox.running("victim-")) == 1, "a seat to be vacant")

    anchor = sandbox.api.create(
        path("ConfigMap", elsewhere),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "anchor"}},
    )
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "victim", "uid": uid, "controller": True}
    kept = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "anchor",
        "uid": anchor["metadata"]["uid"],
    }
    intruder = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "a-intruder",
            "labels": {
                "muster.dev/queue-name": sandbox.queues[0],
                "batch.kubernetes.io/controller-uid": uid,
            },
            "ownerReferences": [owner, kept],
        },
        "spec": pod_spec(sandbox.name, 8),
    }
    with LocalClient(sandbox.stack.cluster.kubeconfig_for(JOB_CONTROLLER)) as forger:
        forger.create(path("Pod", elsewhere), intruder)

    def is_no_pod_of_the_job() -> bool:
        # NotItsPod, until the garbage collector takes out the reference to an owner that the namespace does not have:
        # from then on the pod waits for itself, or runs.
        waits = "a-intruder" in {name for name, *_ in sandbox.ledger.reasons(elsewhere)}
        return waits or bool(sandbox.ledger.admissions(elsewhere, "a-intruder"))

    sandbox.wait(is_no_pod_of_the_job, "the intruder to be a workload of its own")
    ((admission, state),) = sandbox.ledger.admissions(sandbox.name, "victim")
    assert state == "open"
    seats = {admission_id(moment) for moment in sandbox.history.of(elsewhere, "a-intruder")}
    assert str(admission) not in seats


def test_a_gang_whose_pods_are_enlarged_on_their_way_is_admitted_with_what_they_will_ask(
    sandbox: Sandbox,
) -> None:
    defaults = {"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "500m"}}
    limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "defaults"}}
    sandbox.api.create(
        f"/api/v1/namespaces/{sandbox.name}/limitranges", {**limits, "spec": {"limits": [defaults]}}
    )
    sandbox.add_nodes(2)
    sandbox.add_queue()
    sandbox.add(volcano_job(sandbox, "train", 2, 5))
    sandbox.wait_running("train-", 2)
    assert sandbox.held()[f"queue {sandbox.name} cpu"] == 1_000
    assert [kind for kind, _, _ in sandbox.ledger.decisions(sandbox.name, "train") if kind == "evict"] == []


def test_gangs_that_a_resource_quota_has_room_for_one_by_one_run_one_by_one(sandbox: Sandbox) -> None:
    quotas = f"/api/v1/namespaces/{sandbox.name}/resourcequotas"
    sandbox.api.create(quotas, {"metadata": {"name": "team"}, "spec": {"hard": {"pods": "6"}}})
    sandbox.wait(lambda: "hard" in sandbox.api.get(f"{quotas}/team").get("status", {}), "the quota to hold")
    sandbox.add_nodes(2)
    sandbox.add_queue()
    sandbox.add(batch_job(sandbox, "first", 4), volcano_job(sandbox, "second", 4))
    (first,) = {pod["metadata"]["name"].partition("-")[0] for pod in sandbox.wait_running("", 4)}
    (second,) = {"first", "second"} - {first}
    said = sandbox.wait_reason(second, "NamespaceQuota")
    assert said.startswith(f"ResourceQuota team of namespace {sandbox.name}: found room for ")
    assert "expected 4 for the pods that have to start together" in said
    assert sandbox.ledger.admissions(sandbox.name, second) == []
    finish_all(sandbox, f"{first}-")
    sandbox.wait_running(f"{second}-", 4)
    for name in ("first", "second"):
        assert "evict" not in [kind for kind, _, _ in sandbox.ledger.decisions(sandbox.name, name)]


def test_a_job_that_is_suspended_while_it_runs_never_has_two_pods_for_one_seat(sandbox: Sandbox) -> None:
    """Its owner resumes it at once, while its pods still end; those of a Job with its nodes come up without a gate."""
    sandbox.add_nodes(1)
    sandbox.add_queue(capability={GPU: 4})
    sandbox.add(batch_job(sandbox, "train", 2, 2, annotations={"kwok.muster.dev/stop-after": "2s"}))
    before = {pod["metadata"]["uid"] for pod in sandbox.wait_running("train-", 2)}
    with sandbox.as_user("alice") as alice:
        for suspend in (True, False):
            alice.merge(path("batch/v1 Job", sandbox.name, "train"), {"spec": {"suspend": suspend}})

    def others_run() -> bool:
        running = {pod["metadata"]["uid"] for pod in sandbox.running("train-")}
        return len(running - before) == 2

    sandbox.wait(others_run, "other pods to take the places")
    there: set[str] = set()
    for moment in sandbox.history.of(sandbox.name, "train-"):
        (there.discard if moment.kind == "DELETED" else there.add)(moment.name)
        assert len(there) <= 2, "two pods for one seat"
