"""Users count GPU-hours: their own, and those of queues that they may get; to the second as in the ledger."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.support.api_paths import path
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.manifests import batch_job
from tests.e2e.support.sandbox import GPU, Sandbox

RBAC = "rbac.authorization.k8s.io"


def asked(sandbox: Sandbox, kubeconfig: Path, *words: str) -> str:
    """What a user is told of the use of the sandbox's queue."""
    plugin = Path(sys.executable).parent / "kubectl-muster"
    command = [plugin, "usage", "--from", "1d", "-q", sandbox.queues[0], *words, "--kubeconfig", kubeconfig]
    answers: list[subprocess.CompletedProcess[str]] = []

    def is_answered() -> bool:
        answers.append(sandbox.stack.run(command, check=False))
        return "Ask again." not in answers[-1].stderr

    # A busy machine has other work first.
    sandbox.wait(is_answered, "an answer about use")
    assert answers[-1].returncode == 0, answers[-1].stderr
    return answers[-1].stdout


def used(sandbox: Sandbox, kubeconfig: Path, by: str) -> dict[Any, int]:
    """GPU-seconds by a column, each at a time when they are more than none."""
    body = json.loads(asked(sandbox, kubeconfig, "--by", by, "-o", "json"))
    assert [int(each["amountSeconds"]) for each in body["totals"]] == (
        [sum(int(each["amountSeconds"]) for each in body["items"])] if body["items"] else []
    )
    return {
        "(others)" if each["others"] else (each[by]["name"] if by == "workload" else each[by]): int(
            each["amountSeconds"]
        )
        for each in body["items"]
    }


@pytest.fixture
def queue_viewers(sandbox: Sandbox) -> Iterator[tuple[str, str]]:
    """Carol and Dave may get the sandbox's queue."""
    queue, users = sandbox.add_queue(deserved={GPU: 3}), (f"carol-{sandbox.name}", f"dave-{sandbox.name}")
    head: dict[str, Any] = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": f"viewers-{sandbox.name}"}}
    may_get = {"apiGroups": ["scheduling.volcano.sh"], "resources": ["queues"], "verbs": ["get"]}
    role = {**head, "kind": "ClusterRole", "rules": [{**may_get, "resourceNames": [queue]}]}
    binding = {
        **head,
        "kind": "ClusterRoleBinding",
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": head["metadata"]["name"]},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user} for user in users],
    }
    paths = [f"/apis/{RBAC}/v1/clusterroles", f"/apis/{RBAC}/v1/clusterrolebindings"]
    for where, document in zip(paths, (role, binding), strict=True):
        sandbox.api.create(where, document)
    yield users
    for where in paths:
        sandbox.api.delete(f"{where}/{head['metadata']['name']}")


def test_each_sees_own_use_and_that_of_queues_by_right_to_the_second(
    sandbox: Sandbox, queue_viewers: tuple[str, str]
) -> None:
    sandbox.add_nodes(1)
    cluster = sandbox.stack.cluster
    carol, dave = cluster.kubeconfig_for(queue_viewers[0]), sandbox.somebody(queue_viewers[1])
    alice, bob = f"alice-{sandbox.name}", f"bob-{sandbox.name}"
    with sandbox.as_user(alice) as api:
        api.create(path("batch/v1 Job", sandbox.name), batch_job(sandbox, "hers", 1, 4))
    with sandbox.as_user(bob) as api:
        api.create(path("batch/v1 Job", sandbox.name), batch_job(sandbox, "his", 2, 2))
    sandbox.wait_running("hers-", 1)
    sandbox.wait_running("his-", 2)

    # Both may list the Jobs of their namespace, and neither may get the queue: each sees the own use, as it grows.
    # Use is told in whole seconds: what was admitted in this one has none.
    hers, his = cluster.kubeconfig_for(alice), cluster.kubeconfig_for(bob)
    sandbox.wait(lambda: used(sandbox, hers, "user").get(alice, 0) > 0, "use of Alice's Job that runs")
    sandbox.wait(lambda: used(sandbox, his, "user").get(bob, 0) > 0, "use of Bob's Job that runs")
    assert used(sandbox, hers, "user").keys() == {alice}
    assert used(sandbox, his, "workload").keys() == {"his"}
    # Carol sees the queue, and whose use it is she may not know. Dave may list the Jobs as well.
    sandbox.wait(lambda: used(sandbox, carol, "user").keys() == {"(others)"}, "Carol to see the queue")
    assert "(others)" in asked(sandbox, carol, "--by", "queue,workload")
    assert used(sandbox, dave, "user").keys() == {alice, bob}
    # A user without any right is told so.
    assert used(sandbox, cluster.kubeconfig_for(f"mallory-{sandbox.name}"), "user") == {}

    finish_all(sandbox, "")
    sandbox.wait_free()
    admin = cluster.kubeconfig
    expected = {
        name: int(seconds)
        for name, seconds in sandbox.ledger.ask(
            "SELECT a.name, sum(CASE p.kind WHEN 'free' THEN 1 ELSE -1 END * p.amount / 1000"
            " * extract(epoch FROM p.posted_at)) FROM muster_postings p JOIN muster_admissions a ON a.id = p.admission"
            " WHERE a.queue = $1 AND p.resource = $2 GROUP BY 1",
            sandbox.queues[0],
            GPU,
        )
    }
    assert expected.keys() == {"hers", "his"}
    assert min(expected.values()) > 0
    assert used(sandbox, admin, "workload") == expected
    assert used(sandbox, admin, "user") == {alice: expected["hers"], bob: expected["his"]}
    assert used(sandbox, carol, "queue") == {sandbox.queues[0]: sum(expected.values())}
    body = json.loads(asked(sandbox, carol, "--by", "queue", "-o", "json"))
    (quota,) = (each for each in body["quotas"] if each["queue"] == sandbox.queues[0])
    parts = [int(quota[f"{part}Seconds"]) for part in ("amount", "owned", "borrowed")]
    assert parts[0] == parts[1] + parts[2] == sum(expected.values())
    assert 0 < parts[1] < parts[0]
    table = asked(sandbox, admin, "--by", "user").splitlines()
    assert table[-1].split()[-1] == f"{sum(expected.values()) / 3600:.2f}"
