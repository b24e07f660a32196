from base64 import b64decode
from dataclasses import replace
from typing import Any

import pytest

from admission.facts.pods import PodFact, PodPhase
from admission.facts.volcano_jobs import JobSpec
from admission.volcano_jobs import pod_changes
from admission.volcano_jobs.pod_changes import JobWork, companions_of, work_for
from admission.volcano_jobs.pods import PodRules
from admission.volcano_jobs.state import JobState, Phase
from admission.volcano_jobs.view import JobView
from queues.admissions import AdmissionState
from queues.errors import InvalidDocument
from queues.workload import AdmissionId
from tests.builders.volcano_jobs import KEY, UID, admission, document, job, pod, read_job

RULES = PodRules()


def work(
    *pods: Any, phase: Phase = Phase.PENDING, version: int = 0, admissions: Any = None, **view: Any
) -> JobWork:
    held = (admission(),) if admissions is None else admissions
    given = {"spec": job(), "pods": pods, "admissions": held, **view}
    state = JobState(uid=UID, phase=phase, version=version)
    return work_for(KEY, state, JobView(**given), 0, rules=RULES)


def made(work: JobWork) -> list[tuple[int, str]]:
    return [(wanted.index, wanted.node) for wanted in work.creates]


def removed(work: JobWork) -> dict[str, str]:
    return {unwanted.uid: unwanted.reason for unwanted in work.deletes}


def test_every_seat_of_an_open_admission_gets_its_pod_on_its_node() -> None:
    assert made(work()) == [(0, "node-0"), (1, "node-1"), (2, "node-2"), (3, "node-3")]


def test_pods_of_a_large_job_are_made_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_changes, "MOST_CREATES", 3)
    assert made(work()) == [(0, "node-0"), (1, "node-1"), (2, "node-2")]
    assert made(work(*(pod(index) for index in range(3)))) == [(3, "node-3")]


def test_without_an_admission_nothing_is_made() -> None:
    assert not work(admissions=())
    assert made(work(admissions=(admission(state=AdmissionState.EVICTING),))) == []


def test_a_pod_that_exists_is_not_made_again_not_even_while_it_goes() -> None:
    assert made(work(pod(0), pod(1, PodPhase.FAILED), pod(2, deleting=True))) == [(3, "node-3")]


def test_a_pod_that_was_deleted_is_made_again() -> None:
    assert made(work(*(pod(index) for index in (0, 1, 3)), phase=Phase.RUNNING)) == [(2, "node-2")]


def test_a_seat_that_succeeded_never_runs_twice() -> None:
    found = work(outcomes={("worker", 1): PodPhase.SUCCEEDED})
    assert made(found) == [(0, "node-0"), (2, "node-2"), (3, "node-3")]


def test_no_pod_is_made_for_a_seat_that_it_would_outgrow() -> None:
    assert made(work(outgrown={AdmissionId(7): frozenset({0, 1, 2})})) == [(3, "node-3")]


def test_a_pod_that_only_looks_like_a_member_is_none() -> None:
    """The create is refused then, and the Job says that the name is taken."""
    forged = pod(0, admission=None)
    assert [index for index, _ in made(work(forged))] == [0, 1, 2, 3]
    adopted = replace(admission(), adopted={"pod-0": 0})
    assert [index for index, _ in made(work(forged, admissions=(adopted,)))] == [1, 2, 3]


def test_seats_given_back_get_no_pod() -> None:
    assert made(work(admissions=(replace(admission(), ended=frozenset({0, 1, 2})),))) == [(3, "node-3")]


def test_pods_of_an_admission_that_is_not_open_are_removed() -> None:
    stray, own = pod(0, admission=AdmissionId(3)), pod(1)

    assert removed(work(stray, own)) == {"pod-0": "AdmissionClosed"}
    evicting = admission(state=AdmissionState.EVICTING)
    assert removed(work(own, admissions=(evicting,))) == {"pod-1": "AdmissionClosed"}


def test_budgets_have_a_say_in_the_eviction_of_a_job_that_was_ready_and_in_nothing_else() -> None:
    def asked(*pods: PodFact, **facts: Any) -> list[bool]:
        return [each.evict for each in work(*pods, **facts).deletes]

    leaving = admission(state=AdmissionState.EVICTING)
    assert asked(pod(1), admissions=(leaving,)) == [False]
    ready = replace(leaving, ready=True)
    assert asked(pod(1), admissions=(ready,)) == [True]
    beyond = frozenset({ready.id})
    long_enough = asked(pod(1), admissions=(ready,), beyond_budgets=beyond)
    assert long_enough == [False], "it kept lent quota long enough"
    assert asked(pod(1), admissions=(ready,), phase=Phase.ABORTING) == [False], "its owner wants it gone"
    assert asked(pod(1, admission=AdmissionId(3)), admissions=(ready,)) == [False], "of a closed admission"


def test_adopted_pods_of_an_evicted_admission_go_too() -> None:
    leaving = replace(admission(state=AdmissionState.EVICTING), adopted={"pod-0": 0}, ready=True)
    (unwanted,) = work(pod(0, admission=None), admissions=(leaving,)).deletes
    assert (unwanted.uid, unwanted.evict) == ("pod-0", True)


def test_adopted_pods_and_pods_to_be_adopted_are_left_alone() -> None:
    adopting = replace(admission(), adopted={"pod-0": 0})

    assert removed(work(pod(0, admission=None), pod(1, admission=None), admissions=(adopting,))) == {}


@pytest.mark.parametrize("phase", [Phase.COMPLETED, Phase.FAILED, Phase.ABORTING, Phase.TERMINATED])
def test_leftovers_of_a_stopped_job_go_and_what_ended_stays_for_its_logs(phase: Phase) -> None:
    found = work(pod(0), pod(1, PodPhase.SUCCEEDED), pod(2, PodPhase.FAILED), phase=phase)

    assert removed(found) == {"pod-0": phase.value}
    assert found.creates == ()


