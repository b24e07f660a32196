"""What can be seen at one moment: queues and who waits from Muster's read API, pods from the API server's watch."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from deploy.demo.cast import Role
from deploy.local.history import Moment, PodHistory
from queues.errors import MusterError

#: Seconds for one answer of the read API.
_PATIENCE: Final = 5.0


class NoAnswer(MusterError):
    """Muster does not answer {path}: {reason}."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneRow:
    """One workload now."""

    role: Role
    #: submitted | waiting | admitted | running | done
    state: str
    #: Pods that have a node, that run or ran, and that are done.
    bound: int
    started: int
    done: int
    #: Why it waits; "": it does not, or nobody has looked yet.
    code: str = ""
    message: str = ""
    #: Seconds between its submission and its first bound pod, or until now.
    waited: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Everything at one moment."""

    queues: Sequence[Mapping[str, Any]]
    rows: Mapping[Role, SceneRow]

    def __getitem__(self, role: Role) -> SceneRow:
        return self.rows[role]


@dataclass(slots=True)
class Observer:
    """Looks again and again, and remembers why everybody waited."""

    server: str
    history: PodHistory
    submitted: dict[Role, float] = field(default_factory=dict)
    #: Reasons that each one waited for, in order, without repetition.
    reasons: dict[Role, list[tuple[str, str]]] = field(default_factory=dict)

    def look(self) -> Scene:
        """The scene now. Raises NoAnswer, HistoryIncomplete."""
        queues = self.ask("/api/v1/queues")["items"]
        waiting = {
            (item["kind"], item["namespace"], item["name"]): item
            for item in self.ask("/api/v1/pending")["items"]
        }
        pods = latest(self.history.moments)
        rows = {
            role: self._row(role, pods, waiting.get((role.kind, role.namespace, role.name)))
            for role in self.submitted
        }
        return Scene(queues=queues, rows=rows)

    def ask(self, path: str) -> Any:
        """One answer of the read API."""
        try:
            with urllib.request.urlopen(self.server + path, timeout=_PATIENCE) as answer:
                return json.load(answer)
        except (OSError, urllib.error.URLError, ValueError) as error:
            raise NoAnswer(path=path, reason=error) from error

    def first_bound(self, role: Role) -> float | None:
        """When the first of its pods got a node, by ``time.monotonic``."""
        return next((one.at for one in self.history.moments if one.node and role.owns(one.name)), None)

    def _row(self, role: Role, pods: Mapping[str, Moment], waiting: Mapping[str, Any] | None) -> SceneRow:
        own = [moment for name, moment in pods.items() if role.owns(name)]
        bound = sum(1 for moment in own if moment.node)
        done = sum(1 for moment in own if moment.phase == "Succeeded")
        started = done + sum(1 for moment in own if moment.phase == "Running")
        reason = (waiting or {}).get("reason") or {"code": "", "message": ""}
        if reason["code"]:
            self._remember(role, reason["code"], reason["message"])
        return SceneRow(
            role=role,
            state=_state(role, waiting=waiting is not None, bound=bound, started=started, done=done),
            bound=bound,
            started=started,
            done=done,
            code=reason["code"],
            message=reason["message"],
            waited=(self.first_bound(role) or time.monotonic()) - self.submitted[role],
        )

    def _remember(self, role: Role, code: str, message: str) -> None:
        told = self.reasons.setdefault(role, [])
        if (code, message) not in told:
            told.append((code, message))


def latest(moments: Sequence[Moment]) -> dict[str, Moment]:
    """The last that was heard of each pod."""
    return {moment.name: moment for moment in moments}


def _state(role: Role, *, waiting: bool, bound: int, started: int, done: int) -> str:
    if done >= role.pods:
        return "done"
    if started >= role.pods:
        return "running"
    if bound:
        return "admitted"
    return "waiting" if waiting else "submitted"
