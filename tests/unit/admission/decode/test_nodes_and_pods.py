"""Objects as the API server sends them → what admission knows of them."""

from typing import Any

import msgspec
import pytest

from admission.decode.admin_documents import flavor_fact, namespace_fact, queue_fact, topology_fact
from admission.decode.fields import explained
from admission.decode.nodes import node_fact
from admission.decode.pod_templates import existing_paths
from admission.decode.pods import PodReadiness, readiness_of
from admission.decode.topology_requests import Tiers
from admission.facts.cluster import NamespaceFact, NodeFact
from admission.facts.pods import PodFact, PodPhase
from admission.wire import Bare, WireNode, WirePod, WirePodStatus
from admission.workloads.context import Context, in_context
from admission.workloads.kinds import read_pod
from queues import kind_names
from queues.api import names
from queues.errors import InvalidDocument
from queues.kind_names import KindName
from queues.quota.queue import ROOT
from queues.resources import Resources
from queues.workload import AdmissionId, QueueName, Requirement, Taint, WorkloadKey
from tests.tables import named_rows, with_rows


def a_node(annotations: dict[str, str] | None = None, **status: Any) -> NodeFact:
    document = {
        "metadata": {"name": "n1", "labels": {"rack": "r1"}, "annotations": annotations or {}},
        "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]},
        "status": {
            "allocatable": {"cpu": "7900m", "memory": "1Gi", "nvidia.com/gpu": "8", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
            "images": [{"names": ["x"], "sizeBytes": 1}],
            **status,
        },
    }
    return node_fact(msgspec.json.decode(msgspec.json.encode(document), type=WireNode))


def a_pod(
    meta: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
) -> PodFact:
    document = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "managedFields": [{}], **(meta or {})},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], **(spec or {})},
        "status": {"phase": "Pending", **(status or {})},
    }
    return read_pod(msgspec.json.decode(msgspec.json.encode(document), type=WirePod))


def controlled_by(api_version: str, kind: str = "Job") -> dict[str, Any]:
    owner = {"apiVersion": api_version, "kind": kind, "name": "o", "uid": "owner", "controller": True}
    return {"ownerReferences": [owner]}


RELEASED = {"muster.dev/released": "true"}
PIN = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": rules}}


def test_a_node_offers_what_it_can_allocate() -> None:
    assert a_node() == NodeFact(
        name="n1",  # type: ignore[arg-type]
        allocatable=Resources({"cpu": 7900, "memory": 2**30, "nvidia.com/gpu": 8000, "pods": 110}),
        labels={"rack": "r1"},
        taints=(Taint("gpu", "", "NoSchedule"),),
        ready=True,
    )


@pytest.mark.parametrize("conditions", [[], [{"type": "Ready", "status": "Unknown"}], None])
def test_a_node_is_ready_only_if_it_says_so(conditions: Any) -> None:
    assert not a_node(conditions=conditions).ready


def test_a_node_with_an_unreadable_amount_does_not_offer_that_resource() -> None:
    assert a_node(allocatable={"cpu": "1", "x/y": "many"}).allocatable == Resources({"cpu": 1000})


@pytest.mark.parametrize(
    ("metadata", "fact"),
    [
        ({"labels": {"team": "a"}}, NamespaceFact(name="ns", labels={"team": "a"})),
        ({"annotations": {names.QUEUE_LABEL: "q"}}, NamespaceFact(name="ns", queue=QueueName("q"))),
        ({}, NamespaceFact(name="ns")),
    ],
)
def test_a_namespace_is_its_labels_and_its_default_queue(
    metadata: dict[str, Any], fact: NamespaceFact
) -> None:
    raw = msgspec.json.encode({"metadata": {"name": "ns", **metadata}})
    assert namespace_fact(msgspec.json.decode(raw, type=Bare)) == fact


@with_rows("kind", "name", "labels", "controller")
def test_a_pod_tells_what_controls_it(kind: str, name: str, labels: dict[str, str], controller: str) -> None:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "u", "controller": True}
    assert a_pod({"ownerReferences": [owner], "labels": labels}).controller == controller
    assert a_pod({"ownerReferences": [{**owner, "controller": False}], "labels": labels}).controller == ""


