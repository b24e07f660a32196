import json
from dataclasses import replace
from typing import Any

import pytest

from admission.volcano_jobs import plugins
from admission.volcano_jobs.pods import PodRules, PodSettings, PodTemplateRenderer
from queues.api.flavor_tolerations import own_tolerations
from queues.api.names import KEPT_FROM_AUTOSCALERS
from queues.api.validation.plugin_flags import PLUGINS
from queues.errors import InvalidDocument
from queues.workload import AdmissionId, NodeName, Toleration
from tests.builders.volcano_jobs import SETTINGS, UID, document, job, made_pod, read_job
from tests.function_calls import calls_of
from tests.tables import with_rows

NODE = NodeName("node-3")

MAIN = {"containers": [{"name": "main", "image": "x"}]}


def made(index: int = 2, settings: PodSettings = SETTINGS, **spec: Any) -> dict[str, Any]:
    named = job(**spec)
    return made_pod(named, named.tasks[0], index, settings=settings)


def pins(affinity: Any) -> Any:
    return affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]


def task(template: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    return [{"name": "worker", "replicas": 4, "template": template, **fields}]


def test_pods_are_kept_from_autoscalers_where_the_template_says_nothing_of_them() -> None:
    evict, disrupt = KEPT_FROM_AUTOSCALERS
    kept = PodSettings(admission=AdmissionId(7), kept=True)
    annotations = made(settings=kept)["metadata"]["annotations"]
    assert (annotations[evict], annotations[disrupt]) == ("false", "true")
    template = {"metadata": {"annotations": {evict: "true"}}, "spec": {"containers": [{"name": "a"}]}}
    annotations = made(settings=kept, tasks=task(template))["metadata"]["annotations"]
    assert (annotations[evict], annotations[disrupt]) == ("true", "true")
    assert not {evict, disrupt} & made()["metadata"]["annotations"].keys()


def test_a_pod_gets_the_tolerations_of_its_tasks_flavor_and_keeps_its_own() -> None:
    of_flavor = {"worker": (Toleration("gpu", "Exists"),), "other": (Toleration("slow", "Exists"),)}
    settings = PodSettings(admission=AdmissionId(7), tolerations=of_flavor)
    own = {"key": "team", "operator": "Exists"}
    pod = made(settings=settings, tasks=task({"spec": {**MAIN, "tolerations": [own]}}))
    assert pod["spec"]["tolerations"] == [own, {"key": "gpu", "operator": "Exists"}]
    assert own_tolerations(pod["spec"], pod["metadata"]["annotations"]) == [own]
    assert "tolerations" not in made(tasks=task({"spec": MAIN}))["spec"]


def test_a_pod_carries_the_names_labels_and_annotations_that_volcano_writes(golden: Any) -> None:
    pod = made()

    assert pod["metadata"]["name"] == "train-worker-2"
    assert pod["metadata"]["labels"] == golden
    assert pod["metadata"]["annotations"] == {
        "volcano.sh/task-index": "2",
        "volcano.sh/task-spec": "worker",
        "scheduling.k8s.io/group-name": f"train-{UID}",
        "volcano.sh/job-name": "train",
        "volcano.sh/queue-name": "default",
        "volcano.sh/job-version": "0",
        "volcano.sh/template-uid": "train-worker",
        "volcano.sh/job-retry-count": "0",
        "muster.dev/admission-id": "7",
        "muster.dev/seat": "worker/2",
    }


def test_a_pod_belongs_to_its_job() -> None:
    (owner,) = made()["metadata"]["ownerReferences"]

    named = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": UID}
    assert owner == {**named, "controller": True, "blockOwnerDeletion": True}


def test_a_pod_is_pinned_to_its_node_by_field() -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-3"]}]}

    assert [term] == pins(made()["spec"]["affinity"])


@pytest.mark.parametrize(
    ("written", "becomes"), [("volcano", "stock"), ("", "stock"), ("someone-elses", "someone-elses")]
)
def test_volcanos_scheduler_becomes_the_configured_one(written: str, becomes: str) -> None:
    settings = PodSettings(admission=AdmissionId(7), rules=PodRules(scheduler="stock"))

    assert becomes == made(settings=settings, schedulerName=written)["spec"]["schedulerName"]


def test_a_template_without_a_priority_class_gets_that_of_its_job() -> None:
    own = task({"spec": {"containers": [], "priorityClassName": "own"}})

    assert made(priorityClassName="high")["spec"]["priorityClassName"] == "high"
    assert made(priorityClassName="high", tasks=own)["spec"]["priorityClassName"] == "own"


@pytest.mark.parametrize(
    ("written", "default", "labelled"), [("high", 0, True), ("", 5, True), ("", 0, False)]
)
def test_policies_know_a_pod_of_a_class_by_a_label(written: str, default: int, labelled: bool) -> None:
    settings = PodSettings(admission=AdmissionId(7), default_priority=default)
    labels = made(settings=settings, priorityClassName=written)["metadata"]["labels"]
    assert labelled == ("muster.dev/never-preempts-next" in labels)


@pytest.mark.parametrize(("asked", "given"), [({"terminationGracePeriodSeconds": 0}, 1), ({}, None)])
def test_no_pod_vanishes_while_its_containers_run(asked: dict[str, int], given: int | None) -> None:
    pod = made(tasks=task({"spec": {"containers": [], **asked}}))
    assert pod["spec"].get("terminationGracePeriodSeconds") == given


@pytest.mark.parametrize(("path", "mode"), [("/root/.ssh", 0o600), ("/home/user/.ssh", 0o644)])
def test_ssh_mounts_the_keys_where_the_flag_says(path: str, mode: int) -> None:
    pod = made(plugins={"ssh": [f"--ssh-key-file-path={path}"]})

    (volume,) = pod["spec"]["volumes"]
    assert volume["secret"]["secretName"] == f"train-ssh-{UID}"
    assert volume["secret"]["defaultMode"] == mode
    (mount,) = pod["spec"]["containers"][0]["volumeMounts"]
    assert mount == {"name": "train-ssh", "mountPath": path, "subPath": ".ssh"}


def test_plugins_act_in_one_order_whatever_order_the_job_names_them_in() -> None:
    forward = {"env": [], "ssh": [], "svc": []}

    assert made(plugins=forward) == made(plugins=dict(reversed(forward.items())))


def test_partitions_count_off_the_indices() -> None:
    tasks = task({"spec": {}}, partitionPolicy={"totalPartitions": 2, "partitionSize": 2})

    labels = [made(index, tasks=tasks)["metadata"]["labels"]["volcano.sh/partition-id"] for index in range(4)]

    assert labels == ["0", "0", "1", "1"]


def test_the_user_who_created_the_job_is_written_on_its_pods() -> None:
    named = replace(job(), annotations={"muster.dev/user": "ann", "other": "x"})
    pod = made_pod(named, named.tasks[0])

    assert pod["metadata"]["annotations"]["muster.dev/user"] == "ann"
    assert "other" not in pod["metadata"]["annotations"]


def test_a_template_cannot_send_its_pods_past_the_scheduler() -> None:
    template = {"spec": {**MAIN, "nodeName": "n9"}}
    assert "nodeName" not in made(tasks=task(template))["spec"]


def test_a_pod_that_has_its_seat_does_not_wait_for_one() -> None:
    gates = [{"name": "muster.dev/admission"}, {"name": "example.org/wait"}]
    template = {"spec": {**MAIN, "schedulingGates": gates}}
    assert made(tasks=task(template))["spec"]["schedulingGates"] == gates[1:]


def test_a_template_cannot_forge_the_annotations_of_muster() -> None:
    forged = {"muster.dev/devices": "0", "muster.dev/recreated-from": "u", "muster.dev/user": "bob", "a": "b"}
    template = {"metadata": {"annotations": forged}, "spec": MAIN}
    annotations = made(tasks=task(template))["metadata"]["annotations"]

    assert annotations["a"] == "b"
    assert annotations.keys().isdisjoint(forged.keys() - {"a"})


def test_pods_of_a_job_stay_in_its_queue_whatever_their_template_says() -> None:
    labels = {"muster.dev/queue-name": "other", "muster.dev/released": "false", "a": "b"}
    annotations = {"scheduling.volcano.sh/queue-name": "other"}
    template = {"metadata": {"labels": labels, "annotations": annotations}, "spec": MAIN}
    metadata = made(tasks=task(template))["metadata"]

    assert (metadata["labels"]["a"], metadata["labels"]["muster.dev/released"]) == ("b", "true")
    assert metadata["labels"]["muster.dev/queue-name"] == job().queue
    assert metadata["annotations"]["scheduling.volcano.sh/queue-name"] == job().queue


def test_jobs_volumes_are_claims_mounted_in_every_container(golden: Any) -> None:
    pod = made(
        plugins={},
        volumes=[
            {"mountPath": "/data", "volumeClaimName": "shared"},
            {"mountPath": "/more", "volumeClaimName": "shared"},
            {"mountPath": "/own", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}},
        ],
    )

    shared, own = pod["spec"]["volumes"]
    assert shared["persistentVolumeClaim"] == {"claimName": "shared"}
    assert own["persistentVolumeClaim"]["claimName"].startswith("train-pvc-")
    assert [mount["mountPath"] for mount in pod["spec"]["containers"][0]["volumeMounts"]] == golden


