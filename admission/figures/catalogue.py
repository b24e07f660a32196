"""Every metric of a replica and of a node agent, as the two files ``metrics.toml`` have them.

For the code that shows those of replicas, and for the page of reference.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from typing import Any, Final

#: Labels of a device of a node, and of the pod that has it; ``labels = "device"``.
DEVICE: Final = ("gpu", "uuid", "model", "namespace", "pod", "queue", "gang", "user")


class Kind(StrEnum):
    """Prometheus' types of metrics."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric."""

    #: As Prometheus shows it; a histogram without ``_bucket``.
    name: str
    kind: Kind
    #: Plain text, one sentence.
    help: str
    labels: tuple[str, ...] = ()
    #: Values that a label has, where these are few and fixed.
    values: str = ""
    #: How many series there can be of one process.
    series: str = "1"
    #: More than ``help`` says, as Markdown.
    meaning: str = ""
    #: The same in metrics of NVIDIA's DCGM exporter, as PromQL; "": not there.
    dcgm: str = ""

    @property
    def base_name(self) -> str:
        """As Prometheus' client library wants it: of a counter without ``_total``."""
        return self.name.removesuffix("_total") if self.kind is Kind.COUNTER else self.name


def _metric(name: str, fields: Mapping[str, Any]) -> Metric:
    labels = fields.get("labels", ())
    read = {**fields, "kind": Kind(fields["kind"]), "labels": DEVICE if labels == "device" else tuple(labels)}
    return Metric(name, **read)


def _table(package: str) -> Mapping[str, Any]:
    return tomllib.loads(files(package).joinpath("metrics.toml").read_text("utf-8"))


def _metrics(table: Mapping[str, Any]) -> tuple[Metric, ...]:
    return tuple(_metric(name, fields) for name, fields in table.items())


_TABLES: Final = _table("admission.figures")
LEADERSHIP, SERVERS, QUEUES, WORKLOADS, NODES = (
    _metrics(_TABLES[about]) for about in ("leadership", "servers", "queues", "workloads", "nodes")
)
AGENT: Final = _metrics(_table("admission.agent"))
CONTROLLER: Final = (*LEADERSHIP, *SERVERS, *QUEUES, *WORKLOADS, *NODES)
BY_NAME: Final = {metric.name: metric for metric in CONTROLLER}