def test_a_pod_of_other_people_belongs_to_nobody() -> None:
    fact = a_pod(controlled_by("apps/v1", "ReplicaSet"), {"nodeName": "n1"}, {"phase": "Running"})
    assert (fact.owner, fact.queue, fact.group) == (None, None, None)
    assert (fact.node, fact.phase, fact.controller) == ("n1", PodPhase.RUNNING, "replicaset/o")
    assert fact.shape.takes == Resources({"cpu": 1000, "pods": 1})


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [("batch/v1", kind_names.JOB), ("batch.volcano.sh/v1alpha1", kind_names.VOLCANO_JOB)],
)
def test_a_pod_belongs_to_the_job_that_controls_it(api_version: str, kind: KindName) -> None:
    assert a_pod(controlled_by(api_version)).owner == WorkloadKey(kind, "owner")


@pytest.mark.parametrize("name", ["scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name"])
def test_a_pod_names_its_group(name: str) -> None:
    fact = a_pod({"annotations": {name: "g"}, "labels": {"muster.dev/queue-name": "q"}})
    assert (fact.group, fact.owner, fact.queue) == ("g", None, "q")


@with_rows("meta")
def test_a_pod_that_names_a_queue_is_a_workload_of_its_own(meta: dict[str, Any]) -> None:
    fact = a_pod(meta)
    assert (fact.queue, fact.owner) == ("q", WorkloadKey(kind_names.POD, "u"))


def test_gates_of_others_are_told_from_ours() -> None:
    ours, theirs = {"name": "muster.dev/admission"}, {"name": "example.org/wait"}
    both = a_pod(spec={"schedulingGates": [theirs, ours]})
    assert (both.gated, both.other_gates) == (True, ("example.org/wait",))
    one = a_pod(spec={"schedulingGates": [ours]})
    assert (one.gated, one.other_gates) == (True, ())
    other = a_pod(spec={"schedulingGates": [theirs]})
    assert (other.gated, other.other_gates, other.owner) == (False, ("example.org/wait",), None)


def test_a_gated_pod_without_a_queue_takes_its_namespaces_default() -> None:
    context = Context(queues={"ns": QueueName("team")})
    gated = a_pod(spec={"schedulingGates": [{"name": "muster.dev/admission"}]})
    assert in_context(gated, context).queue == "team"
    assert in_context(a_pod(), context).queue is None


def test_a_pod_of_a_namespace_in_migration_mode_is_in_its_queue_though_it_does_not_wait() -> None:
    context = Context(queues={"ns": QueueName("team")}, adopt_until={"ns": 7})
    found = in_context(a_pod(), context)
    assert (found.queue, found.adopt_until) == ("team", 7)
    assert in_context(a_pod({"labels": {"muster.dev/queue-name": "own"}}), context).queue == "own"


@with_rows("annotations", "until")
def test_a_namespace_is_in_migration_mode_until_a_time(annotations: dict[str, str], until: int) -> None:
    named = {**annotations, "muster.dev/queue-name": "team"}
    document = msgspec.json.encode({"metadata": {"name": "ns", "annotations": named}})
    fact = namespace_fact(msgspec.json.decode(document, type=Bare))
    assert (fact.name, fact.queue, fact.adopt_until) == ("ns", "team", until)


def test_what_muster_wrote_on_a_pod_is_read_back() -> None:
    written = {"muster.dev/admission-id": "42", "muster.dev/seat": "a/b/7"}
    fact = a_pod({"labels": RELEASED, "annotations": written})
    assert (fact.admission, fact.seat) == (AdmissionId(42), ("a/b", 7))


@pytest.mark.parametrize("labels", [{}, {"muster.dev/released": "false"}])
def test_an_admission_counts_only_on_a_pod_that_muster_released(labels: dict[str, str]) -> None:
    written = {"muster.dev/admission-id": "42", "muster.dev/seat": "a/b/7"}
    fact = a_pod({"labels": labels, "annotations": written})
    assert (fact.admission, fact.seat) == (None, None)


