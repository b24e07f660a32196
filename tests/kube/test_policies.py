"""The admission policies, evaluated by a real API server: what waits, and who may end the waiting."""

import itertools
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from admission.kube.client import Client
from admission.kube.guards import guards
from admission.kube.policies import JOB_CONTROLLER, PolicyOptions, mutating_policies
from deploy.local.cluster import LocalCluster
from queues.errors import Refused
from tests.kube.objects import applied, batch_job, becomes, exists, pod

MUSTER = "system:serviceaccount:muster-system:muster"
QUEUED = {"muster.dev/queue-name": "team-a"}
GATE = [{"name": "muster.dev/admission"}]
#: Annotations by which Muster tells whose seat a pod is in.
SIGNS = [f"muster.dev/{name}" for name in ("seat", "admission-id", "devices", "recreated-from")]
_numbers = itertools.count(1)


class Place:
    """A namespace of the test's own, seen by several people."""

    def __init__(self, namespace: str, cluster: LocalCluster) -> None:
        self.namespace = namespace
        self._cluster = cluster
        self._clients: dict[str, Client] = {}

    async def as_user(self, user: str) -> Client:
        if user not in self._clients:
            # Everything is allowed by RBAC: whatever is refused here, a policy refused.
            kubeconfig = self._cluster.kubeconfig_for(user, ("system:masters",))
            self._clients[user] = await Client.connect(kubeconfig)
        return self._clients[user]

    def path(self, resource: str, name: str = "") -> str:
        prefix = "/apis/batch/v1" if resource == "jobs" else "/api/v1"
        return f"{prefix}/namespaces/{self.namespace}/{resource}" + (f"/{name}" if name else "")

    async def create(self, resource: str, document: Mapping[str, Any], *, by: str = "alice") -> Any:
        answer = await (await self.as_user(by)).create(self.path(resource), document)
        return msgspec.json.decode(answer)

    async def patch(
        self, resource: str, name: str, patch: Any, *, by: str = "alice", kind: Any = "merge"
    ) -> Any:
        answer = await (await self.as_user(by)).patch(self.path(resource, name), patch, kind=kind)
        return msgspec.json.decode(answer)

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()


@pytest_asyncio.fixture(scope="session")
async def guarded_cluster(door_cluster: LocalCluster) -> LocalCluster:
    options = PolicyOptions(identity=MUSTER)
    async with await Client.connect(door_cluster.kubeconfig) as client:
        for document in [*mutating_policies(options), *guards(options)]:
            await applied(client, document)
        await _policies_are_in_force(client)
    return door_cluster


async def _policies_are_in_force(client: Client) -> None:
    """The API server notices new policies after a moment; probes are dry runs, so nothing is left behind."""
    pods, jobs = "/api/v1/namespaces/default/pods", "/apis/batch/v1/namespaces/default/jobs"

    async def waits(path: str, document: Any, sign: bytes) -> bool:
        return sign in await client.create(path, document, dry_run=True)

    async def refused(path: str, document: Any) -> bool:
        try:
            await client.create(path, document, dry_run=True)
        except Refused:
            return True
        return False

    await becomes(lambda: waits(pods, pod("probe", labels=QUEUED), b"muster.dev/admission"))
    await becomes(lambda: waits(pods, pod("probe", schedulerName="volcano"), b"muster.dev/admission"))
    await becomes(lambda: waits(jobs, batch_job("probe", labels=QUEUED), b'"suspend":true'))
    await becomes(lambda: waits(jobs, batch_job("probe", schedulerName="volcano"), b'"suspend":true'))
    await becomes(lambda: refused(pods, pod("probe", labels={"muster.dev/released": "true"})))
    await becomes(lambda: refused(jobs, _signed_job()))


def _signed_job() -> dict[str, Any]:
    return batch_job("probe", labels=QUEUED, template_labels={"muster.dev/released": "true"})


@pytest_asyncio.fixture
async def place(guarded_cluster: LocalCluster) -> AsyncIterator[Place]:
    async for one in _place(guarded_cluster, {}):
        yield one


@pytest_asyncio.fixture
async def gated_place(guarded_cluster: LocalCluster) -> AsyncIterator[Place]:
    async for one in _place(guarded_cluster, {"labels": {"muster.dev/gated": "true"}}):
        yield one