HOSTILE = {
    "metadata": {"annotations": {"a": '50% "off" %(index)b \ufdd0index\ufdd0 é'}},
    "spec": {"containers": [{"name": "c", "args": ["%s", "%d", "\ufdd0node\ufdd0"]}]},
}


@pytest.mark.parametrize("escaped", [False, True])
@pytest.mark.parametrize("template", [{"spec": {"containers": [{"name": "c"}]}}, HOSTILE])
def test_what_users_have_written_is_no_placeholder(template: dict[str, Any], escaped: bool) -> None:
    tasks = task(template, partitionPolicy={"totalPartitions": 2, "partitionSize": 2})
    text = json.dumps(document(tasks=tasks, plugins={"svc": [], "env": []}), ensure_ascii=escaped)
    named = read_job(text.encode())
    renderer = PodTemplateRenderer(named, named.tasks[0], SETTINGS)

    for index in (0, 3):
        pod = json.loads(renderer.render(index, NODE))
        assert pod["metadata"]["name"] == f"{named.name}-worker-{index}"
        assert pod["metadata"]["labels"]["volcano.sh/partition-id"] == str(index // 2)
        assert pins(pod["spec"]["affinity"])[0]["matchFields"][0]["values"] == [NODE]
        written = template.get("metadata", {}).get("annotations", {})
        assert written.items() <= pod["metadata"]["annotations"].items()
        assert pod["spec"]["containers"][0].get("args") == template["spec"]["containers"][0].get("args")


def test_most_of_a_pod_is_made_once_for_all_pods_of_a_task() -> None:
    named = job(plugins={"svc": [], "ssh": [], "env": [], "pytorch": ["--master=worker"]})
    renderer = PodTemplateRenderer(named, named.tasks[0], SETTINGS)
    once = calls_of(lambda: PodTemplateRenderer(named, named.tasks[0], SETTINGS).render(0, NODE))
    assert calls_of(lambda: renderer.render(0, NODE)) < once / 20


def test_plugins_flags_and_fields_without_effect_are_named() -> None:
    svc, mpi = ["--publish-not-ready-addresses", "--colour=red"], ["--port=22", "--hosts=x"]
    named = job(
        plugins={"svc": svc, "mpi": mpi, "jax": []},
        policies=[
            {"event": "PodFailed", "action": "RestartJob"},
            {"exitCode": 3, "action": "EatJob"},
            {"events": ["OutOfSync", "PodEvicted"], "action": "AbortJob"},
            {"event": "PodPending", "action": "AbortJob", "timeout": "10m"},
            {"event": "JobUpdated", "action": "RestartJob", "timeout": "10m"},
        ],
    )

    assert named.unsupported == (
        "spec.policies[1].action EatJob",
        "spec.policies[2].event OutOfSync",
        "spec.policies[4].timeout",
        "spec.plugins.jax",
        "spec.plugins.svc --colour",
        "spec.plugins.mpi --hosts",
    )


@with_rows("written", "problem")
def test_a_flag_with_a_bad_value_is_refused_with_what_is_expected(
    written: dict[str, list[str]], problem: str
) -> None:
    with pytest.raises(InvalidDocument, match=problem):
        plugins.plugins_of(job(plugins=written))


def test_documents_are_checked_by_the_plugins_that_pods_are_made_with() -> None:
    assert plugins.PLUGINS.keys() == PLUGINS.keys()


def test_a_pod_on_the_hosts_network_still_resolves_names_of_the_cluster() -> None:
    def policy(**spec: Any) -> Any:
        template = {"spec": {"containers": [{"name": "a"}], **spec}}
        return made(tasks=task(template))["spec"].get("dnsPolicy")

    assert policy(hostNetwork=True) == "ClusterFirstWithHostNet"
    assert policy(hostNetwork=True, dnsPolicy="Default") == "Default"
    assert policy() is None