@pytest.mark.parametrize("seat", ["", "x", "x/", "x/-1", "x/1.5", "x/٣x"])
def test_a_seat_that_muster_cannot_have_written_is_no_seat(seat: str) -> None:
    assert a_pod({"labels": RELEASED, "annotations": {"muster.dev/seat": seat}}).seat is None


def test_the_pin_of_a_released_pod_is_not_part_of_its_shape() -> None:
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    released = {"labels": RELEASED, "annotations": {"muster.dev/admission-id": "1"}}
    assert a_pod(released, required(PIN)).shape.nodes == a_pod().shape.nodes
    asked = a_pod(spec=required({"matchExpressions": [zone]})).shape.nodes
    assert a_pod(released, required({**PIN, "matchExpressions": [zone]})).shape.nodes == asked
    assert asked.affinity == ((Requirement("zone", "In", ("a",)),),)


def test_a_pin_that_is_not_musters_counts() -> None:
    on_n1 = Requirement("metadata.name", "In", ("n1",), field=True)
    assert a_pod(spec=required(PIN)).shape.nodes.affinity == ((on_n1,),)


def test_the_index_comes_from_the_job_that_made_the_pod() -> None:
    indexed = a_pod({"annotations": {"batch.kubernetes.io/job-completion-index": "3"}})
    assert indexed.index == 3
    task = {"volcano.sh/task-spec": "worker", "volcano.sh/job-version": "2"}
    volcano = a_pod({"annotations": task, "labels": {"volcano.sh/task-index": "0"}})
    assert (volcano.task, volcano.index, volcano.version) == ("worker", 0, 2)


def test_a_refusal_by_the_scheduler_has_a_time_and_a_message() -> None:
    def scheduled(**fields: str) -> PodFact:
        return a_pod(status={"conditions": [{"type": "PodScheduled", **fields}]})

    no = {"status": "False", "reason": "Unschedulable"}
    refused = scheduled(**no, message="0/4 nodes", lastTransitionTime="2026-11-21T02:43:08Z")
    assert refused.refused == (1795228988, "0/4 nodes")
    assert scheduled(status="False", reason="SchedulingGated").refused is None
    unmade = '0/2 nodes are available: waiting for ephemeral volume controller to create the persistentvolumeclaim "a"'
    assert scheduled(**no, message=unmade).refused is None
    assert scheduled(status="True").refused is None


def test_a_failed_pod_tells_the_first_exit_code_that_is_a_failure() -> None:
    def ended(code: int) -> dict[str, Any]:
        return {"restartCount": 2, "state": {"terminated": {"exitCode": code}}}

    status = {"containerStatuses": [ended(0), ended(137), ended(1)]}
    failed = a_pod(status={"phase": "Failed", **status})
    assert (failed.exit_code, failed.restarts) == (137, 6)
    assert a_pod(status={"phase": "Running", **status}).exit_code is None
    assert a_pod(status={"phase": "Failed", "reason": "Evicted"}).exit_code is None


def ended_pod(*seconds: int | None, phase: str = "Succeeded", grace: int | None = 30) -> PodFact:
    """Asked for at 10:00:10, if at all; containers that end at these seconds, or run."""
    ends = f"2026-11-21T10:00:{10 + (grace or 0)}Z"
    deleted = {"deletionTimestamp": ends, "deletionGracePeriodSeconds": grace}
    states: list[dict[str, Any]] = [
        {"terminated": {"exitCode": 0, "finishedAt": f"2026-11-21T10:00:{at:02}Z"}} if at else {"running": {}}
        for at in seconds
    ]
    statuses = [{"state": state} for state in states]
    meta = deleted if grace is not None else {}
    return a_pod(meta, status={"phase": phase, "containerStatuses": statuses})


def test_a_pod_ended_by_itself_if_it_had_ended_when_its_deletion_was_asked_for() -> None:
    assert ended_pod(5, grace=None).ended_first is True
    assert ended_pod(5, 9).ended_first is True
    assert ended_pod(5, 9, phase="Failed").ended_first is True
    assert ended_pod(5, 10).ended_first is False, "it may have been told to end"
    assert ended_pod(5, 12).ended_first is False
    assert ended_pod(5, None).ended_first is False
    assert ended_pod(phase="Failed").ended_first is False, "nobody saw its containers end"
    assert ended_pod(5, None, phase="Running").ended_first is False


