"""What a trial says of documents, in a cluster of two racks with two nodes of eight GPUs each."""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from admission.facts.changes import Change, FactKind
from admission.trials.submitted import NothingToTry, TrialState, UnusableDocument, asked_of
from admission.trials.trial import with_outlook
from admission.workloads.context import Context
from queues.api import names
from queues.quota.namespace_quota import NamespaceQuota, QuotaLimit
from queues.quota.queue import QueuePolicy
from queues.read_api.trials import TrialBody, TrialRequestBody
from queues.reason_codes import ReasonCode
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


def one(cluster: WorldInMemory, *documents: dict[str, Any], **about: Any) -> TrialBody:
    (found,) = cluster.tried(*documents, **about).items.values()
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

    assert (found.state, found.queue, sum(each.count for each in found.places)) == (
        TrialState.ADMITTED,
        "team",
        2,
    )
    (gpus,) = (each for each in found.quota if each.resource == GPU)
    assert (gpus.queue, gpus.takes, gpus.owned, gpus.used, gpus.deserved) == ("team", "16", "16", "0", "16")


def test_nothing_changes(cluster: WorldInMemory) -> None:
    cluster.tried(batch_job("a", 2, queue="team", gpu=8))

    assert not cluster.turn().changes_ledger()
    assert cluster.world.freeze(cluster.now).pending == {}


def test_what_is_beyond_the_deserved_amount_is_borrowed(cluster: WorldInMemory) -> None:
    cluster.store(stored(batch_job("before", 1, queue="team", gpu=8), "before"))
    cluster.settle()

    found = one(cluster, batch_job("a", 2, queue="team", gpu=8))

    (gpus,) = (each for each in found.quota if each.resource == GPU)
    assert (gpus.used, gpus.takes, gpus.owned, gpus.borrowed) == ("8", "16", "8", "8")


def test_one_that_waits_is_told_why_where_in_line_and_what_would_let_it_in(cluster: WorldInMemory) -> None:
    for name in ("b", "c"):
        cluster.store(stored(batch_job(name, 3, queue="team", gpu=8), name))
    cluster.settle()

    decided = cluster.tried(batch_job("a", 3, queue="team", gpu=8))
    (found,) = with_outlook(decided, lambda: True, {})

    assert (found.state, found.places) == (TrialState.WAITS, ())
    assert found.reason is not None
    assert found.reason.code == ReasonCode.QUEUE_LIMIT
    assert (found.position, found.queue_length) == (2, 2)
    assert found.changes
    (unexplained,) = with_outlook(decided, lambda: False, {})
    assert (unexplained.position, unexplained.changes) == (None, None)


def test_who_would_be_evicted_is_told(cluster: WorldInMemory) -> None:
    cluster.store(stored(batch_job("low", 4, queue="other", gpu=8), "low"))
    cluster.settle()

    found = one(cluster, batch_job("a", 2, queue="team", gpu=8))

    assert found.state is TrialState.PREEMPTS
    assert [each.name for each in found.victims] == ["low"]
    assert found.node_count == 2


def test_documents_are_decided_together_and_in_order(cluster: WorldInMemory) -> None:
    documents = [batch_job(name, 2, queue="team", gpu=8) for name in ("a", "b", "c")]

    states = [each.state for each in cluster.tried(*documents).items.values()]

    # Of 24 GPUs that the queue may use the second would take 32.
    assert states == [TrialState.ADMITTED, TrialState.WAITS, TrialState.WAITS]


def test_what_names_no_queue_and_waits_for_none_is_not_managed(cluster: WorldInMemory) -> None:
    for document in (batch_job("a", 1, gpu=1), pod("a", gpu=1), job_set("a", 1, 1, gpu=1)):
        assert one(cluster, document).state is TrialState.UNMANAGED


def test_a_pod_that_the_policies_gate_waits_in_the_queue_of_its_namespace(cluster: WorldInMemory) -> None:
    cluster.context = Context(queues={"gated": "team"})  # type: ignore[dict-item]
    found = one(cluster, stored(pod("a", gpu=1), "a", namespace="gated"))
    assert (found.state, found.queue) == (TrialState.ADMITTED, "team")


