"""Models are as strict as the API server, and become domain values."""

import pytest
from pydantic import ValidationError

from queues.api.reading.user_values import is_label_key
from queues.api.resource_names import is_extended
from queues.api.types.queue import QueueDocument
from queues.api.types.volcano_job import VolcanoJob
from queues.api.validation.unsupported import unsupported, unsupported_in_queue
from queues.errors import InvalidDocument, InvalidQuantity
from queues.quota.queue import Limits, NodeRecoveryRules
from queues.resources import MOST, Resources, amount, quantity
from queues.text_format import seconds_of
from queues.workload import Requirement
from tests.tables import with_rows


@with_rows("spec")
def test_what_the_api_server_would_refuse_is_refused(spec):
    with pytest.raises(InvalidDocument, match=r"^spec\."):
        VolcanoJob.read({"spec": spec})


def test_attributes_are_no_keys():
    assert VolcanoJob.read({"spec": {"min_available": 3}}).spec.min_available == 0


def test_documents_do_not_change():
    with pytest.raises(ValidationError):
        VolcanoJob.read({}).spec.min_available = 3


def test_a_queue_becomes_a_domain_queue():
    queue = QueueDocument.read(
        {
            "metadata": {"name": "team", "generation": 7},
            "spec": {
                "weight": 3,
                "priority": 5,
                "reclaimable": False,
                "guarantee": {"resource": {"cpu": 1}},
                "deserved": {"cpu": "1500m", "nvidia.com/gpu": 0},
                "capability": {"cpu": 2, "memory": 0},
                "flavors": [{"name": "b", "deserved": {"nvidia.com/gpu": 8}}, {"name": "a"}],
                "policy": {"order": "fifo", "ageingPerHour": 10, "placement": "spread", "paused": True},
                "access": {"maxGang": 4, "maxPending": 5, "maxPendingPerUser": 6, "maxPerUser": {"cpu": "2"}},
            },
            "status": {"state": "Closing"},
        }
    ).to_domain()
    assert (queue.name, queue.parent, queue.weight, queue.priority) == ("team", "root", 3, 5)
    assert (queue.reclaimable, queue.paused, queue.closed, queue.broken) == (False, True, True, None)
    assert queue.limits.guarantee == Resources({"cpu": 1000})
    # A zero forbids; nothing allows.
    assert queue.limits.deserved == {"cpu": 1500, "nvidia.com/gpu": 0}
    assert queue.limits.capability == {"cpu": 2000, "memory": 0}
    assert list(queue.flavors) == ["b", "a"]
    assert queue.flavors["b"] == Limits(deserved={"nvidia.com/gpu": 8000})
    assert (queue.order, queue.ageing_per_hour, queue.placement) == ("fifo", 10, "spread")
    assert queue.max_per_user == {"cpu": 2000}
    assert (queue.max_gang, queue.max_pending, queue.max_pending_per_user, queue.generation) == (4, 5, 6, 7)


def test_root_has_no_parent():
    assert (
        QueueDocument.read({"metadata": {"name": "root"}, "spec": {"parent": "root"}}).to_domain().parent
        is None
    )


def test_a_queue_with_an_unreadable_quantity_is_broken_and_stops_nobody():
    queue = QueueDocument.read(
        {"metadata": {"name": "team"}, "spec": {"capability": {"cpu": "many"}}}
    ).to_domain()
    assert "'many'" in (queue.broken or "")
    assert queue.limits == Limits()


def test_fields_that_do_nothing_yet_are_told():
    assert unsupported(VolcanoJob.read({"spec": {"plugins": {"env": [], "svc": [], "ssh": []}}})) == ()
    job = VolcanoJob.read(
        {
            "spec": {
                "policies": [
                    {"event": "*", "action": "AbortJob"},
                    {"event": "OutOfSync", "action": "EatJob"},
                ],
                "plugins": {"jax": [], "svc": ["--publish-not-ready-addresses=true", "--new-flag"]},
                "networkTopology": {"highestTierAllowed": 1},
                "runningEstimate": "2h",
                "volumes": [{"mountPath": "/a", "volumeClaimName": "b"}],
                "tasks": [{"dependsOn": {"name": ["b"]}}, {"topologyPolicy": "none"}],
            }
        }
    )
    assert unsupported(job) == (
        "spec.policies[1].action EatJob",
        "spec.policies[1].event OutOfSync",
        "spec.plugins.jax",
        "spec.plugins.svc --new-flag",
    )
    assert unsupported_in_queue(QueueDocument.read({"spec": {"dequeueStrategy": "traverse"}})) == ()
    assert unsupported_in_queue(
        QueueDocument.read({"spec": {"affinity": {"nodeGroupAffinity": {}}, "type": "x"}})
    ) == (
        "spec.affinity",
        "spec.type",
    )
    recovery = {"policy": {"health": {"onFault": "recover", "recovery": {"job": "ops/repair"}}}}
    assert unsupported_in_queue(QueueDocument.read({"metadata": {"name": "a"}, "spec": recovery})) == (
        "spec.policy.health.recovery",
    )
    assert unsupported_in_queue(QueueDocument.read({"metadata": {"name": "root"}, "spec": recovery})) == ()
    access = {"namespaceSelector": {}, "admins": [{"user": "ann"}], "maxGang": 4, "maxRunTime": "1h"}
    assert unsupported_in_queue(QueueDocument.read({"spec": {"access": access}})) == ()
    of_root = {"metadata": {"name": "root"}, "spec": {"access": access}}
    assert unsupported_in_queue(QueueDocument.read(of_root)) == ("spec.access.admins",)