def test_a_pod_without_grace_cannot_tell_any_more_whether_it_was_told_to_end() -> None:
    assert ended_pod(5, grace=0).ended_first is None
    assert ended_pod(12, grace=0, phase="Failed").ended_first is None
    assert ended_pod(None, grace=0, phase="Running").ended_first is False


def test_nobody_waits_for_the_end_of_a_pod_that_is_deleted_without_grace() -> None:
    assert ended_pod(None, grace=0, phase="Running").forced
    assert not ended_pod(None, phase="Running").forced
    assert not ended_pod(None, grace=None, phase="Running").forced


def test_a_pod_is_kept_by_our_finalizer_only() -> None:
    assert a_pod({"finalizers": ["a.b/c", "muster.dev/outcome"]}).kept
    assert not a_pod({"finalizers": ["a.b/c"]}).kept
    assert not a_pod({}).kept


@pytest.mark.parametrize(
    ("phase", "known"), [("", PodPhase.PENDING), ("Unknown", PodPhase.RUNNING), ("Failed", PodPhase.FAILED)]
)
def test_a_pod_of_unknown_phase_may_still_run(phase: str, known: PodPhase) -> None:
    assert a_pod(status={"phase": phase}).phase is known


def test_a_pod_with_an_unreadable_request_still_takes_its_place() -> None:
    resources = {"requests": {"cpu": "lots"}}
    fact = a_pod(spec={"containers": [{"name": "c", "resources": resources}]})
    assert fact.shape.takes == Resources({"pods": 1})


def queue(**fields: Any) -> bytes:
    by_root = {"muster.dev/changed-by": "root@example.org"}
    metadata = {"name": "a", "uid": "q1", "generation": 3, "annotations": by_root}
    kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    return msgspec.json.encode({**kind, "metadata": metadata, **fields})


def test_a_queue_knows_who_changed_it() -> None:
    fact = queue_fact(queue(spec={"weight": 2, "deserved": {"cpu": "4"}}, status={"pending": 1}))
    assert (fact.queue.name, fact.queue.weight, fact.queue.limits.deserved) == ("a", 2, {"cpu": 4000})
    assert (fact.uid, fact.changed_by, fact.queue.generation) == ("q1", "root@example.org", 3)
    assert fact.document == {"spec": {"weight": 2, "deserved": {"cpu": "4"}}}


def test_the_reason_for_a_change_is_recorded_with_it_and_bounded() -> None:
    def recorded(reason: str) -> Any:
        annotations = {names.CHANGE_REASON: reason}
        return queue_fact(queue(metadata={"name": "a", "annotations": annotations}, spec={})).document

    assert recorded("more work ") == {"spec": {}, "reason": "more work"}
    assert recorded(" ") == {"spec": {}}
    assert len(recorded("x" * 200_000)["reason"]) == 1000


@pytest.mark.parametrize("spec", [{"weight": "heavy"}, {"deserved": {"cpu": "lots"}}, {"parent": 7}])
def test_a_queue_that_cannot_be_used_is_broken_under_its_own_name(spec: dict[str, Any]) -> None:
    fact = queue_fact(queue(spec=spec))
    assert fact.queue.name == "a"
    assert fact.queue.parent == ROOT
    assert fact.queue.broken