def test_a_restart_removes_every_old_pod_before_new_ones_are_made(golden: Any) -> None:
    old = (pod(0), pod(1, PodPhase.SUCCEEDED), pod(2, PodPhase.FAILED), pod(3, deleting=True))

    assert removed(work(*old, phase=Phase.RESTARTING, version=1)) == golden
    assert work(phase=Phase.RESTARTING, version=1).creates == ()


def test_a_pod_of_the_version_before_a_restart_is_stale_though_its_admission_is_open() -> None:
    assert removed(work(pod(0), pod(1, version=1), version=1)) == {"pod-0": "Stale"}


def test_a_job_that_is_being_deleted_needs_nothing() -> None:
    assert not work(pod(0, admission=AdmissionId(3)), deleting=True)


def test_a_seat_of_a_task_that_was_scaled_down_gets_no_pod() -> None:
    tasks = [{**document()["spec"]["tasks"][0], "replicas": 2}]

    assert [index for index, _ in made(work(spec=job(tasks=tasks)))] == [0, 1]


def shrunk(*pods: PodFact) -> JobWork:
    """The work of a Job of which two of four pods are wanted any more."""
    posted = document()
    posted["spec"]["tasks"][0]["replicas"] = 2
    posted["spec"]["minAvailable"] = 2
    view = JobView(spec=read_job(posted), pods=pods, admissions=(admission(),))
    return work_for(KEY, JobState(uid=UID, phase=Phase.RUNNING), view, 0, rules=PodRules())


def test_pods_beyond_the_replicas_of_their_task_are_removed() -> None:
    found = shrunk(*(pod(index) for index in range(4)))
    assert removed(found) == {"pod-2": "ScaledDown", "pod-3": "ScaledDown"}


def test_the_list_of_hosts_is_kept_up_to_date_when_pods_come_and_when_they_are_scaled_down() -> None:
    def updated(found: JobWork) -> bool:
        return "train-svc" in {one.name for one in found.companions}

    assert updated(work(pod(0)))
    assert updated(shrunk(*(pod(index) for index in range(3))))
    assert not updated(shrunk(pod(0), pod(1)))


def companions(**spec: Any) -> dict[tuple[str, str], Any]:
    return {(one.resource.plural, one.name): one for one in companions_of(job(**spec))}


def test_svc_brings_a_service_a_policy_and_the_hosts() -> None:
    found = companions(plugins={"svc": []})

    assert list(found) == [("configmaps", "train-svc"), ("services", "train"), ("networkpolicies", "train")]
    hosts = [f"train-worker-{index}.train" for index in range(4)]
    assert found["configmaps", "train-svc"].manifest["data"] == {
        "worker.host": "\n".join(hosts),
        "VC_WORKER_HOSTS": ",".join(hosts),
        "VC_WORKER_NUM": "4",
    }
    selector = {"volcano.sh/job-name": "train", "volcano.sh/job-namespace": "team-a"}
    spec = {"clusterIP": "None", "selector": selector, "publishNotReadyAddresses": False}
    assert found["services", "train"].manifest["spec"] == spec
    policy = found["networkpolicies", "train"].manifest["spec"]
    assert policy["podSelector"] == {"matchLabels": selector}
    assert policy["ingress"] == [{"from": [{"podSelector": {"matchLabels": selector}}]}]


def test_svc_flags_are_followed() -> None:
    found = companions(plugins={"svc": ["--disable-network-policy", "--publish-not-ready-addresses=true"]})

    assert list(found) == [("configmaps", "train-svc"), ("services", "train")]
    assert found["services", "train"].manifest["spec"]["publishNotReadyAddresses"] is True


def test_ssh_brings_a_secret_that_still_lacks_its_keys(golden: Any) -> None:
    secret = companions(plugins={"ssh": []})["secrets", f"train-ssh-{UID}"]

    assert secret.needs_key_pair
    assert b64decode(secret.manifest["data"]["config"]).decode().splitlines()[:5] == golden


def test_keys_that_the_job_brings_are_used() -> None:
    flags = ["--ssh-private-key=secret", "--ssh-public-key=ssh-rsa A"]
    secret = companions(plugins={"ssh": flags})["secrets", f"train-ssh-{UID}"]

    assert not secret.needs_key_pair
    assert b64decode(secret.manifest["data"]["authorized_keys"]) == b"ssh-rsa A"


def test_every_companion_goes_with_its_job() -> None:
    volumes = [{"mountPath": "/x", "volumeClaim": {"resources": {}}}]
    found = companions(plugins={"svc": [], "ssh": []}, volumes=volumes)

    assert len(found) == 5
    for one in found.values():
        (owner,) = one.manifest["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("Job", UID, True)


def test_a_job_reads_the_same_as_after_volcanos_webhook() -> None:
    template = {"spec": {"containers": []}}
    tasks = [{"replicas": 2, "template": template}, {"template": template}]
    meta = {"name": "j", "namespace": "n", "uid": "u"}
    read: JobSpec = read_job({"metadata": meta, "spec": {"tasks": tasks}})

    found = [(task.name, task.replicas, task.minimum) for task in read.tasks]
    assert found == [("default0", 2, 2), ("default1", 0, 0)]
    assert (read.minimum, read.queue, read.max_retry) == (2, "default", 3)


def test_a_job_of_the_wrong_shape_is_refused_with_the_place() -> None:
    with pytest.raises(InvalidDocument, match=r"spec\.tasks\[0\]\.replicas"):
        read_job({"metadata": {}, "spec": {"tasks": [{"replicas": "two"}]}})
