"""A cluster that was busy before Muster came, and one that Muster leaves."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.history import PodHistory
from deploy.local.stack import Stack
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.ledger_queries import Books
from tests.e2e.support.manifests import bare_pod, batch_job, grouped, pod, pod_group, volcano_job
from tests.e2e.support.sandbox import GPU, Yard


@pytest.fixture(scope="module")
def bare_yard(kubernetes_binaries: dict[str, Path]) -> Iterator[Yard]:
    """A namespace and two nodes in a cluster that knows nothing of Muster."""
    with Stack(durable=False) as stack, stack.cluster.client() as api:
        books = Books(stack.dsn)
        with PodHistory(stack.cluster.kubeconfig) as history:
            yard = Yard("before", stack, api, books, history)
            yard.open()
            yard.add_nodes(2)
            yard.queues.append("default")
            yield yard
        books.close()


def test_pods_that_run_when_muster_is_installed_are_adopted(bare_yard: Yard) -> None:
    yard = bare_yard
    yard.add(batch_job(yard, "train", 2, 3), bare_pod(yard, "alone", 1), pod(yard, "foreign", 2))
    yard.add(*(grouped(yard, "ring", f"ring-{index}", 1) for index in range(2)))
    yard.wait_running("", 6)
    uids = {each["metadata"]["name"]: each["metadata"]["uid"] for each in yard.pods()}

    yard.stack.install()
    yard.add(pod_group(yard, "ring", 2))
    yard.stack.start_muster()
    yard.wait(
        lambda: yard.held().get(f"queue default {GPU}") == 9_000,
        "six GPUs of train, one of alone, two of ring",
    )
    for name in ("train", "alone", "ring"):
        decided = {kind for kind, _, _ in yard.books.decisions(yard.name, name)}
        assert decided == {"adopt"}
    assert not yard.books.admissions(yard.name, "foreign")
    assert "adopted" in yard.explain("job/train")

    # They count like any other: of 16 GPUs 9 are theirs and 2 the foreign pod's.
    yard.add(volcano_job(yard, "next", 2, 3), volcano_job(yard, "small", 1, 2))
    yard.wait_running("small-", 1)
    yard.wait_reason("next", "NoFit")
    assert (
        uids.items() <= {each["metadata"]["name"]: each["metadata"]["uid"] for each in yard.running()}.items()
    )

    finish_all(yard, "train-")
    yard.wait_running("next-", 2)
    for prefix in ("alone", "ring-", "next-", "small-", "foreign"):
        finish_all(yard, prefix)
    yard.wait_free()
    assert not [moment for moment in yard.history.of(yard.name) if moment.kind == "DELETED"]


def test_uninstalling_frees_what_waits_and_leaves_what_runs(bare_yard: Yard) -> None:
    yard = bare_yard
    if not yard.stack.replicas:
        yard.stack.install()
        yard.stack.start_muster()
    yard.add(bare_pod(yard, "runs", 8))
    yard.wait_running("runs", 1)
    yard.add(batch_job(yard, "waits", 2, 8))
    yard.wait_reason("waits", "NoFit")

    yard.stack.stop_muster(yard.stack.replicas[0])
    told = yard.stack.muster("uninstall", "--kubeconfig", yard.stack.cluster.kubeconfig).stdout
    assert "1 job" in told.lower()
    assert len(yard.running("runs")) == 1
    yard.wait_running("waits-", 1)
    finish_all(yard, "runs")
    yard.wait_running("waits-", 2)
    # Nothing is left that would hold a new one.
    yard.add(bare_pod(yard, "free", 0))
    yard.wait_running("free", 1)