def test_flavors_and_topologies_are_read() -> None:
    flavor: dict[str, Any] = {"metadata": {"name": "h100"}, "spec": {"nodeLabels": {"gpu": "h100"}}}
    fact = flavor_fact(msgspec.json.encode(flavor))
    assert (fact.node_labels, fact.growth().largest) == ({"gpu": "h100"}, None)
    flavor["spec"]["mayGrow"] = {"nvidia.com/gpu": "8", "memory": "1Gi"}
    largest = {"nvidia.com/gpu": 8000, "memory": 2**30}
    assert flavor_fact(msgspec.json.encode(flavor)).growth().largest == largest
    # What was stored without the definition's rules is as if it were not stated.
    flavor["spec"]["mayGrow"] = {"nvidia.com/gpu": "eight"}
    assert flavor_fact(msgspec.json.encode(flavor)).growth().largest is None
    levels = [{"nodeLabel": "block"}, {"nodeLabel": "host"}]
    topology = {"metadata": {"name": "t"}, "spec": {"levels": levels}}
    assert topology_fact(msgspec.json.encode(topology)).levels == ("block", "host")
    with pytest.raises(InvalidDocument, match=r"spec\.levels"):
        topology_fact(b'{"metadata":{"name":"t"},"spec":{"levels":[]}}')


def test_tier_1_is_the_innermost_level_above_the_host() -> None:
    levels = ("block", "rack", "host")
    assert [Tiers(levels).level(tier) for tier in range(4)] == ["host", "rack", "block", None]
    assert Tiers().level(1) is None


def test_tiers_are_those_of_hypernodes_where_there_are_any() -> None:
    tiers = Tiers(("block", "rack", "host"), (1, 3), (("spine", 3),))
    keys = ["kubernetes.io/hostname", *(f"topology.volcano.sh/tier-{tier}" for tier in (1, 1, 3, 3))]
    assert [tiers.level(tier) for tier in range(5)] == keys
    assert tiers.level("spine") == "topology.volcano.sh/tier-3"
    assert tiers.level("moon") == "tier moon"


def test_a_complaint_names_field_found_and_expected() -> None:
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.json.decode(b'{"metadata":{"name":1}}', type=WireNode)
    assert explained(raised.value) == "metadata.name: found int, expected str"


@pytest.mark.parametrize("text", ["9" * 5000, "9" * 19, "-1", "1.5", ""])
def test_a_number_that_no_column_holds_is_none(text: str) -> None:
    """Anybody may write annotations, also ones that Python refuses to read as a number."""
    keys = (names.ADMISSION_ID, names.JOB_VERSION, names.TASK_INDEX)
    annotations = {**dict.fromkeys(keys, text), names.SEAT: f"worker/{text}"}
    found = a_pod({"labels": RELEASED, "annotations": annotations})
    assert (found.admission, found.version, found.index, found.seat) == (None, 0, None, None)


# ── whose pod it says it is ─────────────────────────────────────────────────────────────────────────────────


def test_a_pod_of_a_job_carries_the_label_of_the_job_controller() -> None:
    owned = controlled_by("batch/v1")
    assert not a_pod(owned).marked
    assert not a_pod({**owned, "labels": {"batch.kubernetes.io/controller-uid": "another"}}).marked
    own = a_pod({**owned, "labels": {"batch.kubernetes.io/controller-uid": "owner"}})
    assert (own.marked, own.owner_name) == (True, "o")


def test_a_pod_of_a_volcano_job_is_named_after_job_task_and_index_and_says_so() -> None:
    owned = controlled_by("batch.volcano.sh/v1alpha1")
    said = {"volcano.sh/job-name": "o", "volcano.sh/task-spec": "w", "volcano.sh/task-index": "0"}
    assert a_pod({**owned, "name": "o-w-0", "annotations": said}).marked
    assert a_pod({**owned, "name": "o-w-0", "labels": said}).marked
    other = {**said, "volcano.sh/job-name": "other"}
    for wrong in ({"name": "o-w-1"}, {"annotations": other}, {"annotations": {}}):
        assert not a_pod({**owned, "name": "o-w-0", "annotations": said, **wrong}).marked


def test_a_pod_that_is_being_deleted_tells_its_grace_period_and_when_that_is_over() -> None:
    at = {"deletionTimestamp": "1970-01-01T00:02:00Z"}
    for grace, expected in (
        ({"deletionGracePeriodSeconds": 30}, 30),
        ({"deletionGracePeriodSeconds": 0}, 0),
        ({}, 0),
    ):
        leaving = a_pod({**at, **grace})
        assert (leaving.ends_by, leaving.grace) == (120, expected)
    assert (a_pod().ends_by, a_pod().grace) == (0, 0)


