"""What a trial says of documents, in a cluster of two racks with two nodes of eight GPUs each."""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from admission.facts.changes import Change, FactKind
from admission.trials.submitted import NothingToTry, UnusableDocument, asked_of
from admission.trials.trial import Outcome, TrialState, explained
from admission.workloads.context import Context
from queues.api import names
from queues.quota.namespace_quota import NamespaceQuota, QuotaLimit
from queues.quota.queue import QueuePolicy
from queues.read_api.trials import TrialRequestBody
from queues.reason_codes import ReasonCode
from queues.workload import WorkloadKind
from tests.builders import facts
from tests.builders.trials.worlds_in_memory import (
    GPU,
    HOST,
    WorldInMemory,
    batch_job,
    job_set,
    pod,
    pod_group,
    stored,
    two_racks,
    volcano_job,
)
from tests.tables import with_rows


@pytest.fixture
def cluster() -> WorldInMemory:
    return two_racks()


def one(cluster: WorldInMemory, *documents: dict[str, Any], **about: Any) -> Outcome:
    (found,) = cluster.tried(*documents, **about).outcomes
    return found


@pytest.mark.parametrize(
    "documents",
    [
        [batch_job("a", 2, queue="team", gpu=8)],
        [volcano_job("a", 2, queue="team", gpu=8)],
        [job_set("a", 2, 1, queue="team", gpu=8)],
        [pod_group("a", 2, queue="team"), pod("a-0", group="a", gpu=8), pod("a-1", group="a", gpu=8)],
    ],
    ids=lambda each: f"{each[0]['apiVersion']} {each[0]['kind']}",
)
def test_every_kind_is_told_where_it_would_start_and_what_it_takes(
    cluster: WorldInMemory, documents: list[dict[str, Any]]
) -> None:
    found = one(cluster, *documents)

    assert (found.state, len(found.seats)) == (TrialState.ADMITTED, 2)
    (gpus,) = (each for each in found.takes if each.account.resource == GPU)
    assert (gpus.queue, gpus.units, gpus.owned, gpus.used, gpus.deserved) == ("team", 16000, 16000, 0, 16000)
    assert found.workload is not None
    assert (found.workload.user, found.workload.queue) == ("alice", "team")


def test_fields_that_a_kind_does_not_have_are_named(cluster: WorldInMemory) -> None:
    job = volcano_job("a", 1, queue="team", gpu=8)
    job["spec"]["minAvailble"] = 1
    job["spec"]["tasks"][0]["template"]["spec"]["nodeSelecter"] = {}
    found = one(cluster, job)
    assert found.submitted.unknown_fields == ("spec.minAvailble", "spec.tasks[0].template.spec.nodeSelecter")
    assert one(cluster, batch_job("a", 1, queue="team", gpu=8)).submitted.unknown_fields == ()


def test_nothing_changes(cluster: WorldInMemory) -> None:
    cluster.tried(batch_job("a", 2, queue="team", gpu=8))

    assert not cluster.turn().changes_ledger()
    assert cluster.world.freeze(cluster.now).pending == {}


def test_what_is_beyond_the_deserved_amount_is_borrowed(cluster: WorldInMemory) -> None:
    cluster.store(stored(batch_job("before", 1, queue="team", gpu=8), "before"))
    cluster.settle()

    found = one(cluster, batch_job("a", 2, queue="team", gpu=8))

    (gpus,) = (each for each in found.takes if each.account.resource == GPU)
    assert (gpus.used, gpus.units, gpus.owned) == (8000, 16000, 8000)


def test_one_that_waits_is_told_why_where_in_line_and_what_would_let_it_in(cluster: WorldInMemory) -> None:
    for name in ("b", "c"):
        cluster.store(stored(batch_job(name, 3, queue="team", gpu=8), name))
    cluster.settle()

    decided = cluster.tried(batch_job("a", 3, queue="team", gpu=8))
    (found,) = explained(decided, lambda: True)

    assert (found.state, found.seats) == (TrialState.WAITS, ())
    assert found.reason is not None
    assert found.reason.code == ReasonCode.QUEUE_LIMIT
    assert found.explained is not None
    assert (found.explained.position, found.explained.queue_length) == (2, 2)
    assert [each.kind for each in found.explained.changes]
    (unexplained,) = explained(decided, lambda: False)
    assert unexplained.explained is None


