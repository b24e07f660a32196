"""Names and amounts of resources in pods: what Muster refuses is what a real API server refuses."""

from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec
import pytest
import pytest_asyncio

from admission.decode.pod_templates import pod_set_of
from admission.kube.client.client import Client
from deploy.local.cluster import LocalCluster
from queues.api.api_resources import PODS
from queues.api.validation.validation import violations_of
from queues.errors import ApiError

#: Names as people write them, right and wrong ones.
NAMES: Final = (
    *("cpu", "CPU", "cpus", "memory", "Memory", "mem", "ephemeral-storage", "storage", "pods"),
    *(
        "gpu",
        "gpus",
        "GPU",
        "nvidia",
        "nvidia.com",
        "nvidia.com/",
        "/gpu",
        "nvidia.com/gpu",
        "nvidia.com/GPU",
    ),
    *("nvidia/gpu", "NVIDIA.com/gpu", "nvidia.com/gpu/0", "nvidia.com/-gpu", "nvidia.com/mig-1g.5gb"),
    *("requests.cpu", "limits.memory", "requests.nvidia.com/gpu", "limits.nvidia.com/gpu"),
    *(
        "hugepages-2Mi",
        "hugepages-1Gi",
        "hugepages-",
        "hugepages",
        "hugepages-big",
        "hugepages-2MB",
        "hugepages-0",
    ),
    *("attachable-volumes-csi-x", "kubernetes.io/thing", "a.kubernetes.io/thing", "kubernetes.io/batch-cpu"),
    *("x" * 64, f"nvidia.com/{'g' * 63}", f"nvidia.com/{'g' * 64}", "my gpu", "größe", "node", "count/pods"),
)
AMOUNTS: Final = (
    *("1", "0", "-1", "1.5", "500m", "64GB", "64Gi", "64 Gi", " 1", "1e3", "1K", "1k", "4cores", "", "1,5"),
    *("+1", ".5", "1.", "1e-3", "0x10", "1Ki ", "64gi", "64g", "1n", "1u", "5 ", "1_000"),
)


@pytest_asyncio.fixture(scope="module")
async def user(door_cluster: LocalCluster) -> AsyncIterator[Client]:
    async with await Client.connect(door_cluster.kubeconfig) as connected:
        yield connected


def a_pod(**resources: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "x", "resources": resources}
    spec = {"containers": [container], "restartPolicy": "Never"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "tried-"}, "spec": spec}


async def refusal(user: Client, path: str, document: dict[str, Any]) -> str:
    """What the API server says against an object; "": it takes it."""
    try:
        await user.create(f"{path}?dryRun=All", document)
    except ApiError as error:
        return str(error)
    return ""


def refused_by_rules(document: dict[str, Any]) -> list[str]:
    return [each.message for each in violations_of(document) if not each.tolerable]


def beside(name: str, amount: str, field: str) -> dict[str, Any]:
    """A container's resources: the amount of one, and cpu, without which there are no huge pages."""
    both = {name: amount} if name == "cpu" else {name: amount, "cpu": "1"}
    return {"limits": both, "requests": both} if field == "both" else {field: both}


@pytest.mark.parametrize("field", ["limits", "requests", "both"])
@pytest.mark.parametrize("name", NAMES)
async def test_a_name_is_refused_in_a_pod_where_the_api_server_refuses_it(
    user: Client, name: str, field: str
) -> None:
    document = a_pod(**beside(name, "1Gi" if name.startswith("hugepages") else "1", field))
    refused = await refusal(user, PODS.path("default"), document)
    found = refused_by_rules(document)
    assert bool(found) == bool(refused), refused or found


@pytest.mark.parametrize(
    "resources",
    [
        {"limits": {"hugepages-2Mi": "4Mi"}},
        {"limits": {"hugepages-2Mi": "4Mi", "memory": "1Gi"}},
        {"limits": {"hugepages-2Mi": "3Mi", "memory": "1Gi"}},
        {"limits": {"hugepages-2Mi": "4Mi"}, "requests": {"cpu": "1"}},
        {"limits": {"hugepages-2Mi": "4Mi", "cpu": "1"}, "requests": {"hugepages-2Mi": "2Mi"}},
        {"limits": {"nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": "1"}},
        {"limits": {"memory": "1Gi"}, "requests": {"memory": "2Gi"}},
    ],
    ids=str,
)
async def test_requests_and_limits_that_do_not_go_together_are_refused_as_by_the_api_server(
    user: Client, resources: dict[str, Any]
) -> None:
    document = a_pod(**resources)
    refused = await refusal(user, PODS.path("default"), document)
    found = refused_by_rules(document)
    assert bool(found) == bool(refused), refused or found


@pytest.mark.parametrize("amount", AMOUNTS)
@pytest.mark.parametrize("name", ["cpu", "memory", "nvidia.com/gpu"])
async def test_an_amount_is_refused_in_a_pod_where_the_api_server_refuses_it(
    user: Client, name: str, amount: str
) -> None:
    document = a_pod(limits={name: amount})
    refused = await refusal(user, PODS.path("default"), document)
    found = refused_by_rules(document)
    assert bool(found) == bool(refused), refused or found


@pytest.mark.parametrize("name", NAMES)
def test_a_workload_in_the_cluster_waits_for_the_reason_for_which_its_pods_are_refused(name: str) -> None:
    document = a_pod(limits={name: "1"})
    template = msgspec.json.encode({"spec": document["spec"]})
    obstacle = pod_set_of("main", 1, template, "spec.template", "default").obstacle
    by_name = [each for each in refused_by_rules(document) if "no pod can ask for" in each]
    # Each pod counts as one pod, whatever it asks for of these.
    assert (obstacle is not None) == (bool(by_name) and name != "pods")
