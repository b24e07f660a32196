"""Users try Jobs before they submit them, with their own rights; what they are told then happens."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.support.api_paths import Document, path
from tests.e2e.support.manifests import batch_job, grouped, pod_group, volcano_job
from tests.e2e.support.sandbox import GPU, Sandbox

PLUGIN = (sys.executable, "-m", "admission.cli.kubectl_muster")


def told_of_changes(sandbox: Sandbox, kubeconfig: Path, *words: str, code: int = 0) -> Any:
    """What a user is told of other quota or nodes."""
    command = [*PLUGIN, "try", *words, "-o", "json", "--kubeconfig", kubeconfig]
    answers: list[subprocess.CompletedProcess[str]] = []

    def is_answered() -> bool:
        answers.append(sandbox.stack.run(command, check=False))
        return "Ask again" not in answers[-1].stderr

    sandbox.wait(is_answered, "an answer about changes")
    assert answers[-1].returncode == code, answers[-1].stderr
    return json.loads(answers[-1].stdout)["comparison"] if answers[-1].stdout else answers[-1].stderr


def told(
    sandbox: Sandbox,
    kubeconfig: Path,
    folder: Path,
    *documents: Document,
    code: int = 0,
    words: tuple[str, ...] = (),
) -> Any:
    """What a user is told of documents that are not submitted."""
    file = folder / "tried.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    command = [
        *PLUGIN,
        "try",
        "-f",
        file,
        "-n",
        sandbox.name,
        "-o",
        "json",
        *words,
        "--kubeconfig",
        kubeconfig,
    ]
    answers: list[subprocess.CompletedProcess[str]] = []

    def is_answered() -> bool:
        answers.append(sandbox.stack.run(command, check=False))
        return "Ask again" not in answers[-1].stderr

    sandbox.wait(is_answered, "an answer about what would become of a Job")
    assert answers[-1].returncode == code, answers[-1].stderr
    return json.loads(answers[-1].stdout) if answers[-1].stdout else answers[-1].stderr


def nodes_of(item: dict[str, Any]) -> list[str]:
    return sorted(place["node"] for place in item["places"] for _ in range(place["count"]))


def test_what_a_user_is_told_of_a_job_happens_when_it_is_submitted(sandbox: Sandbox, tmp_path: Path) -> None:
    sandbox.add_nodes(2)
    queue = sandbox.add_queue(deserved={GPU: 8}, capability={GPU: 12})
    alice = sandbox.somebody(f"alice-{sandbox.name}")
    job = batch_job(sandbox, "train", 2, 4)
    kinds = [
        job,
        volcano_job(sandbox, "volcano", 1, 2),
        pod_group(sandbox, "ring", 2),
        *(grouped(sandbox, "ring", f"ring-{index}") for index in range(2)),
    ]

    sandbox.wait(
        lambda: told(sandbox, alice, tmp_path, job)["items"][0]["state"] == "admitted",
        "the nodes and the queue to be known",
    )
    several = told(sandbox, alice, tmp_path, *kinds)["items"]
    assert [(each["kind"], each["name"], each["state"]) for each in several] == [
        ("job", "train", "admitted"),
        ("vcjob", "volcano", "admitted"),
        ("podgroup", "ring", "admitted"),
    ]
    # Nothing of it is there.
    assert sandbox.pods() == []
    (item,) = told(sandbox, alice, tmp_path, job)["items"]
    (gpus,) = (each for each in item["quota"] if each["resource"] == GPU)
    assert (gpus["queue"], gpus["takes"], gpus["owned"], gpus["borrowed"]) == (queue, "8", "8", "0")

    sandbox.add(job)
    sandbox.wait_running("train-", 2)
    assert sorted(sandbox.nodes_of("train-").values()) == nodes_of(item)

    second = batch_job(sandbox, "second", 2, 4)
    (waits,) = told(sandbox, alice, tmp_path, second)["items"]
    assert (waits["state"], waits["position"], waits["queueLength"]) == ("waits", 1, 1)
    assert waits["changes"]
    sandbox.add(second)
    assert sandbox.wait_reason("second", waits["reason"]["code"]) == waits["reason"]["message"]


def test_a_user_tries_only_where_they_may_list_and_is_told_no_names_of_others(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue(deserved={GPU: 8})
    lent = sandbox.add_queue("lent", deserved={GPU: 0})
    alice = sandbox.somebody(f"alice-{sandbox.name}")
    mallory = sandbox.stack.cluster.kubeconfig_for(f"mallory-{sandbox.name}")
    job = batch_job(sandbox, "train", 1, 8)
    other = f"{sandbox.name}-other"
    sandbox.api.create(
        path("Namespace", ""), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}}
    )
    try:
        secret = batch_job(sandbox, "secret", 1, 8)
        secret["metadata"]["labels"] = {"muster.dev/queue-name": lent}
        sandbox.api.create(path("batch/v1 Job", other), secret)

        def preempts() -> bool:
            return bool(told(sandbox, alice, tmp_path, job)["items"][0]["state"] == "preempts")

        sandbox.wait(preempts, "the other Job to have the GPUs")
        (item,) = told(sandbox, alice, tmp_path, job)["items"]
        assert item["victims"] == [
            {**item["victims"][0], "kind": None, "namespace": None, "name": None, "queue": None}
        ]
        assert "secret" not in json.dumps(item)
        assert lent not in json.dumps(item)
        (seen,) = told(sandbox, sandbox.stack.cluster.kubeconfig, tmp_path, job)["items"]
        assert (seen["victims"][0]["namespace"], seen["victims"][0]["name"]) == (other, "secret")
    finally:
        sandbox.api.delete(path("Namespace", "", other))

    refused = told(sandbox, mallory, tmp_path, job, code=1)
    assert f"mallory-{sandbox.name} may not list jobs in namespace {sandbox.name}." in refused
    unknown = told(sandbox, alice, tmp_path, job, code=1, words=("-q", "nowhere"))
    assert "There is no queue nowhere that you may see." in unknown


@pytest.mark.parametrize("kind", ["Job", "batch/v1 Job"])
def test_what_the_api_server_refuses_is_told_before(sandbox: Sandbox, tmp_path: Path, kind: str) -> None:
    sandbox.add_queue()
    who = sandbox.somebody(f"alice-{sandbox.name}")
    if kind == "Job":
        broken = volcano_job(sandbox, "broken", 1)
        broken["spec"]["queue"] = "nowhere"
    else:
        broken = batch_job(sandbox, "broken", 1)
        broken["spec"]["parallelism"] = "many"
    body = told(sandbox, who, tmp_path, broken, code=1)
    assert body["items"][0]["state"] == "refused"
    assert body["items"][0]["refusals"]


def test_fields_that_the_api_server_does_not_know_are_told_before(sandbox: Sandbox, tmp_path: Path) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue()
    who = sandbox.somebody(f"alice-{sandbox.name}")
    # Of Volcano's kinds it keeps them.
    kept = volcano_job(sandbox, "kept", 1)
    kept["spec"]["minAvailble"] = 1
    (item,) = told(sandbox, who, tmp_path, kept)["items"]
    assert (item["state"] != "refused", item["unknownFields"]) == (True, ["spec.minAvailble"])

    misspelt = batch_job(sandbox, "misspelt", 1)
    misspelt["spec"]["minAvailble"] = 1
    (item,) = told(sandbox, who, tmp_path, misspelt, code=1)["items"]
    assert item["state"] == "refused"
    assert 'unknown field "spec.minAvailble": kubectl apply and create refuse this' in item["refusals"][0]
    # The same Job as it was meant, and then once it is there.
    meant = batch_job(sandbox, "misspelt", 1)
    (item,) = told(sandbox, who, tmp_path, meant)["items"]
    assert (item["refusals"], item["warnings"], item["unknownFields"]) == ([], [], [])
    sandbox.add(meant)
    (item,) = told(sandbox, who, tmp_path, meant)["items"]
    assert item["warnings"] == ["there is an object of this kind and name already"]


def test_administrators_try_quota_and_what_they_are_told_happens(sandbox: Sandbox) -> None:
    sandbox.add_nodes(2, nodes_per_rack=1)
    user = f"tim-{sandbox.name}"
    tenant = sandbox.add_queue("tenant", deserved={GPU: 16}, access={"admins": [{"user": user}]})
    queue = sandbox.add_queue("q", parent=tenant, deserved={GPU: 8}, capability={GPU: 8})
    tim, admin = sandbox.somebody(user), sandbox.stack.cluster.kubeconfig
    sandbox.api.create(*_may_get(sandbox, user, queue))
    sandbox.api.create(*_bound(sandbox, user))
    try:
        for name in ("first", "second"):
            job = batch_job(sandbox, name, 1, 8)
            job["metadata"]["labels"] = {"muster.dev/queue-name": queue}
            sandbox.add(job)
        sandbox.wait(lambda: len(sandbox.running()) == 1, "one of the Jobs to run")
        sandbox.wait(
            lambda: "QueueLimit" in {sandbox.reason(each)[0] for each in ("first", "second")}, "one to wait"
        )
        waits = next(each for each in ("first", "second") if sandbox.reason(each)[0])

        for who in (tim, admin):
            more = ("--quota", f"{queue}.gpu=16", "--quota", f"{queue}.capability.gpu=16")
            found = told_of_changes(sandbox, who, *more)
            mine = [each for each in found["workloads"] if each["namespace"] == sandbox.name]
            assert [(each["name"], each["what"]) for each in mine] == [(waits, "starts")]
        (line,) = (each for each in found["queues"] if each["queue"] == queue and each["resource"] == GPU)
        assert (line["usedBefore"], line["usedAfter"], line["waitingBefore"], line["waitingAfter"]) == (
            "8",
            "16",
            1,
            0,
        )
        # Nothing has changed. Then it is done.
        assert len(sandbox.running()) == 1
        refused = told_of_changes(sandbox, tim, "--quota", f"{tenant}.gpu=16", code=1)
        assert refused == f"Error: There is no queue {tenant} that you may see.\n"
        sandbox.api.merge(
            path("Queue", "", queue), {"spec": {"deserved": {GPU: "16"}, "capability": {GPU: "16"}}}
        )
        sandbox.wait_running("", 2)
    finally:
        for where in ("clusterroles", "clusterrolebindings"):
            sandbox.api.delete(f"/apis/{RBAC}/v1/{where}/trials-{sandbox.name}")


RBAC = "rbac.authorization.k8s.io"


def _may_get(sandbox: Sandbox, user: str, queue: str) -> tuple[str, Document]:
    """A role of who may get a queue."""
    rule = {
        "apiGroups": ["scheduling.volcano.sh"],
        "resources": ["queues"],
        "verbs": ["get"],
        "resourceNames": [queue],
    }
    head = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": f"trials-{sandbox.name}"}}
    return f"/apis/{RBAC}/v1/clusterroles", {**head, "rules": [rule]}


def _bound(sandbox: Sandbox, user: str) -> tuple[str, Document]:
    name = f"trials-{sandbox.name}"
    head = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name}}
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
    subject = {"apiGroup": RBAC, "kind": "User", "name": user}
    return f"/apis/{RBAC}/v1/clusterrolebindings", {**head, "roleRef": role, "subjects": [subject]}