def test_a_node_tells_since_when_it_is_not_ready() -> None:
    silent = {"type": "Ready", "status": "Unknown", "lastTransitionTime": "1970-01-01T00:01:00Z"}
    found = a_node(conditions=[silent])
    assert (found.ready, found.not_ready_since) == (False, 60)
    ready = a_node(conditions=[{**silent, "status": "True"}])
    assert (ready.ready, ready.not_ready_since) == (True, 0)


def test_a_pod_counts_with_what_its_kubelet_gives_it_after_a_resize_in_place() -> None:
    given = {"name": "c", "resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "3"}}
    assert a_pod(status={"containerStatuses": [given]}).shape.takes == Resources({"cpu": 3000, "pods": 1})


def test_ephemeral_containers_take_nothing_and_overhead_is_taken_as_it_was_written() -> None:
    """The API server refuses requests of ephemeral containers; it writes the overhead of a RuntimeClass."""
    spec = {"ephemeralContainers": [{"name": "debug", "image": "x"}], "overhead": {"cpu": "250m"}}
    assert a_pod(spec={**spec, "runtimeClassName": "kata"}).shape.takes == Resources({"cpu": 1250, "pods": 1})


GROUP_MIN_MEMBER = "scheduling.volcano.sh/group-min-member"


@with_rows("group", "said", "expected")
def test_a_pod_tells_the_size_of_the_group_that_muster_makes_for_its_owner(
    group: str, said: str | None, expected: int
) -> None:
    annotations = {"scheduling.k8s.io/group-name": group, **({GROUP_MIN_MEMBER: said} if said else {})}
    pod = a_pod({"annotations": annotations})
    assert (pod.group, pod.group_minimum) == (group, expected)


LEADER = {names.LWS_NAME: "llm", names.LWS_GROUP_INDEX: "1"}


@named_rows(
    ("labels", "size", "expected"),
    {
        "a leader with its workers": ({}, "3", ("podgroup-llm-1", 3)),
        "a leader alone": ({}, "1", (None, 0)),
        "no size": ({}, "x", (None, 0)),
        "no group": ({names.LWS_GROUP_INDEX: "first"}, "3", (None, 0)),
        "no queue": ({names.QUEUE_LABEL: ""}, "3", (None, 0)),
    },
)
def test_a_leader_with_its_workers_is_one_group(
    labels: dict[str, str], size: str, expected: tuple[str | None, int]
) -> None:
    own = {**LEADER, names.QUEUE_LABEL: "a", **labels}
    pod = a_pod({"labels": own, "annotations": {names.LWS_SIZE: size}})
    assert (pod.group, pod.group_minimum) == expected


def test_a_leader_for_volcano_without_a_queue_is_the_group_of_its_controller_or_else_its_own() -> None:
    size = {names.LWS_SIZE: "3"}
    gated = {"schedulerName": "volcano", "schedulingGates": [{"name": names.GATE}]}
    pod = a_pod({"labels": LEADER, "annotations": size}, gated)
    assert (pod.group, pod.group_minimum) == ("podgroup-llm-1", 3)
    pod = a_pod({"labels": LEADER, "annotations": {**size, names.GROUP_ANNOTATION: "llm-1-a6f"}}, gated)
    assert (pod.group, pod.group_minimum, pod.owner) == ("llm-1-a6f", 0, None), "the PodGroup says the rest"


def test_a_leader_whose_workers_come_after_it_waits_alone() -> None:
    annotations = {names.LWS_SIZE: "3", names.LWS_EXCLUSIVE_TOPOLOGY: "rack"}
    pod = a_pod({"labels": {**LEADER, names.QUEUE_LABEL: "a"}, "annotations": annotations})
    assert (pod.group, pod.group_minimum) == (None, 0)
    assert pod.owner.kind == kind_names.POD


def test_a_node_says_which_faults_a_person_accepted() -> None:
    accepted = '{"phase":"none","accepted":["GPU-3/XidFault"]}'
    assert a_node({"muster.dev/recovery": accepted}).accepted == ("GPU-3/XidFault",)
    for odd in ("{", "[]", '{"accepted":7}'):
        assert a_node({"muster.dev/recovery": odd}).accepted == ()


def test_it_is_known_which_marks_for_autoscalers_users_wrote() -> None:
    evict, disrupt = names.KEPT_FROM_AUTOSCALERS
    at = "/metadata/annotations/"
    assert a_pod().existing == frozenset()
    marked = a_pod({"annotations": {evict: "true", "a": "b"}})
    assert marked.existing == {at + "cluster-autoscaler.kubernetes.io~1safe-to-evict"}
    template = msgspec.json.encode({"metadata": {"annotations": {disrupt: "false"}}, "spec": {}})
    assert at + "karpenter.sh~1do-not-disrupt" in existing_paths(template)
    assert at + "cluster-autoscaler.kubernetes.io~1safe-to-evict" not in existing_paths(template)


def test_it_is_known_which_template_gates_its_pods() -> None:
    gates = "/spec/schedulingGates"
    assert gates in existing_paths(b'{"spec": {"schedulingGates": [{"name": "muster.dev/admission"}]}}')
    assert gates not in existing_paths(b'{"spec": {}}')


AT, AT_SECONDS = "2027-01-15T08:00:00Z", 1_800_000_000


def read(*containers: dict[str, Any], ready: str = "False", **status: Any) -> PodReadiness:
    conditions = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": AT},
        {"type": "Ready", "status": ready, "lastTransitionTime": AT},
    ]
    document = {"phase": "Running", "conditions": conditions, "containerStatuses": list(containers), **status}
    return readiness_of(msgspec.json.decode(msgspec.json.encode(document), type=WirePodStatus))