async def _place(
    cluster: LocalCluster, metadata: dict[str, Any], prefix: str = "policies"
) -> AsyncIterator[Place]:
    place = Place(f"{prefix}-{next(_numbers)}", cluster)
    admin = await place.as_user("admin")
    namespace = {"metadata": {"name": place.namespace, **metadata}}
    await admin.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", **namespace})
    await becomes(lambda: exists(admin, place.path("serviceaccounts", "default")))
    yield place
    await place.close()


# -- what waits ---------------------------------------------------------------------------------------------


async def test_a_pod_that_names_a_queue_is_gated_and_signed(place: Place) -> None:
    made = await place.create("pods", pod("a", labels=QUEUED))
    assert made["spec"]["schedulingGates"] == GATE
    assert made["metadata"]["labels"] == {**QUEUED, "muster.dev/released": "false"}
    assert made["metadata"]["annotations"] == {"muster.dev/user": "alice"}


async def test_gates_that_a_pod_has_already_stay_beside_ours(place: Place) -> None:
    made = await place.create(
        "pods", pod("a", labels=QUEUED, schedulingGates=[{"name": "example.com/other"}])
    )
    assert made["spec"]["schedulingGates"] == [{"name": "example.com/other"}, *GATE]


async def test_our_gate_is_not_added_twice(place: Place) -> None:
    made = await place.create("pods", pod("a", labels=QUEUED, schedulingGates=GATE))
    assert made["spec"]["schedulingGates"] == GATE


async def test_a_pod_that_names_no_queue_is_left_alone(place: Place) -> None:
    made = await place.create("pods", pod("a"))
    assert "schedulingGates" not in made["spec"]
    assert "labels" not in made["metadata"]
    assert "annotations" not in made["metadata"]


async def test_every_pod_waits_in_a_gated_namespace(gated_place: Place) -> None:
    made = await gated_place.create("pods", pod("a"))
    assert made["spec"]["schedulingGates"] == GATE
    assert made["metadata"]["labels"]["muster.dev/queue-name"] == "default"


async def test_a_pod_for_volcano_waits_in_the_default_queue_and_gets_our_scheduler(place: Place) -> None:
    made = await place.create("pods", pod("a", schedulerName="volcano"))
    assert made["spec"]["schedulingGates"] == GATE
    assert made["spec"]["schedulerName"] == "default-scheduler"
    assert made["metadata"]["labels"]["muster.dev/queue-name"] == "default"


@pytest.mark.parametrize("key", ["scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name"])
async def test_a_pod_of_a_group_waits_in_the_queue_of_its_group(place: Place, key: str) -> None:
    made = await place.create("pods", pod("a", annotations={key: "training"}, schedulerName="volcano"))
    assert made["spec"]["schedulingGates"] == GATE
    assert made["metadata"]["labels"] == {"muster.dev/released": "false"}


async def test_volcanos_annotation_names_the_queue_of_a_pod(place: Place) -> None:
    made = await place.create("pods", pod("a", annotations={"scheduling.volcano.sh/queue-name": "team-b"}))
    assert made["spec"]["schedulingGates"] == GATE
    assert made["metadata"]["labels"]["muster.dev/queue-name"] == "team-b"


async def test_another_scheduler_keeps_its_pods(place: Place) -> None:
    annotations = {"scheduling.k8s.io/group-name": "theirs"}
    made = await place.create("pods", pod("a", annotations=annotations, schedulerName="their-scheduler"))
    assert "schedulingGates" not in made["spec"]
    assert made["spec"]["schedulerName"] == "their-scheduler"


@pytest.mark.parametrize("key", ["muster.dev/queue-name", "scheduling.volcano.sh/queue-name"])
async def test_a_namespace_names_the_queue_of_its_pods(guarded_cluster: LocalCluster, key: str) -> None:
    metadata = {"labels": {"muster.dev/gated": "true"}, "annotations": {key: "team-c"}}
    async for place in _place(guarded_cluster, metadata):
        made = await place.create("pods", pod("a"))
        assert made["metadata"]["labels"]["muster.dev/queue-name"] == "team-c"


async def test_a_job_that_names_a_queue_is_suspended_and_its_pods_will_wait(place: Place) -> None:
    made = await place.create("jobs", batch_job("a", labels=QUEUED))
    assert made["spec"]["suspend"] is True
    assert made["spec"]["template"]["metadata"]["labels"]["muster.dev/queue-name"] == "team-a"
    assert made["metadata"]["annotations"]["muster.dev/user"] == "alice"
    assert made["spec"]["template"]["metadata"]["annotations"]["muster.dev/user"] == "alice"


