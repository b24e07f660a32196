"""Documents of administrators → facts: Queues, ResourceFlavors, Topologies. Pure; what cannot be used says why."""

from typing import Any

import msgspec

from admission.facts import FlavorFact, QueueFact, TopologyFact
from admission.kube.objects import Bare
from queues.api import names
from queues.api.types.flavor import ResourceFlavor
from queues.api.types.queue import Queue as QueueDocument
from queues.api.types.topology import Topology
from queues.errors import InvalidDocument
from queues.quota.queue import ROOT, Queue
from queues.workload import QueueName


def queue_fact(raw: bytes) -> QueueFact:
    """A Queue. One that cannot be read is ``broken`` under its own name, with the reason."""
    bare = msgspec.json.decode(raw, type=Bare)
    meta = bare.metadata
    document: dict[str, Any] = msgspec.json.decode(raw)
    try:
        queue = QueueDocument.read(document).to_domain()
    except InvalidDocument as error:
        name = QueueName(meta.name)
        queue = Queue(
            name=name,
            parent=None if name == ROOT else ROOT,
            broken=str(error),
            generation=meta.generation,
        )
    return QueueFact(
        queue=queue,
        uid=meta.uid,
        changed_by=(meta.annotations or {}).get(names.CHANGED_BY, ""),
        document={"spec": document.get("spec") or {}},
    )


def flavor_fact(raw: bytes) -> FlavorFact:
    """A ResourceFlavor. Raises InvalidDocument."""
    flavor = ResourceFlavor.read(msgspec.json.decode(raw))
    return FlavorFact(name=flavor.metadata.name, node_labels=flavor.spec.node_labels)


def topology_fact(raw: bytes) -> TopologyFact:
    """A Topology. Raises InvalidDocument."""
    topology = Topology.read(msgspec.json.decode(raw))
    return TopologyFact(name=topology.metadata.name, levels=topology.level_keys())