def waiting(reason: str, message: str | None = None, **status: Any) -> dict[str, Any]:
    return {"name": "c", "state": {"waiting": {"reason": reason, "message": message}}, **status}


def test_a_ready_pod_is_ready_since_its_condition_says_so() -> None:
    assert read({"name": "c", "ready": True}, ready="True") == PodReadiness(AT_SECONDS, "", AT_SECONDS)


@pytest.mark.parametrize(
    ("container", "told"),
    [
        (waiting("ImagePullBackOff", 'pulling image "x"'), 'ImagePullBackOff: pulling image "x"'),
        (waiting("CrashLoopBackOff", "back-off 5m0s", restartCount=7), "CrashLoopBackOff: back-off 5m0s"),
        (waiting("ConfigError", 'secret "s"\n not\0found'), 'ConfigError: secret "s" not found'),
        (waiting("ContainerCreating"), ""),
        (waiting("PodInitializing"), ""),
        ({"restartCount": 3, "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}},
         "OOMKilled, exit code 137, 3 restarts"),
        ({"restartCount": 3, "state": {"running": {}}}, "3 restarts"),
        ({"restartCount": 0, "state": {"running": {}}}, ""),
    ],
)  # fmt: skip
def test_what_a_container_waits_for_is_told(container: dict[str, Any], told: str) -> None:
    assert read(container) == PodReadiness(None, told, AT_SECONDS)


def test_init_containers_come_first() -> None:
    init = [waiting("ErrImagePull", "unauthorized")]
    found = read(waiting("PodInitializing"), phase="Pending", initContainerStatuses=init)
    assert found.waits_for == "ErrImagePull: unauthorized"


def test_long_messages_are_cut() -> None:
    assert len(read(waiting("ErrImagePull", "x" * 5000)).waits_for) == 200


def test_a_container_that_has_completed_need_not_be_ready() -> None:
    done = {"name": "fetch", "ready": False, "state": {"terminated": {"exitCode": 0}}}
    assert read({"name": "c", "ready": True}, done).since == AT_SECONDS
    failed = {"name": "fetch", "ready": False, "state": {"terminated": {"exitCode": 1}}}
    assert read({"name": "c", "ready": True}, failed).since is None


def test_a_pod_that_says_nothing_is_not_ready() -> None:
    assert readiness_of(WirePodStatus()) == PodReadiness(None, "", 0)
