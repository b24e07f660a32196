"""The cluster at one moment: queues and pending workloads from Muster's read API, pods from the API server's watch."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from deploy.demo.examples import ExampleWorkload
from deploy.local.client import LocalClient
from deploy.local.cluster import PATIENCE
from deploy.local.history import Moment, PodHistory
from queues.errors import ApiError, MusterError


class NoAnswer(MusterError):
    """Muster does not answer {path}: {reason}."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRow:
    """One workload at one moment."""

    workload: ExampleWorkload
    #: submitted | waiting | admitted | running | done
    state: str
    #: Pods that have a node, that run or have run, and that are done.
    bound: int
    started: int
    done: int
    #: Why the workload waits; "": it does not wait, or was not considered yet.
    code: str = ""
    message: str = ""
    #: Seconds between its submission and its first bound pod, or until now.
    waited: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """Queues and workloads at one moment."""

    queues: Sequence[Mapping[str, Any]]
    rows: Mapping[ExampleWorkload, WorkloadRow]

    def __getitem__(self, workload: ExampleWorkload) -> WorkloadRow:
        return self.rows[workload]


@dataclass(slots=True)
class Observer:
    """Reads the cluster again and again, and keeps the reasons for which each workload waited."""

    api: LocalClient
    history: PodHistory
    submitted: dict[ExampleWorkload, float] = field(default_factory=dict)
    #: (code, message) of each workload, in order, without repetition.
    reasons: dict[ExampleWorkload, list[tuple[str, str]]] = field(default_factory=dict)

    def look(self) -> ClusterView:
        """The cluster now. Raises NoAnswer, HistoryIncomplete."""
        queues = self.ask("queues")["items"]
        waiting = {
            (item["kind"], item["namespace"], item["name"]): item for item in self.ask("pending")["items"]
        }
        pods = {moment.name: moment for moment in self.history.moments}
        rows = {
            workload: self._row(
                workload, pods, waiting.get((workload.kind, workload.namespace, workload.name))
            )
            for workload in self.submitted
        }
        return ClusterView(queues=queues, rows=rows)

    def ask(self, path: str) -> Any:
        """One answer of the read API. On a busy machine it may take more time than one request has."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return self.api.get(f"/apis/read.muster.dev/v1/{path}")
            except ApiError as error:
                if error.facts.get("status") != HTTPStatus.SERVICE_UNAVAILABLE or time.monotonic() > until:
                    raise NoAnswer(path=path, reason=error) from error

    def first_bound(self, workload: ExampleWorkload) -> float | None:
        """When the first of its pods got a node, by ``time.monotonic``."""
        return next((one.at for one in self.history.moments if one.node and workload.owns(one.name)), None)

    def _row(
        self, workload: ExampleWorkload, pods: Mapping[str, Moment], waiting: Mapping[str, Any] | None
    ) -> WorkloadRow:
        own = [moment for name, moment in pods.items() if workload.owns(name) and not _was_taken_back(moment)]
        bound = sum(1 for moment in own if moment.node)
        done = sum(1 for moment in own if moment.phase == "Succeeded")
        started = done + sum(1 for moment in own if moment.phase == "Running")
        reason = (waiting or {}).get("reason") or {"code": "", "message": ""}
        if reason["code"]:
            reasons = self.reasons.setdefault(workload, [])
            if (entry := (reason["code"], reason["message"])) not in reasons:
                reasons.append(entry)
        return WorkloadRow(
            workload=workload,
            state=_state(workload, waiting=waiting is not None, bound=bound, started=started, done=done),
            bound=bound,
            started=started,
            done=done,
            code=reason["code"],
            message=reason["message"],
            waited=(self.first_bound(workload) or time.monotonic()) - self.submitted[workload],
        )


def _was_taken_back(pod: Moment) -> bool:
    """Whether a pod was deleted before it was done: others are made for it."""
    return pod.kind == "DELETED" and pod.phase != "Succeeded"


def _state(workload: ExampleWorkload, *, waiting: bool, bound: int, started: int, done: int) -> str:
    if done >= workload.pods:
        return "done"
    if started >= workload.pods:
        return "running"
    if bound:
        return "admitted"
    return "waiting" if waiting else "submitted"
