"""A cluster that was busy before Muster came, and one that Muster leaves."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.stack import Stack
from tests.e2e.support.api_paths import path
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.ledger_queries import LedgerQueries
from tests.e2e.support.manifests import bare_pod, batch_job, grouped, pod, pod_group, volcano_job
from tests.e2e.support.namespace_history import NamespaceHistory
from tests.e2e.support.sandbox import GPU, Sandbox


@pytest.fixture(scope="module")
def bare_sandbox(kubernetes_binaries: dict[str, Path]) -> Iterator[Sandbox]:
    """A namespace and two nodes in a cluster that knows nothing of Muster."""
    with Stack(durable=False) as stack, stack.cluster.client() as api:
        ledger = LedgerQueries(stack.dsn)
        with NamespaceHistory(stack.cluster.kubeconfig) as history:
            sandbox = Sandbox("before", stack, api, ledger, history)
            sandbox.open()
            sandbox.add_nodes(2)
            sandbox.queues.append("default")
            yield sandbox
        ledger.close()


def test_pods_that_run_when_muster_is_installed_are_adopted_once_their_namespace_says_so(
    bare_sandbox: Sandbox,
) -> None:
    sandbox = bare_sandbox
    sandbox.add(batch_job(sandbox, "train", 2, 3), bare_pod(sandbox, "alone", 1), pod(sandbox, "foreign", 2))
    sandbox.add(*(grouped(sandbox, "ring", f"ring-{index}", 1) for index in range(2)))
    sandbox.wait_running("", 6)
    uids = {each["metadata"]["name"]: each["metadata"]["uid"] for each in sandbox.pods()}

    sandbox.stack.install()
    sandbox.add(pod_group(sandbox, "ring", 2))
    sandbox.stack.start_muster()
    # Anybody may write a queue's name on a pod: the queue is not charged for it.
    for name in ("train", "alone", "ring"):
        sandbox.wait_reason(name, "NotGated")
    assert not sandbox.held().get(f"queue default {GPU}")
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 30 * 24 * 3600))
    mode = {"muster.dev/adopt": "true", "muster.dev/adopt-until": until}
    sandbox.api.merge(path("Namespace", "", sandbox.name), {"metadata": {"annotations": mode}})
    sandbox.wait(
        lambda: sandbox.held().get(f"queue default {GPU}") == 9_000,
        "six GPUs of train, one of alone, two of ring",
    )
    for name in ("train", "alone", "ring"):
        decided = {kind for kind, _, _ in sandbox.ledger.decisions(sandbox.name, name)}
        assert decided == {"adopt"}
    assert not sandbox.ledger.admissions(sandbox.name, "foreign")
    assert "adopted" in sandbox.explain("job/train")

    # They count like any other: of 16 GPUs 9 are theirs and 2 the foreign pod's.
    sandbox.add(volcano_job(sandbox, "next", 2, 3), volcano_job(sandbox, "small", 1, 2))
    sandbox.wait_running("small-", 1)
    sandbox.wait_reason("next", "NoFit")
    assert (
        uids.items()
        <= {each["metadata"]["name"]: each["metadata"]["uid"] for each in sandbox.running()}.items()
    )

    finish_all(sandbox, "train-")
    sandbox.wait_running("next-", 2)
    for prefix in ("alone", "ring-", "next-", "small-", "foreign"):
        finish_all(sandbox, prefix)
    sandbox.wait_free()
    assert not [moment for moment in sandbox.history.of(sandbox.name) if moment.kind == "DELETED"]
