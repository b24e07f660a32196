"""A scene as lines of text, at most 100 columns wide."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from admission.cli.rendering.table import branches, table
from deploy.demo.scene import Scene, SceneRow
from queues.resources import GPU

WIDTH: Final = 100
_BAR: Final = 12
#: What is drawn before a workload, by its state.
_MARKS: Final = {"submitted": " ", "waiting": "◌", "admitted": "◔", "running": "●", "done": "✓"}


def lines(scene: Scene, total: int) -> list[str]:
    """Queues above, workloads below. ``total``: GPUs of the cluster."""
    return [*_queues(scene, total), "", *_workloads(scene.rows.values())]


def changes(scene: Scene) -> object:
    """What has to differ for a scene to be worth another print: who is in which state, and why."""
    return [(role, row.state, row.code, row.message) for role, row in scene.rows.items()]


def _queues(scene: Scene, total: int) -> list[str]:
    stems = branches({queue["name"]: queue["parent"] for queue in scene.queues})
    columns = ["QUEUE", "GPUS-USED", "DESERVED", "CAPABILITY", "SHARE", "WAITING", "ADMITTED", ""]
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
    return table(columns, rows, right="GPUS-USED DESERVED CAPABILITY SHARE WAITING ADMITTED").splitlines()


def _gpus(queue: Mapping[str, Any]) -> Mapping[str, Any]:
    for account in queue["accounts"]:
        if account["resource"] == GPU and not account["flavor"]:
            return dict(account)
    return {}


def _workloads(rows: Iterable[SceneRow]) -> list[str]:
    told = list(rows)
    cells = [
        (
            f"{_MARKS[row.state]} {row.role.key}",
            row.role.queue,
            row.role.pods * row.role.gpus,
            row.state,
            f"{row.bound}/{row.role.pods}",
            row.started - row.done,
            f"{row.waited:.1f} s",
        )
        for row in told
    ]
    columns = ["WORKLOAD", "QUEUE", "GPUS", "STATE", "BOUND", "RUNNING", "WAITED"]
    head, *drawn = table(columns, cells, right="GPUS BOUND RUNNING WAITED").splitlines()
    lines = [head]
    for row, line in zip(told, drawn, strict=True):
        lines.append(line)
        if row.state == "waiting":
            why = f"{row.code}: {row.message}" if row.code else "not considered yet"
            lines.append(_shortened(f"  └ {why}"))
    return lines


def _shortened(line: str) -> str:
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"
