"""What a run needs of a cluster: the model API server has all of it, a real one what is possible there."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from tests.chaos.drawn.steps import UserAction
from tests.chaos.history import Document, ObjectChange
from tests.chaos.network.interception import Interception
from tests.chaos.network.link import Line


class Cluster(Protocol):
    """One cluster, for one run."""

    #: Seconds without a change after which it is at rest, and in which it must come to rest.
    quiet: float
    patience: float

    async def begin(self, prepared: Sequence[Document]) -> float:
        """Make what there is before the replicas start. Returns the moment 0 of its history, of the monotonic clock."""

    async def connect(self, replica: str, folder: Path) -> Path:
        """The kubeconfig of a replica, with a way of its own to the API server."""

    async def end(self) -> None:
        """No replica is served any more."""

    # ── what happens in it ──────────────────────────────────────────────────────────────────────────────────────

    def look(self) -> None:
        """Its components do what is to be done now. Called all the time."""

    def act(self, action: UserAction) -> None:
        """A user or an administrator does something."""

    def heal(self, nodes: Sequence[str]) -> None:
        """Nothing is wrong any more, with the nodes neither."""

    def version(self) -> object:
        """Something that differs whenever an object has changed."""

    def unfinished(self) -> str:
        """What is about to happen by itself, as a sentence; "": nothing."""

    def history(self) -> tuple[ObjectChange, ...]:
        """Every change of every object."""

    # ── what goes wrong ─────────────────────────────────────────────────────────────────────────────────────────

    def set_line(self, replica: str, line: Line) -> None:
        """How a replica reaches the API server from now on."""

    def set_trouble(self, trouble: dict[str, Any], *, on: bool) -> None:
        """A share of all requests has a trouble, or has it no more."""

    async def restart(self, down: float) -> None:
        """The API server is gone for some seconds."""

    def cut_watches(self, kinds: Sequence[str]) -> None:
        """Watches of these kinds (plural; none: all) break in the middle of a line."""

    def forget_past(self, kinds: Sequence[str]) -> None:
        """Watches of these kinds (plural; none: all) end with 410, and begin only after a new list."""

    def set_silence(self, kinds: Sequence[str], *, on: bool) -> None:
        """Watches of these kinds tell nothing, or tell all that they owe."""

    def strike_write(self, interception: Interception) -> None:
        """Strike the sender of a write."""

    def set_job_sync_pauses(self, *, on: bool) -> None:
        """Syncs of the Job controller pause before they make one of their pods, or do so no more."""

    def overtake_writes(self, detail: dict[str, Any]) -> None:
        """Users delete workloads while writes about their pods are under way."""
