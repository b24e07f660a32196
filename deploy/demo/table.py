"""A scene as lines of text, at most 100 columns wide."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from admission.cli.table import branches, table
from deploy.demo.scene import Row, Scene
from queues.resources import GPU

WIDTH: Final = 100
_BAR: Final = 24
#: How much of a full bar is drawn for each state of a workload.
_MARKS: Final = {"submitted": " ", "waiting": "◌", "admitted": "◔", "running": "●", "done": "✓"}


def lines(scene: Scene, total: int) -> list[str]:
    """Queues above, workloads below. ``total``: GPUs of the cluster."""
    return [*_queues(scene, total), "", *_workloads(scene.rows.values())]


def changes(scene: Scene) -> object:
    """What has to differ for a scene to be worth another print: everything but the seconds."""
    return (
        [(queue["name"], _gpus(queue), queue["pending"], queue["admitted"]) for queue in scene.queues],
        [
            (role, row.state, row.bound, row.started, row.code, row.message)
            for role, row in scene.rows.items()
        ],
    )


def _queues(scene: Scene, total: int) -> list[str]:
    stems = branches({queue["name"]: queue["parent"] for queue in scene.queues})
    columns = ["QUEUE", "GPUS USED", "DESERVED", "CAPABILITY", "SHARE", "WAITING", "ADMITTED", ""]
    rows = []
    for queue in scene.queues:
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
    numbers = "DESERVED CAPABILITY SHARE WAITING ADMITTED"
    # The heading of two words cannot be named in ``right``.
    columns[1] = "GPUS-USED"
    return table(columns, rows, right=f"GPUS-USED {numbers}").splitlines()


def _gpus(queue: Mapping[str, Any]) -> Mapping[str, Any]:
    for account in queue["accounts"]:
        if account["resource"] == GPU and not account["flavor"]:
            return dict(account)
    return {}


def _workloads(rows: Iterable[Row]) -> list[str]:
    columns = ["", "WORKLOAD", "NAMESPACE", "QUEUE", "GPUS", "STATE", "BOUND", "STARTED", "DONE", "WAITED"]
    told = list(rows)
    cells = [
        (
            _MARKS[row.state],
            row.role.key,
            row.role.namespace,
            row.role.queue,
            row.role.pods * row.role.gpus,
            row.state,
            f"{row.bound}/{row.role.pods}",
            row.started,
            row.done,
            f"{row.waited:.1f} s",
        )
        for row in told
    ]
    drawn = table(columns, cells, right="GPUS BOUND STARTED DONE WAITED").splitlines()
    out = drawn[:1]
    for row, line in zip(told, drawn[1:], strict=True):
        out.append(line)
        if row.state == "waiting":
            out.append(f"    └ {row.code}: {row.message}" if row.code else "    └ not considered yet")
    return out