@pytest.mark.parametrize(
    ("resource", "text", "units"),
    [
        ("cpu", "500m", 500),
        ("cpu", 0.1, 100),
        ("cpu", "1u", 1),
        ("memory", "1.5Gi", 3 * 2**29),
        ("memory", "1e3", 1000),
        ("memory", "1Ei", MOST),
        ("memory", "129M", 129_000_000),
        ("nvidia.com/gpu", 8, 8000),
        ("pods", "110", 110),
        ("hugepages-2Mi", "4Mi", 4 * 2**20),
    ],
)
def test_quantities_are_exact(resource, text, units):
    assert amount(resource, text) == units


@pytest.mark.parametrize("text", ["", "x", "1 Gi", "1KI", "1e", "--1", "0x1", "1e999999999", "9" * 30, "inf"])
def test_what_is_no_quantity_or_beyond_any_cluster_is_refused_at_once(text):
    with pytest.raises(InvalidQuantity, match="expected"):
        amount("memory", text)


def test_a_fraction_is_exact():
    assert str(quantity("0.1")) == "0.1"


@with_rows("text", "seconds")
def test_durations_are_gos(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    ("resource", "extended"), [("nvidia.com/gpu", True), ("cpu", False), ("hugepages-2Mi", False)]
)
def test_extended_resources_have_a_domain(resource, extended):
    assert is_extended(resource) is extended


@with_rows("key", "valid")
def test_label_keys_are_qualified_names(key, valid):
    assert is_label_key(key) is valid


def test_a_namespace_selector_becomes_requirements_that_must_all_hold():
    selector = {
        "matchLabels": {"team": "a"},
        "matchExpressions": [
            {"key": "tier", "operator": "NotIn", "values": ["test"]},
            {"key": "gpu", "operator": "Exists"},
        ],
    }
    queue = QueueDocument.read({"spec": {"access": {"namespaceSelector": selector}}}).to_domain()
    assert queue.namespace_selector == (
        Requirement("team", "In", ("a",)),
        Requirement("tier", "NotIn", ("test",)),
        Requirement("gpu", "Exists"),
    )
    assert QueueDocument.read({"spec": {}}).to_domain().namespace_selector is None
    assert (
        QueueDocument.read({"spec": {"access": {"namespaceSelector": {}}}}).to_domain().namespace_selector
        == ()
    )


@with_rows("selector")
def test_a_selector_that_cannot_be_read_opens_no_queue(selector):
    queue = QueueDocument.read({"spec": {"access": {"namespaceSelector": selector}}}).to_domain()
    assert queue.broken is not None
    assert "spec.access.namespaceSelector" in queue.broken


@pytest.mark.parametrize(("text", "seconds"), [("72h", 259_200), ("90s", 90), ("0", None), ("0s", None)])
def test_a_run_limit_of_zero_is_none(text: str, seconds: int | None) -> None:
    document = {"metadata": {"name": "a"}, "spec": {"access": {"maxRunTime": text}}}
    assert QueueDocument.read(document).to_domain().max_run_time == seconds


def test_how_nodes_are_recovered_is_read_from_the_health_of_root() -> None:
    def rules(**health: object) -> NodeRecoveryRules:
        spec = {"policy": {"health": health}} if health else {}
        return QueueDocument.read({"metadata": {"name": "root"}, "spec": spec}).to_domain().node_recovery

    assert rules() == rules(onFault="evict") == NodeRecoveryRules()
    recovery = {"job": "ops/reset", "verifyJob": "ops/test", "maxNodesOut": 4}
    assert rules(onFault="recover", recovery=recovery) == NodeRecoveryRules(
        recovers=True, job="ops/reset", verify_job="ops/test", max_nodes_out=4
    )
