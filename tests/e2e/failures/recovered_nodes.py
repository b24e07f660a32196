"""What administrators and node agents do about the GPUs of a node, while Muster recovers it by their Jobs."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from queues.api import names
from queues.api.api_resources import CRON_JOBS, DEVICES, JOBS, NODES
from tests.builders.node_agents.node_devices import device, device_object
from tests.e2e.support.api_paths import path
from tests.e2e.support.sandbox import Sandbox


@contextmanager
def recovering(sandbox: Sandbox, **rules: Any) -> Iterator[None]:
    """Nodes are recovered while the block goes on, with a Job made from a CronJob of the sandbox."""
    container = {"name": "repair", "image": "repair", "resources": {}}
    pod = {"restartPolicy": "Never", "containers": [container]}
    template = {"spec": {"backoffLimit": 0, "template": {"spec": pod}}}
    repair = {
        "apiVersion": CRON_JOBS.api_version,
        "kind": CRON_JOBS.kind,
        "metadata": {"name": "repair"},
        "spec": {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": template},
    }
    sandbox.api.create(CRON_JOBS.path(sandbox.name), repair)
    recovery = {"job": f"{sandbox.name}/repair", **rules}
    health = {"onFault": "recover", "recovery": recovery}
    root = path("Queue", "", "root")
    sandbox.api.merge(root, {"spec": {"policy": {"health": health}}})
    yield
    sandbox.api.merge(root, {"spec": {"policy": {"health": None}}})


def report(sandbox: Sandbox, node: str, *faulty: int) -> None:
    """These of the node's eight GPUs are unhealthy."""
    devices = [device(minor, health=minor not in faulty) for minor in range(8)]
    change = device_object(node, *devices)
    sandbox.api.merge(DEVICES.path(name=node), {"spec": change["spec"]})


def phase(sandbox: Sandbox, node: str) -> str:
    """The phase of a node's recovery; "none": there is none, or nothing is remembered of it."""
    annotations = sandbox.api.get(NODES.path(name=node))["metadata"].get("annotations") or {}
    return str(json.loads(annotations.get(names.RECOVERY, '{"phase": "none"}'))["phase"])


def repairs(sandbox: Sandbox) -> list[str]:
    found = sandbox.api.get(JOBS.path(sandbox.name))["items"]
    return [each["metadata"]["name"] for each in found]
