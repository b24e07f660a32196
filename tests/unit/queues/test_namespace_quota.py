"""ResourceQuotas of Kubernetes against the pods of a gang."""

from typing import Any

import msgspec
import pytest

from admission.decode.admin_documents import namespace_quota
from admission.wire import WireResourceQuota
from queues.quota.namespace_quota import NamespaceQuota, QuotaLimit, requests_together
from queues.resources import GPU, Resources, device

SMALL, LARGE = Resources({"cpu": 1000, "pods": 1}), Resources({"cpu": 4000, GPU: 8000, "pods": 1})


def read(status: dict[str, Any], **spec: Any) -> NamespaceQuota | None:
    document = {"metadata": {"namespace": "ns", "name": "team"}, "spec": spec, "status": status}
    return namespace_quota(msgspec.json.decode(msgspec.json.encode(document), type=WireResourceQuota))


def test_lines_about_requests_of_pods_are_read_as_the_resources_they_limit() -> None:
    hard = {
        "cpu": "4",
        "requests.memory": "8Gi",
        "requests.nvidia.com/gpu": "16",
        "count/pods": "100",
        "limits.cpu": "9",
        "requests.storage": "1Ti",
        "services": "3",
        "gold.storageclass.storage.k8s.io/requests.storage": "1Ti",
        "requests.cpu": "much",
    }
    quota = read({"hard": hard, "used": {"cpu": "1500m"}})
    assert quota is not None
    assert quota.limits == (
        QuotaLimit("cpu", "cpu", 4000, 1500),
        QuotaLimit("requests.memory", "memory", 8 * 2**30, 0),
        QuotaLimit("requests.nvidia.com/gpu", GPU, 16_000, 0),
        QuotaLimit("count/pods", "pods", 100, 0),
    )


@pytest.mark.parametrize("spec", [{"scopes": ["BestEffort"]}, {"scopeSelector": {"matchExpressions": []}}])
def test_quotas_of_a_scope_are_left_to_the_api_server(spec: dict[str, Any]) -> None:
    assert read({"hard": {"pods": "1"}}, **spec) is None
    assert read({}) is None
    assert read({"hard": {"services": "1"}}) is None


def test_what_is_used_and_what_is_promised_leave_the_rest(golden: Any) -> None:
    quota = NamespaceQuota(namespace="ns", name="team", limits=(QuotaLimit("pods", "pods", 6, 1),))
    assert not quota.lacks(Resources({"pods": 5, "cpu": 10**9}))
    assert quota.lacks(Resources({"pods": 5}), Resources({"pods": 3})) == golden
    over = NamespaceQuota(namespace="ns", name="team", limits=(QuotaLimit("pods", "pods", 6, 9),))
    assert "found room for 0 pods (6 hard, 9 used), expected 1" in over.lacks(Resources({"pods": 1}))
    assert not over.lacks(Resources({"cpu": 1})), "nothing of it is asked"


def test_pods_ask_together_what_each_asks_and_the_smallest_ones_if_not_all_are_needed() -> None:
    pods = {SMALL: 3, LARGE: 2}
    assert requests_together(pods) == Resources({"cpu": 11_000, GPU: 16_000, "pods": 5})
    assert requests_together(pods, 4) == Resources({"cpu": 7000, GPU: 8000, "pods": 4})


def test_parts_of_devices_are_no_requests() -> None:
    part = Resources({"cpu": 1000, GPU: 500, device(GPU, 0): 500, "pods": 1})
    assert requests_together({part: 2}) == Resources({"cpu": 2000, "pods": 2})
