"""The page of reference about metrics, from the catalogue in the code."""

from collections.abc import Iterable, Iterator

from admission.figures import catalogue
from admission.figures.catalogue import AGENT, DEVICE, Metric

_HEAD = """\
# Metrics

*Written by `python -m deploy.reference_pages`; do not edit.*

Every replica serves `/metrics` in Prometheus' text format on `httpListen` (`:8080`). Everything about queues and
turns comes from the leader; on other replicas these series are absent, so `sum` over replicas is right. Amounts are
in base units: cores, bytes, devices, pods. Times are seconds. [Monitor](../how-to/monitor.md) says how to scrape,
and which rules, alerts and dashboards there are.

*Series* is how many there can be of one replica. A histogram has one for each bucket, one for the sum and one for
the number; all are classic histograms, as the client library writes no native ones. With 5,000 queues, 5 resources
and no flavors `muster_queue_used` and `muster_queue_deserved` have up to 25,000 series each, the largest part. With
1,000 queues the leader takes less than 50 ms to write everything, in a thread beside its event loop, at most once a
second however many ask; what is told of nodes and of pending workloads is up to 10 seconds old.
"""
_AGENTS = """\
## Of the node agents

Each [agent](../how-to/gpu-nodes.md) serves `/metrics` on `--metrics-listen` (`:9402`). Series of devices and pods
that are gone are gone; what a device does not tell has no series. *Device labels* are `gpu` (its number on the
node), `uuid`, `model`, and of the pod that has it `namespace`, `pod`, `queue`, `gang` and `user`. These five are
empty where no pod has the device, or several share it. *Series* is how many there can be of one node.
"""
_QUESTIONS = """\
## Useful questions

```promql
# Use of each queue against what it deserves
muster_queue_used{resource="nvidia.com/gpu"} / muster_queue_deserved{resource="nvidia.com/gpu"}

# Why workloads wait
sum by (reason) (muster_workloads_pending)

# 99th percentile from creation to admission, last ten minutes
histogram_quantile(0.99, sum by (le) (rate(muster_gang_stage_seconds_bucket{stage="created_to_admitted"}[10m])))

# The same of gangs of more than 8 devices, by queue
histogram_quantile(0.99, sum by (queue, le) (rate(muster_gang_wait_seconds_bucket{size=~"9-64|65-512|513.*"}[1h])))

# GPU-hours of the last day that were borrowed, by queue
sum by (queue) (increase(muster_queue_device_seconds_total{kind="borrowed"}[1d])) / 3600

# GPU-hours of the last day that were admitted and idle, by queue
sum by (queue) (increase(muster_gpu_admitted_idle_seconds_total[1d])) / 3600

# No replica leads (a recording rule, see Monitor)
muster:leaders:sum == 0

# One term after the other fails
sum(increase(muster_terms_ended_total[10m])) > 5
```
"""
_GROUPS = (
    ("Leadership and turns", catalogue.LEADERSHIP),
    ("Postgres, the API server, and the processes beside the leader", catalogue.SERVERS),
    ("Queues", catalogue.QUEUES),
    ("Workloads", catalogue.WORKLOADS),
    ("Nodes and devices", catalogue.NODES),
)


def metrics_page() -> str:
    """The whole page."""
    parts = [_HEAD]
    parts += [f"## {title}\n\n{_table(metrics)}" for title, metrics in _GROUPS]
    parts.append("`flavor` is empty where a queue's limits count over all flavors.\n")
    parts += [f"{_AGENTS}\n{_table(AGENT)}", _QUESTIONS]
    return "\n".join(parts)


def _table(metrics: Iterable[Metric]) -> str:
    return "\n".join(_rows(metrics)) + "\n"


def _rows(metrics: Iterable[Metric]) -> Iterator[str]:
    yield "| metric | type | labels | series | meaning |"
    yield "|---|---|---|---|---|"
    for metric in metrics:
        labels = "device" if metric.labels == DEVICE else ", ".join(f"`{label}`" for label in metric.labels)
        if metric.values:
            labels += f": {metric.values}"
        meaning = f"{metric.help.rstrip('.')}. {metric.meaning}".rstrip(". ")
        yield f"| `{metric.name}` | {metric.kind} | {labels} | {metric.series} | {meaning} |".replace(
            "|  |", "| |"
        )
