"""Objects of dynamic resource allocation, as the API server has them."""

from typing import Any

Document = dict[str, Any]

DRIVER = "gpu.example.com"
CLASS = "gpu.example.com"
RESOURCE = "example.com/gpu"
VERSION = "resource.k8s.io/v1"
#: As drivers write them.
SELECTOR = f"device.driver == '{DRIVER}' && device.attributes[\"{DRIVER}\"].type == 'gpu'"


def device_class(name: str = CLASS, *expressions: str) -> Document:
    """A DeviceClass; without expressions it selects the GPUs of the driver."""
    selectors = [{"cel": {"expression": each}} for each in expressions or (SELECTOR,)]
    return {
        "apiVersion": VERSION,
        "kind": "DeviceClass",
        "metadata": {"name": name, "uid": f"class-{name}"},
        "spec": {"selectors": selectors},
    }


def device(index: int, kind: str = "gpu", **fields: Any) -> Document:
    attributes = {
        "type": {"string": kind},
        "index": {"int": index},
        "uuid": {"string": f"gpu-{index}-0123456789"},
        "healthy": {"bool": True},
    }
    return {"name": f"{kind}-{index}", "attributes": attributes, **fields}


def resource_slice(node: str, *devices: Document, name: str = "", generation: int = 1) -> Document:
    """The devices of one node."""
    return {
        "apiVersion": VERSION,
        "kind": "ResourceSlice",
        "metadata": {"name": name or f"{node}-gpus", "uid": f"slice-{name or node}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": generation, "resourceSliceCount": 1},
            "devices": list(devices),
        },
    }


def gpus_of(node: str, count: int) -> Document:
    """A node's GPUs, as their driver publishes them."""
    return resource_slice(node, *(device(index) for index in range(count)))


def request(count: int = 1, name: str = "gpu", **exactly: Any) -> Document:
    return {"name": name, "exactly": {"deviceClassName": CLASS, "count": count, **exactly}}


def claim_spec(*requests: Document) -> Document:
    return {"devices": {"requests": list(requests or (request(),))}}


def claim_template(*requests: Document, name: str = "one-gpu", namespace: str = "ns") -> Document:
    return {
        "apiVersion": VERSION,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace, "uid": f"template-{name}"},
        "spec": {"spec": claim_spec(*requests)},
    }


def claim(*requests: Document, name: str, namespace: str = "ns", **status: Any) -> Document:
    return {
        "apiVersion": VERSION,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace, "uid": f"claim-{name}"},
        "spec": claim_spec(*requests),
        "status": status,
    }


def reserved(uid: str, *requests: str) -> Document:
    """The status of a claim that has a device for each of these requests, and is reserved for a pod."""
    results = [
        {"request": each, "driver": DRIVER, "pool": "n1", "device": f"gpu-{index}"}
        for index, each in enumerate(requests)
    ]
    return {
        "allocation": {"devices": {"results": results}},
        "reservedFor": [{"resource": "pods", "name": uid, "uid": uid}],
    }


def flavor(name: str = "example", **device_classes: str) -> Document:
    """A ResourceFlavor that counts the devices of the class."""
    return {
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "ResourceFlavor",
        "metadata": {"name": name},
        "spec": {"nodeLabels": {"gpu": "example"}, "deviceClasses": device_classes or {CLASS: RESOURCE}},
    }