def test_who_would_be_evicted_is_told(cluster: WorldInMemory) -> None:
    cluster.store(stored(batch_job("low", 4, queue="other", gpu=8), "low"))
    cluster.settle()

    found = one(cluster, batch_job("a", 2, queue="team", gpu=8))

    assert found.state is TrialState.PREEMPTS
    assert [cluster.snapshot.admissions[each.admission].name for each in found.victims] == ["low"]
    assert len(found.seats) == 2


def test_documents_are_decided_together_and_in_order(cluster: WorldInMemory) -> None:
    documents = [batch_job(name, 2, queue="team", gpu=8) for name in ("a", "b", "c")]

    states = [each.state for each in cluster.tried(*documents).outcomes]

    # Of 24 GPUs that the queue may use the second would take 32.
    assert states == [TrialState.ADMITTED, TrialState.WAITS, TrialState.WAITS]


def test_a_job_that_names_no_queue_does_not_wait_but_in_a_gated_namespace(cluster: WorldInMemory) -> None:
    assert one(cluster, batch_job("a", 1, gpu=1)).state is TrialState.UNMANAGED
    assert one(cluster, pod("a", gpu=1)).state is TrialState.UNMANAGED
    assert one(cluster, job_set("a", 1, 1, gpu=1)).state is TrialState.UNMANAGED
    for document in (batch_job("a", 1, gpu=1), pod("a", gpu=1)):
        found = one(cluster, document, namespace="gated")
        assert found.state is TrialState.ADMITTED
        assert found.workload is not None
        assert found.workload.queue == "default"


def test_the_queue_of_the_namespace_counts(cluster: WorldInMemory) -> None:
    cluster.context = Context(queues={"gated": "team"})  # type: ignore[dict-item]
    found = one(cluster, batch_job("a", 1, gpu=1), namespace="gated")
    assert found.workload is not None
    assert found.workload.queue == "team"


@pytest.mark.parametrize("document", [batch_job("a", 1, gpu=1), pod("a", gpu=1), volcano_job("a", 1, gpu=1)])
def test_another_queue_can_be_tried(cluster: WorldInMemory, document: dict[str, Any]) -> None:
    found = one(cluster, document, queue="team")
    assert found.workload is not None
    assert (found.state, found.workload.queue) == (TrialState.ADMITTED, "team")


def test_what_the_webhook_refuses_is_told_in_its_words(cluster: WorldInMemory) -> None:
    found = one(cluster, volcano_job("a", 2, queue="nowhere", gpu=1))
    assert found.state is TrialState.REFUSED
    assert "expected the name of a Queue" in found.submitted.refusals[0]
    assert "nowhere" in found.submitted.refusals[0]
    missing = one(cluster, batch_job("a", 1, queue="team", gpu=1), namespace="nowhere")
    assert missing.submitted.refusals == ("there is no namespace nowhere",)


@pytest.mark.parametrize(
    "documents",
    [
        [batch_job("a", 1, queue="team", gpu=1)],
        [volcano_job("a", 1, queue="team", gpu=1)],
        [job_set("a", 1, 1, queue="team", gpu=1)],
        [pod_group("a", 1, queue="team"), pod("a-0", group="a", gpu=1)],
    ],
    ids=lambda each: f"{each[0]['apiVersion']} {each[0]['kind']}",
)
def test_volumes_that_are_not_looked_at_are_named(
    cluster: WorldInMemory, documents: list[dict[str, Any]]
) -> None:
    assert one(cluster, *documents).submitted.warnings == ()
    for spec in _pod_specs(documents):
        spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    (warning,) = one(cluster, *documents).submitted.warnings
    assert warning.startswith(
        "volumes that are not looked at (PersistentVolumeClaim data): whether they exist"
    )


def _pod_specs(part: Any) -> Iterator[dict[str, Any]]:
    if isinstance(part, dict) and "containers" in part:
        yield part
    for each in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from _pod_specs(each)


def test_what_nobody_could_store_is_refused_and_others_are_decided(cluster: WorldInMemory) -> None:
    broken = batch_job("broken", 1, queue="team", gpu=1)
    broken["spec"]["parallelism"] = "many"
    outcomes = cluster.tried(broken, batch_job("a", 1, queue="team", gpu=1)).outcomes
    assert [each.state for each in outcomes] == [TrialState.REFUSED, TrialState.ADMITTED]
    assert "parallelism" in outcomes[0].submitted.refusals[0]