@pytest.mark.parametrize("document", [batch_job("a", 1, gpu=1), pod("a", gpu=1), volcano_job("a", 1, gpu=1)])
def test_another_queue_can_be_tried(cluster: WorldInMemory, document: dict[str, Any]) -> None:
    found = one(cluster, document, queue="team")
    assert (found.state, found.queue) == (TrialState.ADMITTED, "team")


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
    assert one(cluster, *documents).warnings == ()
    for spec in _pod_specs(documents):
        spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    (warning,) = one(cluster, *documents).warnings
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
    items = [*cluster.tried(broken, batch_job("a", 1, queue="team", gpu=1)).items.values()]
    assert [each.state for each in items] == [TrialState.REFUSED, TrialState.ADMITTED]
    assert "parallelism" in items[0].refusals[0]


def test_a_pod_without_its_group_tells_nothing_of_a_gang(cluster: WorldInMemory) -> None:
    found = one(cluster, pod("a-0", group="a", gpu=1))
    assert found.state is TrialState.REFUSED
    assert "PodGroup a is not among the documents" in found.refusals[0]


def test_a_group_with_too_few_members_waits_for_them(cluster: WorldInMemory) -> None:
    found = one(cluster, pod_group("a", 2, queue="team"), pod("a-0", group="a", gpu=1))
    assert found.reason is not None
    assert (found.state, found.reason.code) == (TrialState.WAITS, ReasonCode.NOT_ENOUGH_PODS)


def test_users_write_nothing_that_only_muster_writes(cluster: WorldInMemory) -> None:
    document = batch_job("a", 1, queue="team", gpu=1)
    document["metadata"]["annotations"] = {names.USER: "mallory", names.ADMISSION_ID: "1"}
    document["metadata"]["uid"] = "forged"
    document["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    decided = cluster.tried(document)
    ((key, found),) = decided.items.items()
    assert (found.state, decided.snapshot.pending[key].user) == (TrialState.ADMITTED, "alice")


def test_priorities_of_classes_count_for_pods_too(cluster: WorldInMemory) -> None:
    document = pod("a", queue="team", gpu=1)
    document["spec"] |= {"priorityClassName": "high", "priority": 100}
    found = one(cluster, document)
    assert found.priority == 100


def test_a_resource_quota_of_the_namespace_counts(cluster: WorldInMemory) -> None:
    limit = QuotaLimit(name=f"requests.{GPU}", resource=GPU, hard=8000, used=0)
    quota = NamespaceQuota(namespace="ml", name="few", limits=(limit,))
    cluster.world.observe([Change(FactKind.RESOURCE_QUOTA, "q", quota)])
    cluster.settle()

    jobs = [batch_job(name, 1, queue="team", gpu=8) for name in ("a", "b")]
    items = [*cluster.tried(*jobs).items.values()]

    assert [each.state for each in items] == [TrialState.ADMITTED, TrialState.WAITS]
    assert items[1].reason is not None
    assert items[1].reason.code == ReasonCode.NAMESPACE_QUOTA
    assert "ResourceQuota few" in items[1].reason.message


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


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (pod("a", queue="team", gpu=1), "spec"),
        (batch_job("a", 1, gpu=1), "metadata.annotations"),
        (volcano_job("a", 1, queue="team", gpu=1), "metadata.labels"),
    ],
    ids=lambda each: each if isinstance(each, str) else None,
)
def test_a_value_of_another_type_is_refused(
    cluster: WorldInMemory, document: dict[str, Any], path: str
) -> None:
    *above, last = path.split(".")
    inner = document
    for each in above:
        inner = inner[each]
    inner[last] = ["x"]

    found = one(cluster, document)

    assert (found.state, len(found.refusals)) == (TrialState.REFUSED, 1)


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

    assert found.node_count == nodes
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
    assert {place.node for place in found.places} & {*taken, "n3"} == set()


def test_rules_of_pods_that_exist_count_for_what_is_tried(cluster: WorldInMemory) -> None:
    before = batch_job("before", 1, queue="team", gpu=1)
    before["spec"]["template"]["spec"] |= {
        "affinity": {"podAntiAffinity": {REQUIRED: [{**OF_X, "topologyKey": "rack"}]}}
    }
    cluster.store(stored(before, "before"))
    cluster.settle()
    job = batch_job("a", 1, queue="team", gpu=1)
    job["spec"]["template"]["metadata"]["labels"] = {"app": "x"}

    (place,) = one(cluster, job).places

    assert place.node in {"n2", "n3"}