async def test_a_job_for_volcano_waits_in_the_default_queue_and_gets_our_scheduler(place: Place) -> None:
    made = await place.create("jobs", batch_job("a", schedulerName="volcano"))
    assert made["spec"]["suspend"] is True
    assert made["metadata"]["labels"]["muster.dev/queue-name"] == "default"
    assert made["spec"]["template"]["spec"]["schedulerName"] == "default-scheduler"


async def test_every_job_waits_in_a_gated_namespace(gated_place: Place) -> None:
    made = await gated_place.create("jobs", batch_job("a"))
    assert made["spec"]["suspend"] is True
    assert made["metadata"]["labels"]["muster.dev/queue-name"] == "default"


async def test_a_job_that_names_no_queue_runs_at_once(place: Place) -> None:
    made = await place.create("jobs", batch_job("a"))
    assert made["spec"]["suspend"] is False
    assert "annotations" not in made["metadata"]


async def test_nobody_signs_with_the_name_of_another(place: Place) -> None:
    made = await place.create("pods", pod("a", labels=QUEUED, annotations={"muster.dev/user": "bob"}))
    assert made["metadata"]["annotations"]["muster.dev/user"] == "alice"


async def test_a_pod_that_looks_complete_is_signed_nevertheless_unless_a_job_made_it(place: Place) -> None:
    complete = pod(
        "a",
        labels={**QUEUED, "muster.dev/released": "false"},
        annotations={"muster.dev/user": "bob"},
        schedulingGates=GATE,
    )
    made = await place.create("pods", complete)
    assert made["metadata"]["annotations"]["muster.dev/user"] == "alice"
    complete["metadata"]["name"] = "b"
    made = await place.create("pods", complete, by=JOB_CONTROLLER)
    assert made["metadata"]["annotations"]["muster.dev/user"] == "bob"


# -- who may end the waiting --------------------------------------------------------------------------------


def _refusal(refused: pytest.ExceptionInfo[Refused]) -> str:
    assert refused.value.facts["status"] in (403, 422)
    return str(refused.value)


async def test_a_user_cannot_remove_the_gate(place: Place) -> None:
    await place.create("pods", pod("a", labels=QUEUED))
    with pytest.raises(Refused) as refused:
        await place.patch("pods", "a", {"spec": {"schedulingGates": []}})
    assert "muster.dev/admission: found removed by alice; expected it to stay" in _refusal(refused)


async def test_a_user_cannot_drop_the_labels_that_a_gated_pod_is_guarded_by(place: Place) -> None:
    await place.create("pods", pod("a", labels=QUEUED))
    patch = {"metadata": {"labels": None}, "spec": {"schedulingGates": []}}
    with pytest.raises(Refused):
        await place.patch("pods", "a", patch)


async def test_muster_removes_the_gate_and_pins_the_pod_in_one_patch(place: Place) -> None:
    made = await place.create("pods", pod("a", labels=QUEUED))
    patch = [
        {"op": "test", "path": "/metadata/uid", "value": made["metadata"]["uid"]},
        {"op": "test", "path": "/spec/schedulingGates/0/name", "value": "muster.dev/admission"},
        {"op": "remove", "path": "/spec/schedulingGates/0"},
        {"op": "add", "path": "/metadata/labels/muster.dev~1released", "value": "true"},
        {"op": "add", "path": "/metadata/annotations/muster.dev~1admission-id", "value": "7"},
    ]
    released = await place.patch("pods", "a", patch, by=MUSTER, kind="json")
    assert "schedulingGates" not in released["spec"]
    assert released["metadata"]["labels"]["muster.dev/released"] == "true"


async def test_a_user_may_still_label_a_pod_that_waits(place: Place) -> None:
    await place.create("pods", pod("a", labels=QUEUED))
    made = await place.patch("pods", "a", {"metadata": {"labels": {"colour": "blue"}}})
    assert made["metadata"]["labels"]["colour"] == "blue"