def test_a_kind_that_the_cluster_does_not_serve_is_refused(cluster: WorldInMemory) -> None:
    cluster.absent = frozenset({WorkloadKind.JOB_SET})
    found = one(cluster, job_set("a", 1, 1, queue="team", gpu=1))
    assert found.state is TrialState.REFUSED
    (told,) = found.submitted.refusals
    assert told == "the cluster does not serve jobset.x-k8s.io/v1alpha2 JobSet: its operator is not installed"


def test_a_pod_without_its_group_tells_nothing_of_a_gang(cluster: WorldInMemory) -> None:
    found = one(cluster, pod("a-0", group="a", gpu=1))
    assert found.state is TrialState.REFUSED
    assert "PodGroup a is not among the documents" in found.submitted.refusals[0]


def test_a_group_with_too_few_members_waits_for_them(cluster: WorldInMemory) -> None:
    found = one(cluster, pod_group("a", 2, queue="team"), pod("a-0", group="a", gpu=1))
    assert found.reason is not None
    assert (found.state, found.reason.code) == (TrialState.WAITS, ReasonCode.NOT_ENOUGH_PODS)


def test_users_write_nothing_that_only_muster_writes(cluster: WorldInMemory) -> None:
    document = batch_job("a", 1, queue="team", gpu=1)
    document["metadata"]["annotations"] = {names.USER: "mallory", names.ADMISSION_ID: "1"}
    document["metadata"]["uid"] = "forged"
    document["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    found = one(cluster, document)
    assert found.workload is not None
    assert (found.state, found.workload.user) == (TrialState.ADMITTED, "alice")


def test_priorities_of_classes_count_for_pods_too(cluster: WorldInMemory) -> None:
    document = pod("a", queue="team", gpu=1)
    document["spec"]["priorityClassName"] = "high"
    found = one(cluster, document)
    assert found.workload is not None
    assert found.workload.priority == 100


def test_a_resource_quota_of_the_namespace_counts(cluster: WorldInMemory) -> None:
    limit = QuotaLimit(name=f"requests.{GPU}", resource=GPU, hard=8000, used=0)
    quota = NamespaceQuota(namespace="ml", name="few", limits=(limit,))
    cluster.world.observe([Change(FactKind.RESOURCE_QUOTA, "q", quota)])
    cluster.settle()

    outcomes = cluster.tried(
        batch_job("a", 1, queue="team", gpu=8), batch_job("b", 1, queue="team", gpu=8)
    ).outcomes

    assert [each.state for each in outcomes] == [TrialState.ADMITTED, TrialState.WAITS]
    assert outcomes[1].reason is not None
    assert outcomes[1].reason.code == ReasonCode.NAMESPACE_QUOTA
    assert "ResourceQuota few" in outcomes[1].reason.message


def test_a_limit_on_what_one_user_may_use_counts(cluster: WorldInMemory) -> None:
    cluster.see(facts.queue("small", max_per_user={GPU: 2000}))
    cluster.settle()
    found = one(cluster, batch_job("a", 1, queue="small", gpu=4))
    assert found.state is TrialState.WAITS


def test_other_kinds_are_left_out_and_alone_they_are_an_error() -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    job = batch_job("a", 1)
    asked, skipped = asked_of(TrialRequestBody(documents=(config, job), namespace="ml"))
    assert ([each.name for each in asked], [each.kind for each in skipped]) == (["a"], ["ConfigMap"])
    with pytest.raises(NothingToTry, match="found v1 ConfigMap, expected one of"):
        asked_of(TrialRequestBody(documents=(config,), namespace="ml"))


@with_rows("document")
def test_what_is_no_object_is_told_with_its_number(document: dict[str, Any]) -> None:
    with pytest.raises(UnusableDocument, match=r"^Document 1: found"):
        asked_of(TrialRequestBody(documents=(document,), namespace="ml"))


def test_policies_of_queues_count(cluster: WorldInMemory) -> None:
    cluster.see(facts.queue("meek", policy=QueuePolicy(reclaim="never", within_queue="never")))
    cluster.store(stored(batch_job("low", 4, queue="other", gpu=8), "low"))
    cluster.settle()
    assert one(cluster, batch_job("a", 2, queue="meek", gpu=8)).state is TrialState.WAITS


def _with(document: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The document with another value at a path."""
    *above, last = path.split(".")
    inner = document
    for each in above:
        inner = inner[each]
    inner[last] = value
    return document


@pytest.mark.parametrize(
    ("document", "path", "value", "expected"),
    [
        (pod("a", gpu=1), "spec.schedulerName", ["x"], "a string"),
        (batch_job("a", 1, gpu=1), "spec.template.spec.schedulerName", {"a": 1}, "a string"),
        (batch_job("a", 1, queue="team", gpu=1), "spec.template", [1], "a mapping"),
        (batch_job("a", 1, queue="team", gpu=1), "spec.template.metadata", [1], "a mapping"),
        (batch_job("a", 1, gpu=1), "metadata.annotations", ["a"], "a mapping"),
        (batch_job("a", 1, gpu=1), "spec.template.metadata.labels", {"x": ["a"]}, "a string"),
        (pod("a", queue="team", gpu=1), "spec.schedulingGates", "ab", "a list"),
        (volcano_job("a", 1, queue="team", gpu=1), "metadata.labels", {"x": 5}, "a string"),
    ],
    ids=lambda each: each if isinstance(each, str) else None,
)
def test_a_value_of_another_type_is_refused_as_the_api_server_refuses_it(
    cluster: WorldInMemory, document: dict[str, Any], path: str, value: Any, expected: str
) -> None:
    found = one(cluster, _with(document, path, value))

    assert found.state is TrialState.REFUSED
    (refusal,) = found.submitted.refusals
    assert refusal.startswith(path)
    assert refusal.endswith(f", expected {expected}")


REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
HARD: Final = {"whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1}
OF_X: Final = {"labelSelector": {"matchLabels": {"app": "x"}}}


@pytest.mark.parametrize(
    ("rules", "nodes"),
    [
        pytest.param({"topologySpreadConstraints": [{**OF_X, **HARD, "topologyKey": HOST}]}, 4, id="spread"),
        pytest.param(
            {"affinity": {"podAntiAffinity": {REQUIRED: [{**OF_X, "topologyKey": "rack"}]}}},
            0,
            id="apart by rack",
        ),
        pytest.param(
            {"affinity": {"podAffinity": {REQUIRED: [{**OF_X, "topologyKey": HOST}]}}},
            1,
            id="near one another",
        ),
    ],
)
def test_rules_about_other_pods_count(cluster: WorldInMemory, rules: dict[str, Any], nodes: int) -> None:
    job = batch_job("a", 4, queue="team", gpu=1)
    job["spec"]["template"]["metadata"]["labels"] = {"app": "x"}
    job["spec"]["template"]["spec"] |= rules

    found = one(cluster, job)

    assert len({seat.node for seat in found.seats}) == nodes
    assert nodes or (found.reason is not None and found.reason.code == ReasonCode.NEVER_FITS)


def test_pods_that_run_count_for_such_rules_whether_they_are_in_a_queue_or_not(
    cluster: WorldInMemory,
) -> None:
    admitted = batch_job("before", 1, queue="team", gpu=1)
    admitted["spec"]["template"]["metadata"]["labels"] = {"app": "x"}
    cluster.store(stored(admitted, "before"))
    cluster.settle()
    taken = {seat.node for each in cluster.snapshot.admissions.values() for seat in each.holding()}
    alone = facts.pod(
        "alone", "n3", namespace="ml", labels=(("app", "x"),), controller="", owner_name="", queue=None
    )
    cluster.see(alone)
    cluster.settle()
    job = batch_job("a", 2, queue="team", gpu=1)
    job["spec"]["template"]["spec"] |= {
        "affinity": {"podAntiAffinity": {REQUIRED: [{**OF_X, "topologyKey": HOST}]}}
    }

    found = one(cluster, job)

    assert len(taken) == 1
    assert found.state is TrialState.ADMITTED
    assert {seat.node for seat in found.seats} & {*taken, "n3"} == set()


def test_rules_of_pods_that_exist_count_for_what_is_tried(cluster: WorldInMemory) -> None:
    before = batch_job("before", 1, queue="team", gpu=1)
    before["spec"]["template"]["spec"] |= {
        "affinity": {"podAntiAffinity": {REQUIRED: [{**OF_X, "topologyKey": "rack"}]}}
    }
    cluster.store(stored(before, "before"))
    cluster.settle()
    job = batch_job("a", 1, queue="team", gpu=1)
    job["spec"]["template"]["metadata"]["labels"] = {"app": "x"}

    (seat,) = one(cluster, job).seats

    assert seat.node in {"n2", "n3"}
