"""``policy.provisioning`` of a Queue: what it means, what is wrong, and which queue's counts."""

from typing import Any

import pytest

from queues.api.types.queue import QueueDocument
from queues.api.validation.queue_rules import queue_violations
from queues.quota.queue import ROOT, Limits, ProvisioningRules, Queue, provisioning_rules, release_rules
from queues.workload import FlavorName, QueueName, Toleration
from tests.tables import with_rows

CLASS = "check-capacity.autoscaling.x-k8s.io"


def document(**provisioning: Any) -> QueueDocument:
    spec = {"policy": {"provisioning": provisioning}}
    return QueueDocument.read({"metadata": {"name": "vision"}, "spec": spec})


def test_what_is_stated_counts_and_the_rest_has_defaults() -> None:
    short = document(className=CLASS).to_domain().provisioning
    assert short == ProvisioningRules(class_name=CLASS, timeout=900, max_open=10)
    full = document(className=CLASS, parameters={"b": "2", "a": "1"}, timeout="5m", maxOpen=3)
    assert full.to_domain().provisioning == ProvisioningRules(
        class_name=CLASS, parameters=(("a", "1"), ("b", "2")), timeout=300, max_open=3
    )
    assert QueueDocument.read({"metadata": {"name": "vision"}}).to_domain().provisioning is None


@with_rows("provisioning", "path")
def test_what_no_autoscaler_could_do_is_told(provisioning: dict[str, Any], path: str) -> None:
    assert [each.path for each in queue_violations(document(**provisioning))] == [path]


@pytest.mark.parametrize("name", ["", CLASS])
def test_a_class_or_none_is_right(name: str) -> None:
    assert queue_violations(document(className=name)) == []


def test_the_nearest_queue_that_states_something_counts() -> None:
    rules, other = ProvisioningRules(class_name="a"), ProvisioningRules(class_name="b")
    queues = {
        "root": Queue(name=ROOT, parent=None, provisioning=rules),
        "lab": Queue(name=QueueName("lab")),
        "vision": Queue(name=QueueName("vision"), parent=QueueName("lab"), provisioning=other),
        "off": Queue(name=QueueName("off"), provisioning=ProvisioningRules()),
        "none": Queue(name=QueueName("none"), provisioning=ProvisioningRules(class_name="a", max_open=0)),
    }
    found = {name: provisioning_rules(QueueName(name), queues.get) for name in (*queues, "absent")}
    assert found == {"root": rules, "lab": rules, "vision": other, "off": None, "none": None, "absent": None}


def test_pods_are_kept_from_autoscalers_as_the_nearest_queue_says() -> None:
    queues = {
        "root": Queue(name=ROOT, parent=None, keep_from_autoscalers=True),
        "lab": Queue(name=QueueName("lab")),
        "off": Queue(name=QueueName("off"), parent=QueueName("lab"), keep_from_autoscalers=False),
    }
    found = {name: release_rules(QueueName(name), queues.get, {}).kept for name in (*queues, "absent")}
    assert found == {"root": True, "lab": True, "off": False, "absent": False}


def test_pods_get_the_tolerations_of_the_flavors_that_the_nearest_queue_names() -> None:
    fast, slow, other = map(FlavorName, ("fast", "slow", "other"))
    by_flavor = {fast: (Toleration("gpu", "Exists"),), other: (Toleration("other", "Exists"),)}
    queues = {
        "root": Queue(name=ROOT, parent=None),
        "lab": Queue(name=QueueName("lab"), flavors={fast: Limits(), slow: Limits()}),
        "below": Queue(name=QueueName("below"), parent=QueueName("lab")),
        "own": Queue(name=QueueName("own"), parent=QueueName("lab"), flavors={other: Limits()}),
    }
    found = {name: release_rules(QueueName(name), queues.get, by_flavor).tolerations for name in queues}
    of_lab = {fast: by_flavor[fast]}
    assert found == {"root": {}, "lab": of_lab, "below": of_lab, "own": {other: by_flavor[other]}}
