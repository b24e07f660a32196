"""A control plane of its own for one run: the real API server, scheduler and controllers, and KWOK's kubelets.

What can go wrong there is what can be done from outside: lines, restarts, broken connections. See
``tests.chaos.clusters.Cluster``.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

from deploy.local.client import LocalClient
from deploy.local.cluster import LocalCluster
from deploy.local.components import ALIVE
from deploy.local.nodes import NodeShape, node
from deploy.local.processes import free_port
from deploy.local.stack import GROUPS, USERNAME
from queues.api.api_resources import (
    JOBS,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    TOPOLOGIES,
    VOLCANO_JOBS,
)
from queues.errors import ApiError
from tests.chaos.cluster.components import RUN_SECONDS, unfinished_pod
from tests.chaos.drawn.steps import UserAction
from tests.chaos.history import Document, ObjectChange
from tests.chaos.network.interception import Interception
from tests.chaos.network.link import Line
from tests.chaos.real.api_server_link import ApiServerLink
from tests.chaos.real.object_watch import ObjectWatch
from tests.cluster_faults import kill_node, restart_api_server, revive_node

_WATCHED: Final = (PODS, JOBS, VOLCANO_JOBS, POD_GROUPS, QUEUES, NODES)
_MADE: Final = {
    (kind.api_version, kind.kind): kind for kind in (*_WATCHED, NAMESPACES, PRIORITY_CLASSES, TOPOLOGIES)
}
_WORKLOADS: Final = {"Job": JOBS, "VolcanoJob": VOLCANO_JOBS, "PodGroup": POD_GROUPS, "Pod": PODS}
#: How KWOK is told for how long pods run.
_COMPLETE_AFTER: Final = "kwok.muster.dev/complete-after"


class RealCluster:
    """One control plane. Blocking calls are made in a thread, in the order in which they are asked for."""

    #: The Job controller makes failed pods again after a backoff of its own.
    quiet = 4.0
    patience = 90.0

    def __init__(self) -> None:
        self._cluster = LocalCluster()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="users")
        self._doing: list[Future[None]] = []
        self._links: dict[str, ApiServerLink] = {}

    async def begin(self, prepared: Sequence[Document]) -> float:
        await asyncio.to_thread(self._start)
        self._watch = ObjectWatch(self._cluster.kubeconfig, time.monotonic())
        await asyncio.to_thread(self._watch.start, _WATCHED)
        await asyncio.to_thread(self._create, [_for_kwok(document) for document in prepared])
        await asyncio.sleep(1.0)  # all that was made is in the history
        return self._watch.began

    def _start(self) -> None:
        self._cluster.start()
        urls = (
            "--webhook-url",
            f"https://127.0.0.1:{free_port()}",
            "--read-url",
            f"https://127.0.0.1:{free_port()}",
        )
        command = [sys.executable, "-m", "admission.cli.muster", "install", *urls]
        subprocess.run(
            [*command, "--kubeconfig", self._cluster.kubeconfig], check=True, capture_output=True, timeout=120
        )
        # As a user without Muster's rights: what it makes is signed and waits.
        self._user = self._cluster.kubeconfig_for("user", ("system:masters",))

    async def connect(self, replica: str, folder: Path) -> Path:
        link = self._links[replica] = ApiServerLink(
            replica, server_port=int(self._cluster.url.rpartition(":")[2])
        )
        port = await link.open()
        text = self._cluster.kubeconfig_for(USERNAME, GROUPS).read_text()
        path = folder / f"{replica}.kubeconfig"
        await asyncio.to_thread(path.write_text, text.replace(self._cluster.url, f"https://127.0.0.1:{port}"))
        return path

    async def end(self) -> None:
        self._watch.stop()
        for link in self._links.values():
            await link.close()
        self._thread.shutdown(wait=True)
        await asyncio.to_thread(self._cluster.stop)

    # ── what happens in it ──────────────────────────────────────────────────────────────────────────────────────

    def look(self) -> None:
        self._watch.check()
        for done in [each for each in self._doing if each.done()]:
            self._doing.remove(done)
            done.result()

    def act(self, action: UserAction) -> None:
        self._later(lambda: self._act(action))

    def _later(self, work: Callable[[], None]) -> None:
        self._doing.append(self._thread.submit(work))

    def _act(self, action: UserAction) -> None:
        with suppress(ApiError), LocalClient(self._user) as api:
            match action.verb:
                # Nobody sees from outside whether a sync of the Job controller is under way.
                case "create" | "create-in-sync":
                    self._create([_for_kwok(document) for document in action.documents])
                case "delete":
                    namespace, _, name = action.name.rpartition("/")
                    api.request(
                        "DELETE",
                        _WORKLOADS[action.kind].path(namespace, name),
                        {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"},
                    )
                case "delete-pod":
                    self._delete_pod(api)
                case "patch":
                    api.merge(QUEUES.path(name=action.name), action.patch)
                case "cordon" | "uncordon":
                    api.merge(
                        NODES.path(name=action.name), {"spec": {"unschedulable": action.verb == "cordon"}}
                    )
                case "node-down":
                    kill_node(self._cluster, action.name, report_unready=True)
                case "node-up":
                    revive_node(self._cluster, action.name)

    def _delete_pod(self, api: LocalClient) -> None:
        for pod in self._watch.current(PODS):
            if pod["status"].get("phase") == "Running":
                api.delete(PODS.path(pod["metadata"]["namespace"], pod["metadata"]["name"]))
                return

    def _create(self, documents: Sequence[Document]) -> None:
        with LocalClient(self._user) as api:
            for document in documents:
                kind, meta = _MADE[document["apiVersion"], document["kind"]], document["metadata"]
                try:
                    api.create(kind.path(meta.get("namespace")), document)
                except ApiError as error:
                    if error.facts["status"] != 409:
                        raise
                    if kind is QUEUES:
                        api.merge(kind.path(name=meta["name"]), {"spec": document["spec"]})

    def heal(self, nodes: Sequence[str]) -> None:
        for link in self._links.values():
            link.heal()

        def revive() -> None:
            with LocalClient(self._user) as api:
                for name in nodes:
                    revive_node(self._cluster, name)
                    api.merge(NODES.path(name=name), {"spec": {"unschedulable": None}})

        self._later(revive)

    def version(self) -> object:
        return len(self._watch.changes)

    def history(self) -> tuple[ObjectChange, ...]:
        self._watch.check()
        return self._watch.history()

    def unfinished(self) -> str:
        if self._doing:
            return "a user is at work"
        if self._watch.behind:
            return f"changes of {', '.join(sorted(self._watch.behind))} are being read"
        for pod in self._watch.current(PODS):
            if found := unfinished_pod(pod):
                return found
        return ""

    # ── what goes wrong ─────────────────────────────────────────────────────────────────────────────────────────

    def set_line(self, replica: str, line: Line) -> None:
        self._links[replica].set_line(line)

    def set_trouble(self, trouble: dict[str, Any], *, on: bool) -> None:
        """Everything is late instead: only the API server can answer."""
        for link in self._links.values():
            link.delay = 0.2 * trouble["share"] if on else 0.0

    async def restart(self, down: float) -> None:
        await asyncio.to_thread(restart_api_server, self._cluster, down_for=down)

    def cut_watches(self, kinds: Sequence[str]) -> None:
        for link in self._links.values():
            link.set_line(Line.CUT)
            link.set_line(Line.OPEN)

    def forget_past(self, kinds: Sequence[str]) -> None:
        self.cut_watches(kinds)

    def set_silence(self, kinds: Sequence[str], *, on: bool) -> None:
        for link in self._links.values():
            link.delay = 0.3 if on else 0.0

    def strike_write(self, interception: Interception) -> None:
        """Nothing is known here of single requests: it strikes at once."""
        interception.strike(next(iter(self._links)))

    def set_job_sync_pauses(self, *, on: bool) -> None:
        """Its Job controller makes pods as fast as it does."""

    def overtake_writes(self, detail: dict[str, Any]) -> None:
        """All that replicas send is late for a moment; what overtakes it are the other actions of users."""
        for link in self._links.values():
            link.delay = 0.3


def _for_kwok(document: Document) -> Document:
    """A document with pods and nodes that KWOK simulates."""
    made: Document = json.loads(json.dumps(document))
    if made["kind"] == "Node":
        labels, has = made["metadata"]["labels"], made["status"]["allocatable"]
        like = deepcopy(node(0, NodeShape(), "node"))
        like["metadata"] = {"name": made["metadata"]["name"], "labels": {**labels, **dict([ALIVE])}}
        like["status"] |= {"capacity": has, "allocatable": has}
        return like
    for meta in _metadata_of_pods(made):
        annotations = meta.get("annotations") or {}
        if RUN_SECONDS in annotations:
            meta["annotations"] = {**annotations, _COMPLETE_AFTER: f"{annotations[RUN_SECONDS]}s"}
    return made


def _metadata_of_pods(document: Document) -> list[Document]:
    spec = document.get("spec") or {}
    templates = [spec.get("template"), *(task["template"] for task in spec.get("tasks") or ())]
    found: list[Document] = [template["metadata"] for template in templates if template]
    return [document["metadata"]] if document["kind"] == "Pod" else found
