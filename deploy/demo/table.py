"""A view of the cluster as lines of text, at most 100 columns wide."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from admission.cli.rendering.table import branches, table
from deploy.demo.cluster_view import ClusterView, WorkloadRow
from queues.resources import GPU

WIDTH: Final = 100
_BAR: Final = 12
#: Marks before a workload, by its state.
_MARKS: Final = {"submitted": " ", "waiting": "◌", "admitted": "◔", "running": "●", "done": "✓"}


#: What the two tables show.
QUEUES: Final = (
    "The queues: what each deserves, uses (as a bar too) and may use at most. SHARE is used ÷ deserved."
)
WORKLOADS: Final = (
    "The workloads: how many of their pods have a node (BOUND), and how long each waited for it."
)


def lines(view: ClusterView, total: int) -> list[str]:
    """Queues, then workloads, each with a caption. ``total``: GPUs of the cluster."""
    return [QUEUES, *queues(view, total), "", WORKLOADS, *_workloads(view.rows.values())]


def states(view: ClusterView) -> Mapping[str, str]:
    """A line on the state of each workload, by its name; "": nothing is known yet."""
    return {row.workload.key: _state(row) for row in view.rows.values()}


def _state(row: WorkloadRow) -> str:
    told = {
        "waiting": f"waits: {row.code}: {row.message}" if row.code else "",
        "admitted": f"runs with {row.started - row.done} of {row.workload.pods} pods" if row.started else "",
        "running": f"runs, {row.workload.pods} of {row.workload.pods} pods, after {row.waited:.1f} s",
        "done": "has ended",
    }.get(row.state, "")
    line = f"  {_MARKS[row.state]} {row.workload.key} {told}" if told else ""
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"


def queues(view: ClusterView, total: int) -> list[str]:
    """The tree of queues alone."""
    stems = branches({queue["name"]: queue["parent"] for queue in view.queues})
    columns = ["QUEUE", "GPUS-USED", "DESERVED", "CAPABILITY", "SHARE", "WAITING", "RUNNING", ""]
    rows = []
    for queue in view.queues:
        account = _gpus(queue)
        used = int(account.get("used", 0))
        rows.append(
            (
                stems[queue["name"]] + queue["name"],
                used,
                account.get("deserved"),
                account.get("capability"),
                None if account.get("share") is None else f"{account['share']:.2f}",
                queue["pending"],
                queue["admitted"],
                ("█" * round(_BAR * used / total)).ljust(_BAR, "·"),
            )
        )
    return table(columns, rows, right="GPUS-USED DESERVED CAPABILITY SHARE WAITING RUNNING").splitlines()


def gpus_used(view: ClusterView, queue: str) -> int:
    """GPUs that a queue uses, as Muster reports it; 0: it is not there."""
    return sum(int(_gpus(each).get("used", 0)) for each in view.queues if each["name"] == queue)


def _gpus(queue: Mapping[str, Any]) -> Mapping[str, Any]:
    for account in queue["accounts"]:
        if account["resource"] == GPU and not account["flavor"]:
            return dict(account)
    return {}


def _workloads(rows: Iterable[WorkloadRow]) -> list[str]:
    shown = list(rows)
    cells = [
        (
            f"{_MARKS[row.state]} {row.workload.key}",
            row.workload.queue,
            row.workload.pods * row.workload.gpus,
            row.state,
            f"{row.bound}/{row.workload.pods}",
            row.started - row.done,
            f"{row.waited:.1f} s",
        )
        for row in shown
    ]
    columns = ["WORKLOAD", "QUEUE", "GPUS", "STATE", "BOUND", "RUNNING", "WAITED"]
    head, *drawn = table(columns, cells, right="GPUS BOUND RUNNING WAITED").splitlines()
    lines = [head]
    for row, line in zip(shown, drawn, strict=True):
        lines.append(line)
        if row.state == "waiting":
            why = f"  └ {row.code}: {row.message}" if row.code else "  └ not considered yet"
            lines.append(why if len(why) <= WIDTH else why[: WIDTH - 1] + "…")
    return lines
