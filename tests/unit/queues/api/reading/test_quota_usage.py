"""What Kubernetes counts of a pod in a ResourceQuota, as minResources of a PodGroup say it."""

from typing import Any

import msgspec
import pytest

from queues.api.reading.quota_usage import QuotaUsage
from queues.api.reading.user_values import MOST_RESOURCES
from queues.api.types.pod import WirePodSpec
from queues.api.types.podgroup import PodGroupSpec
from queues.api.validation.violations import quantity_violations


def usage(**spec: Any) -> QuotaUsage:
    return QuotaUsage.of(msgspec.convert(spec, WirePodSpec))


def container(
    requests: dict[str, str] | None = None, limits: dict[str, str] | None = None, **more: Any
) -> Any:
    return {"resources": {"requests": requests or {}, "limits": limits or {}}, **more}


def test_each_resource_has_its_plain_name_and_that_of_a_quota(golden: Any) -> None:
    asked = {"cpu": "1000m", "memory": "1000Mi", "nvidia.com/gpu": "1", "hugepages-2Mi": "4Mi"}
    two = usage(containers=[container(asked, asked), container(asked, asked)])
    assert two.quantities() == golden


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [container({"cpu": "1"})]}, {"cpu": "1"}),
        ({"containers": [container(limits={"cpu": "2"})]}, {"cpu": "2", "limits.cpu": "2"}),
        (
            {
                "containers": [container({"cpu": "1"}, {"cpu": "2"})],
                "initContainers": [container({"cpu": "4"}, {"cpu": "8"})],
            },
            {"cpu": "4", "limits.cpu": "8"},
        ),
        (
            {
                "containers": [container({"cpu": "1"}, {"cpu": "2"})],
                "initContainers": [container({"cpu": "1"}, {"cpu": "1"}, restartPolicy="Always")],
            },
            {"cpu": "2", "limits.cpu": "3"},
        ),
        (
            {
                "containers": [container({"cpu": "1"}, {"cpu": "2"})],
                "overhead": {"cpu": "500m", "memory": "1Gi"},
            },
            {"cpu": "1500m", "limits.cpu": "2500m", "memory": "1Gi"},
        ),
        (
            {"containers": [container({"cpu": "1"})], "resources": {"limits": {"cpu": "6"}}},
            {"cpu": "1", "limits.cpu": "6"},
        ),
    ],
    ids=["request", "limit alone", "init container", "sidecar", "overhead", "limit of the pod"],
)
def test_limits_are_added_up_as_requests_are(spec: dict[str, Any], expected: dict[str, str]) -> None:
    found = usage(**spec).quantities()
    assert {
        name: text for name, text in found.items() if not name.startswith(("requests.", "count/", "pods"))
    } == (expected)


def test_what_is_written_is_a_valid_podgroup_however_much_is_asked() -> None:
    many = {f"example.com/{number}": "1" for number in range(MOST_RESOURCES - 1)}
    for spec in ({"cpu": "9E", "memory": "999Pi"}, many):
        written = usage(containers=[container(spec)]).times(2**31 - 1).quantities()
        assert written.keys() >= {"pods", *spec}
        PodGroupSpec(min_resources=written)
        assert not list(quantity_violations(written, "spec.minResources"))


def test_no_pods_use_nothing() -> None:
    assert usage(containers=[container({"cpu": "1"})]).times(0).quantities() == {}
