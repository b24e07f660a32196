"""The model API server and all components of a cluster, in this process."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from queues.api.api_resources import JOBS, PODS
from tests.chaos.cluster.components import Components, unfinished_pod
from tests.chaos.cluster.http_server import LATE, SLOW, ModelApiServer
from tests.chaos.cluster.line_faults import LineFaults, Spell, Trouble
from tests.chaos.cluster.overtaking import Overtaking
from tests.chaos.cluster.store import ObjectStore
from tests.chaos.cluster.users import Users
from tests.chaos.drawn.steps import UserAction
from tests.chaos.history import Document, ObjectChange
from tests.chaos.network.interception import Interception
from tests.chaos.network.link import Line
from tests.fakes.kubeconfigs import write_kubeconfig


class ModelCluster:
    """See ``tests.chaos.clusters.Cluster``."""

    #: Longer than any pause or backoff of ``short_times``.
    quiet = 1.4
    patience = 60.0

    def __init__(self, seed: int) -> None:
        self._store = ObjectStore(run=seed)
        self._faults = LineFaults(seed)
        self._api = ModelApiServer(self._store, self._faults)
        self._components = Components(self._store, seed)
        self._users = Users(self._store)
        self._api.before_patch = self._users.forestall
        self._components.job_syncs.on_pause = self._users.sync_pauses
        self._overtaking = Overtaking(self._store, self._users.delete)
        self._api.on_its_way = self._overtaking.delay_of

    async def begin(self, prepared: Sequence[Document]) -> float:
        self._store.began = time.monotonic()
        self._users.create(prepared)
        return self._store.began

    async def connect(self, replica: str, folder: Path) -> Path:
        url = await self._api.open(replica)
        return write_kubeconfig(folder / f"{replica}.kubeconfig", url)

    async def end(self) -> None:
        await self._api.close()

    def look(self) -> None:
        self._components.look()

    def act(self, action: UserAction) -> None:
        self._users.act(action)

    def heal(self, nodes: Sequence[str]) -> None:
        self._faults.heal()
        self._overtaking.heal()
        self._components.job_syncs.pause = False
        self._api.wake_all()
        self._users.heal(nodes)

    def version(self) -> object:
        return self._store.version

    def history(self) -> tuple[ObjectChange, ...]:
        return tuple(self._store.history)

    def unfinished(self) -> str:
        for pod in self._store.all(PODS):
            if found := unfinished_pod(pod):
                return found
        for job in self._store.all(JOBS):
            if "deletionTimestamp" in job["metadata"]:
                return f"Job {job['metadata']['name']} is being deleted"
        return self._components.job_syncs.unfinished()

    # ── what goes wrong ─────────────────────────────────────────────────────────────────────────────────────────

    def set_line(self, replica: str, line: Line) -> None:
        self._faults.lines[replica] = line
        if line is Line.CUT:
            self._api.break_connections(replica)
        self._faults.tell_healed()
        self._api.wake_all()

    def set_trouble(self, trouble: dict[str, Any], *, on: bool) -> None:
        spell = Spell(
            trouble=Trouble(trouble["trouble"]), share=trouble["share"], only=trouble.get("only", "")
        )
        if on:
            self._faults.spells.append(spell)
        elif spell in self._faults.spells:
            self._faults.spells.remove(spell)

    async def restart(self, down: float) -> None:
        await self._api.restart(down)

    def cut_watches(self, kinds: Sequence[str]) -> None:
        self._api.cut_watches(kinds)

    def forget_past(self, kinds: Sequence[str]) -> None:
        self._api.forget_past(kinds)

    def set_silence(self, kinds: Sequence[str], *, on: bool) -> None:
        self._faults.silent.update(kinds) if on else self._faults.silent.difference_update(kinds)
        self._api.wake_all()

    def strike_write(self, interception: Interception) -> None:
        self._faults.writes.waiting.append(interception)

    def set_job_sync_pauses(self, *, on: bool) -> None:
        self._components.job_syncs.pause = on

    def overtake_writes(self, detail: dict[str, Any]) -> None:
        self._overtaking.times += detail["times"]
        self._overtaking.delay = LATE if detail["how"] == "late" else SLOW
