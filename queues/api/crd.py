"""CustomResourceDefinitions, generated from the models of ``queues.api.types``: the schema is what Muster reads.

PodGroup has a status subresource here, unlike Volcano's. So a client that writes a PodGroup changes its spec only and
cannot overwrite a newer status, and ``metadata.generation`` counts changes of the spec.
Schemas are structural and small (pod templates are kept whole), so client-side ``kubectl apply`` works.
"""

from dataclasses import dataclass
from typing import Any

import yaml

from queues.api.api_resources import (
    COMMANDS,
    DEVICES,
    FLAVORS,
    HYPERNODES,
    JOB_FLOWS,
    JOB_TEMPLATES,
    NODE_DRAINS,
    POD_GROUPS,
    QUEUES,
    RESERVATIONS,
    TOPOLOGIES,
    VOLCANO_CRON_JOBS,
    VOLCANO_JOBS,
    ApiResource,
)
from queues.api.bounds import bounded, structural
from queues.api.descriptions import with_descriptions
from queues.api.model import Model
from queues.api.names import MANAGED_BY_LABEL
from queues.api.types.command import CommandDocument
from queues.api.types.cron_job import VolcanoCronJob
from queues.api.types.device import Device
from queues.api.types.flavor import ResourceFlavor
from queues.api.types.hypernode import HyperNode
from queues.api.types.job_flow import JobFlow
from queues.api.types.job_template import JobTemplate
from queues.api.types.node_closures import NodeDrain, Reservation
from queues.api.types.podgroup import PodGroup
from queues.api.types.queue import QueueDocument
from queues.api.types.topology import Topology
from queues.api.types.volcano_job import VolcanoJob