async def test_a_pod_that_waits_may_move_to_another_queue_but_not_leave_all(place: Place) -> None:
    await place.create("pods", pod("a", labels=QUEUED))
    made = await place.patch("pods", "a", {"metadata": {"labels": {"muster.dev/queue-name": "team-b"}}})
    assert made["metadata"]["labels"]["muster.dev/queue-name"] == "team-b"
    with pytest.raises(Refused) as refused:
        await place.patch("pods", "a", {"metadata": {"labels": {"muster.dev/queue-name": None}}})
    assert 'Label muster.dev/queue-name: found none, expected "team-b"' in _refusal(refused)


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {"muster.dev/released": "true"}},
        {"annotations": {"muster.dev/admission-id": "7"}},
        {"annotations": {"muster.dev/seat": "a/0"}},
        {"annotations": {"muster.dev/devices": "0,1"}},
        {"annotations": {"muster.dev/recreated-from": "another"}},
        {"annotations": {"muster.dev/user": "bob"}},
    ],
)
async def test_a_user_cannot_write_musters_names_on_a_pod(place: Place, metadata: dict[str, Any]) -> None:
    await place.create("pods", pod("a", labels=QUEUED))
    with pytest.raises(Refused) as refused:
        await place.patch("pods", "a", {"metadata": metadata})
    assert "which only Muster writes" in _refusal(refused)


async def test_a_user_cannot_create_a_released_pod(place: Place) -> None:
    with pytest.raises(Refused) as refused:
        await place.create("pods", pod("a", labels={**QUEUED, "muster.dev/released": "true"}))
    assert 'found "true" and no scheduling gate, created by alice' in _refusal(refused)


@pytest.mark.parametrize("name", SIGNS)
async def test_a_user_cannot_sign_a_pod(place: Place, name: str) -> None:
    with pytest.raises(Refused) as refused:
        await place.create("pods", pod("a", labels=QUEUED, annotations={name: "1"}))
    assert "only Muster writes them" in _refusal(refused)


async def test_pods_that_muster_creates_do_not_wait(place: Place) -> None:
    labels = {**QUEUED, "muster.dev/released": "true"}
    signed = pod("a", labels=labels, annotations={"muster.dev/admission-id": "7", "muster.dev/user": "bob"})
    made = await place.create("pods", signed, by=MUSTER)
    assert "schedulingGates" not in made["spec"]
    assert made["metadata"]["annotations"]["muster.dev/user"] == "bob"


async def test_the_outcome_of_a_pod_is_stored_before_it_may_go(place: Place) -> None:
    signed = pod("a", labels={"muster.dev/released": "true"})
    signed["metadata"]["finalizers"] = ["muster.dev/outcome"]
    await place.create("pods", signed, by=MUSTER)
    with pytest.raises(Refused) as refused:
        await place.patch("pods", "a", {"metadata": {"finalizers": None}})
    assert "Finalizer muster.dev/outcome: found removed by alice" in _refusal(refused)
    await place.patch("pods", "a", {"metadata": {"finalizers": None}}, by=MUSTER)


async def test_a_user_cannot_start_a_job_that_waits(place: Place) -> None:
    await place.create("jobs", batch_job("a", labels=QUEUED))
    with pytest.raises(Refused) as refused:
        await place.patch("jobs", "a", {"spec": {"suspend": False}})
    assert 'found false written by alice, expected true until Muster admits the Job to queue "team-a"' in (
        _refusal(refused)
    )
    with pytest.raises(Refused):
        await place.patch("jobs", "a", {"metadata": {"labels": None}, "spec": {"suspend": False}})


async def test_a_job_that_waits_may_move_to_another_queue_but_not_leave_all(place: Place) -> None:
    # With no label of its own left, a Job would get its template's back.
    await place.create("jobs", batch_job("a", labels={**QUEUED, "colour": "blue"}))
    await place.patch("jobs", "a", {"metadata": {"labels": {"muster.dev/queue-name": "team-b"}}})
    with pytest.raises(Refused):
        await place.patch("jobs", "a", {"metadata": {"labels": {"muster.dev/queue-name": None}}})


async def test_a_running_job_stays_in_its_queue(place: Place) -> None:
    await place.create("jobs", batch_job("a", labels=QUEUED))
    await place.patch("jobs", "a", {"spec": {"suspend": False}}, by=MUSTER)
    with pytest.raises(Refused) as refused:
        await place.patch("jobs", "a", {"metadata": {"labels": {"muster.dev/queue-name": "team-b"}}})
    assert "only while it is suspended" in _refusal(refused)


async def test_a_user_cannot_declare_the_pods_of_a_job_released(place: Place) -> None:
    with pytest.raises(Refused) as refused:
        await place.create("jobs", _signed_job())
    assert "The pod template has label muster.dev/released" in _refusal(refused)
    await place.create("jobs", batch_job("a", labels=QUEUED))
    template = {"metadata": {"labels": {"muster.dev/released": "true"}}}
    with pytest.raises(Refused) as refused:
        await place.patch("jobs", "a", {"spec": {"template": template}})
    assert "Label muster.dev/released of the pod template: found" in _refusal(refused)


