"""Devices of dynamic resource allocation: gangs that claim them, with Kubernetes' own scheduler and controllers."""

from collections.abc import Iterator
from contextlib import contextmanager

from queues.api.api_resources import (
    CLAIM_TEMPLATES,
    DEVICE_CLASSES,
    FLAVORS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from tests.builders import devices
from tests.e2e.support.api_paths import Document
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.manifests import batch_job, template_of, volcano_job
from tests.e2e.support.sandbox import SANDBOX, Sandbox

RESOURCE = "example.com/gpu"
H100, L40S = "example.com/h100", "example.com/l40s"


@contextmanager
def devices_of(sandbox: Sandbox, each: int) -> Iterator[str]:
    """So many devices on each node of the sandbox, of a class of its own that its flavor counts."""
    driver = f"{sandbox.name}.example.com"
    with published(sandbox, [devices.device(index) for index in range(each)], {driver: RESOURCE}):
        yield driver


@contextmanager
def published(
    sandbox: Sandbox, each: list[Document], resources: dict[str, str], select: str = ""
) -> Iterator[None]:
    """Each of these devices on each node of the sandbox, of classes that its flavor counts as these resources.

    ``select``: what a class selects beyond the driver, with the name of the class in it.
    """
    driver = f"{sandbox.name}.example.com"
    flavor = devices.flavor(sandbox.name, **resources)
    flavor["spec"]["nodeLabels"] = {SANDBOX: sandbox.name}
    made = [(FLAVORS, flavor)]
    for name in resources:
        expressions = [f"device.driver == '{driver}'"]
        expressions += [select.format(driver=driver, name=name)] if select else []
        made.append((DEVICE_CLASSES, devices.device_class(name, *expressions)))
    for node in sandbox.nodes:
        document = devices.resource_slice(node, *each)
        document["spec"]["driver"] = driver
        made.append((RESOURCE_SLICES, document))
    for resource, document in made:
        sandbox.api.create(resource.path(), document)
    yield
    for resource, document in made:
        sandbox.api.delete(resource.path(name=document["metadata"]["name"]))


def template(sandbox: Sandbox, device_class: str, name: str, count: int) -> None:
    """A ResourceClaimTemplate for so many devices."""
    asked = devices.request(count, deviceClassName=device_class)
    document = devices.claim_template(asked, name=name, namespace=sandbox.name)
    sandbox.api.create(CLAIM_TEMPLATES.path(sandbox.name), document)


def claiming(document: Document, name: str) -> Document:
    """A Job of which each pod has claims made from a template, and asks for no other devices."""
    spec = template_of(document)["spec"]
    spec["resourceClaims"] = [{"name": "devices", "resourceClaimTemplateName": name}]
    spec["containers"][0]["resources"] = {"claims": [{"name": "devices"}]}
    return document


def test_gangs_get_nodes_with_the_devices_that_they_claim(sandbox: Sandbox) -> None:
    sandbox.add_nodes(2, gpus=0)
    sandbox.add_queue(capability={RESOURCE: 4})
    with devices_of(sandbox, 2) as device_class:
        template(sandbox, device_class, "one", 1)
        template(sandbox, device_class, "two", 2)
        sandbox.add(claiming(batch_job(sandbox, "first", 3), "one"))
        sandbox.wait_running("first-", 3)
        allocated = [
            each["status"]["allocation"]["devices"]["results"]
            for each in sandbox.api.get(RESOURCE_CLAIMS.path(sandbox.name))["items"]
        ]
        assert [len(each) for each in allocated] == [1, 1, 1]
        assert len({(each["pool"], each["device"]) for (each,) in allocated}) == 3

        sandbox.add(claiming(volcano_job(sandbox, "second", 2), "two"))
        message = sandbox.wait_reason("second", "QueueLimit")
        assert f"4 {RESOURCE}: 3 used, 4 asked, 3 too many" in message
        sandbox.add(claiming(batch_job(sandbox, "third", 1), "none"))
        assert "no ResourceClaimTemplate none" in sandbox.wait_reason("third", "InvalidSpec")

        finish_all(sandbox, "first-")
        sandbox.wait_running("second-", 2)
        assert len(set(sandbox.nodes_of("second-").values())) == 2
        template(sandbox, device_class, "none", 1)
        sandbox.wait_reason("third", "QueueLimit")
        finish_all(sandbox, "second-")
        sandbox.wait_running("third-", 1)
        finish_all(sandbox, "third-")
        sandbox.wait_free()