#: Label of every definition of Muster. An existing definition without it belongs to another product (Volcano).
OWNER_LABEL = {MANAGED_BY_LABEL: "muster"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of ``kubectl get``."""

    name: str
    path: str
    type: str = "string"
    #: Above 0: shown only with ``-o wide``.
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CrdResource:
    """A custom resource: its model, and how the API server serves it."""

    model: type[Model]
    served: ApiResource
    short: tuple[str, ...] = ()
    status: bool = False
    columns: tuple[Column, ...] = ()
    #: Whether a definition of the kind that another product has installed does as well, and is left as it is.
    shared: bool = False


_AGE = Column(name="AGE", path=".metadata.creationTimestamp", type="date")
_QUEUE = Column(name="QUEUE", path=".spec.queue", priority=1)

RESOURCES = (
    CrdResource(
        model=VolcanoJob,
        served=VOLCANO_JOBS,
        short=("vcjob", "vj"),
        status=True,
        columns=(
            Column(name="STATUS", path=".status.state.phase"),
            Column(name="minAvailable", path=".status.minAvailable", type="integer"),
            Column(name="RUNNINGS", path=".status.running", type="integer"),
            _AGE,
            _QUEUE,
        ),
    ),
    CrdResource(
        model=VolcanoCronJob,
        served=VOLCANO_CRON_JOBS,
        short=("cronvcjob", "cronvj"),
        status=True,
        columns=(
            Column(name="SCHEDULE", path=".spec.schedule"),
            Column(name="TIMEZONE", path=".spec.timeZone", priority=1),
            Column(name="SUSPEND", path=".spec.suspend", type="boolean"),
            Column(name="LAST SCHEDULE", path=".status.lastScheduleTime", type="date"),
            _AGE,
        ),
    ),
    CrdResource(
        model=JobFlow,
        served=JOB_FLOWS,
        short=("jf",),
        status=True,
        columns=(Column(name="STATUS", path=".status.state.phase"), _AGE),
    ),
    CrdResource(
        model=JobTemplate,
        served=JOB_TEMPLATES,
        short=("jt",),
        status=True,
    ),
    CrdResource(
        model=PodGroup,
        served=POD_GROUPS,
        short=("pg", "podgroup-v1beta1"),
        status=True,
        columns=(
            Column(name="STATUS", path=".status.phase"),
            Column(name="minMember", path=".spec.minMember", type="integer"),
            Column(name="RUNNINGS", path=".status.running", type="integer"),
            _AGE,
            _QUEUE,
        ),
    ),
    CrdResource(
        model=QueueDocument,
        served=QUEUES,
        short=("q", "queue-v1beta1"),
        status=True,
        columns=(
            Column(name="PARENT", path=".spec.parent"),
            Column(name="STATE", path=".status.state"),
            Column(name="WEIGHT", path=".spec.weight", type="integer", priority=1),
            Column(name="PAUSED", path=".spec.policy.paused", type="boolean", priority=1),
        ),
    ),
    CrdResource(
        model=HyperNode,
        served=HYPERNODES,
        short=("hn",),
        columns=(
            Column(name="TIER", path=".spec.tier", type="integer"),
            Column(name="TIERNAME", path=".spec.tierName"),
            _AGE,
        ),
    ),
    CrdResource(
        model=CommandDocument,
        served=COMMANDS,
        columns=(
            Column(name="ACTION", path=".action"),
            Column(name="TARGET", path=".target.name"),
            _AGE,
        ),
    ),
    CrdResource(
        model=ResourceFlavor,
        served=FLAVORS,
        short=("rf",),
        columns=(_AGE,),
    ),
    CrdResource(
        model=Topology,
        served=TOPOLOGIES,
        columns=(_AGE,),
    ),
    CrdResource(
        model=Reservation,
        served=RESERVATIONS,
        short=("rsv",),
        status=True,
        columns=(
            Column(name="QUEUE", path=".spec.queue"),
            Column(name="FROM", path=".spec.from"),
            Column(name="FOR", path=".spec.for"),
            Column(name="PHASE", path=".status.phase"),
            _AGE,
        ),
    ),
    CrdResource(
        model=NodeDrain,
        served=NODE_DRAINS,
        short=("nd",),
        status=True,
        columns=(
            Column(name="AT", path=".spec.at"),
            Column(name="FOR", path=".spec.for"),
            Column(name="PHASE", path=".status.phase"),
            _AGE,
        ),
    ),
    # As Koordinator defines it, without a status subresource.
    CrdResource(
        model=Device,
        served=DEVICES,
        columns=(_AGE,),
        shared=True,
    ),
)


#: Names of the definitions that may be another product's.
SHARED = frozenset(f"{each.served.plural}.{each.served.group}" for each in RESOURCES if each.shared)


class PlainDumper(yaml.SafeDumper):
    """Writes a value out at every occurrence, without YAML anchors and aliases."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: D102 - of the base class
        return True


def crds() -> list[dict[str, Any]]:
    """Every CustomResourceDefinition of Muster, ready for the API server."""
    return [_definition(resource) for resource in RESOURCES]


def crd_files() -> dict[str, str]:
    """The definitions as YAML, by their file names in ``deploy/chart/crds``."""
    head = "# Written by `muster crds` from queues/api/types; do not edit.\n"
    return {
        f"{resource.served.group}_{resource.served.plural}.yaml": head
        + yaml.dump(_definition(resource), Dumper=PlainDumper, sort_keys=False, width=100, allow_unicode=True)
        for resource in RESOURCES
    }


def _definition(resource: CrdResource) -> dict[str, Any]:
    served = resource.served
    version: dict[str, Any] = {"name": served.version, "served": True, "storage": True}
    if resource.columns:
        version["additionalPrinterColumns"] = [_column(column) for column in resource.columns]
    if resource.status:
        version["subresources"] = {"status": {}}
    version["schema"] = {"openAPIV3Schema": schema_of(resource.model)}
    names: dict[str, Any] = {
        "kind": served.kind,
        "listKind": f"{served.kind}List",
        "plural": served.plural,
        "singular": served.kind.lower(),
    }
    if resource.short:
        names["shortNames"] = list(resource.short)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{served.plural}.{served.group}", "labels": dict(OWNER_LABEL)},
        "spec": {
            "group": served.group,
            "names": names,
            "scope": "Namespaced" if served.namespaced else "Cluster",
            "versions": [version],
        },
    }


def _column(column: Column) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.priority:
        entry["priority"] = column.priority
    return entry


def schema_of(model: type[Model]) -> dict[str, Any]:
    """The structural schema of a document kind."""
    json_schema = with_descriptions(model.model_json_schema(by_alias=True), model)
    schema = bounded(structural(json_schema, json_schema.get("$defs", {})))
    for field in ("apiVersion", "kind"):
        schema["properties"][field] = {"type": "string"}
    schema["properties"]["metadata"] = {"type": "object"}
    return schema