@pytest.mark.parametrize("name", SIGNS)
async def test_a_user_cannot_sign_the_pods_of_a_job(place: Place, name: str) -> None:
    signed = batch_job("a", labels=QUEUED)
    signed["spec"]["template"].setdefault("metadata", {})["annotations"] = {name: "1"}
    with pytest.raises(Refused) as refused:
        await place.create("jobs", signed)
    assert "only Muster writes them" in _refusal(refused)
    await place.create("jobs", batch_job("a", labels=QUEUED))
    with pytest.raises(Refused) as refused:
        await place.patch("jobs", "a", {"spec": {"template": {"metadata": {"annotations": {name: "1"}}}}})
    assert "which only Muster writes" in _refusal(refused)


RELEASED_TEMPLATE = {"metadata": {"labels": {"muster.dev/released": "true"}}}


async def test_pods_of_a_released_job_do_not_wait_and_others_do(place: Place) -> None:
    for name, template in (("directed", RELEASED_TEMPLATE), ("by-pod", {})):
        await place.create("jobs", batch_job(name, labels=QUEUED))
        await place.patch("jobs", name, {"spec": {"suspend": False, "template": template}}, by=MUSTER)
    directed, by_pod = [await _pod_of(place, name) for name in ("directed", "by-pod")]
    assert "schedulingGates" not in directed["spec"]
    assert by_pod["spec"]["schedulingGates"] == GATE
    # Inherited from the Job's requester, by way of the template.
    assert directed["metadata"]["annotations"]["muster.dev/user"] == "alice"
    assert by_pod["metadata"]["annotations"]["muster.dev/user"] == "alice"


async def test_pods_whose_template_carries_all_of_it_wait_without_being_changed_again(place: Place) -> None:
    """As Muster resumes a Job whose pods are released one by one: saves the API server a patch per pod."""
    await place.create("jobs", batch_job("a", labels=QUEUED))
    template = {"metadata": {"labels": {"muster.dev/released": "false"}}, "spec": {"schedulingGates": GATE}}
    await place.patch("jobs", "a", {"spec": {"suspend": False, "template": template}}, by=MUSTER)
    made = await _pod_of(place, "a")
    assert made["spec"]["schedulingGates"] == GATE
    assert made["metadata"]["labels"]["muster.dev/released"] == "false"
    assert made["metadata"]["annotations"]["muster.dev/user"] == "alice"
    with pytest.raises(Refused):
        await place.patch("pods", made["metadata"]["name"], {"spec": {"schedulingGates": []}})


async def test_a_released_job_cannot_grow_beyond_its_seats(place: Place) -> None:
    await place.create("jobs", batch_job("a", labels=QUEUED, parallelism=2))
    await place.patch("jobs", "a", {"spec": {"suspend": False, "template": RELEASED_TEMPLATE}}, by=MUSTER)
    with pytest.raises(Refused) as refused:
        await place.patch("jobs", "a", {"spec": {"parallelism": 3}})
    assert "spec.parallelism: found 3, expected at most 2" in _refusal(refused)
    await place.patch("jobs", "a", {"spec": {"parallelism": 1}})


async def test_no_other_controller_may_declare_its_pods_released(place: Place) -> None:
    released = pod("a", labels={"muster.dev/released": "true"})
    with pytest.raises(Refused):
        await place.create("pods", released, by="system:serviceaccount:kube-system:replicaset-controller")
    await place.create("pods", released, by=JOB_CONTROLLER)


async def test_a_controller_manager_with_one_credential_is_believed_for_pods_of_jobs(
    place: Place,
) -> None:
    released = pod("a", labels={"muster.dev/released": "true"})
    with pytest.raises(Refused):
        await place.create("pods", released, by="system:kube-controller-manager")
    released["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1", "controller": True}
    ]
    await place.create("pods", released, by="system:kube-controller-manager")


async def _pod_of(place: Place, job: str) -> Any:
    client = await place.as_user("admin")
    found: list[Any] = []

    async def created() -> bool:
        answer = await client.get(place.path("pods"), labelSelector=f"job-name={job}")
        found[:] = msgspec.json.decode(answer)["items"]
        return bool(found)

    await becomes(created)
    return found[0]
