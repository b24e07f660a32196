"""Starts, ends and stops simulated pods as a kubelet would, and provides volumes for their claims.

KWOK's stages write by the name of a pod. Here every write names the uid: where a pod of the same name is made again
at once, as in a Job that restarts, the next one is never hit.
"""

import heapq
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, Self

from deploy.local.client import LocalClient
from queues.errors import ApiError
from tests.volcano_suite.pod_scripts import Document, Ending, ending_of, ignores_termination

#: Seconds from the binding of a pod to its start: the suite wants to see each Job Pending first.
START_AFTER = 2.0
#: Seconds that containers take to stop.
STOP_AFTER = 1.5
#: Seconds until a container that ended is started again; a kubelet takes ten.
AGAIN_AFTER = 1.0
THREADS = 3
STORAGE_CLASS = "standard"
_MERGE = "application/merge-patch+json"


class _Due(NamedTuple):
    at: float
    number: int
    path: str
    uid: str
    play: Callable[[LocalClient, str, Document], None]


class PodPlayer:
    """Plays the pods of a cluster inside a ``with`` block, which ends before the cluster does."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._due: list[_Due] = []
        self._changed = threading.Condition()
        self._numbers = count()
        self._known: set[tuple[str, str]] = set()
        self._addresses = count(1)
        self._stopped = threading.Event()

    def __exit__(self, *_: object) -> None:
        self._stopped.set()

    def __enter__(self) -> Self:
        for target in (self._watch_pods, self._watch_claims, *[self._play] * THREADS):
            threading.Thread(target=target, daemon=True).start()
        return self

    # ── what is to be done ──────────────────────────────────────────────────────────────────────────────────────

    def _watch_pods(self) -> None:
        for pod in self._events("/api/v1/pods"):
            meta, phase = pod["metadata"], pod["status"].get("phase")
            if not pod["spec"].get("nodeName"):
                continue
            if "deletionTimestamp" in meta:
                grace = meta.get("deletionGracePeriodSeconds") or 0
                if phase in ("Pending", "Running") or grace:
                    self._once(pod, "stop", grace if ignores_termination(pod) else STOP_AFTER, self._stop)
            elif phase == "Pending":
                self._once(pod, "start", START_AFTER, self._start)
            elif phase == "Running" and (ending := ending_of(pod)) is not None:
                self._once(pod, "end", ending.seconds, partial(self._end, ending=ending, restarts=1))

    def _once(
        self, pod: Document, what: str, after: float, play: Callable[[LocalClient, str, Document], None]
    ) -> None:
        key = (pod["metadata"]["uid"], what)
        if key not in self._known:
            self._known.add(key)
            self._later(pod, after, play)

    def _later(self, pod: Document, after: float, play: Callable[[LocalClient, str, Document], None]) -> None:
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        with self._changed:
            heapq.heappush(
                self._due, _Due(time.monotonic() + after, next(self._numbers), path, meta["uid"], play)
            )
            self._changed.notify()

    def _play(self) -> None:
        with LocalClient(self._kubeconfig) as api:
            while not self._stopped.is_set():
                due = self._next()
                # The pod is gone or another one by now, or the control plane stops.
                with suppress(ApiError):
                    pod = api.get(due.path)
                    if pod["metadata"]["uid"] == due.uid:
                        due.play(api, due.path, pod)

    def _next(self) -> _Due:
        with self._changed:
            while True:
                left = self._due[0].at - time.monotonic() if self._due else None
                if left is not None and left <= 0:
                    return heapq.heappop(self._due)
                self._changed.wait(left)

    # ── what pods do ────────────────────────────────────────────────────────────────────────────────────────────

    def _start(self, api: LocalClient, path: str, pod: Document) -> None:
        if pod["status"].get("phase") != "Pending" or "deletionTimestamp" in pod["metadata"]:
            return
        number, now = next(self._addresses), _now()
        address = f"10.{128 + number // 65536}.{number // 256 % 256}.{number % 256}"
        over = {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}
        status = {
            "phase": "Running",
            "startTime": now,
            "hostIP": "127.0.0.1",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": _conditions(pod, "True", "Started"),
            "containerStatuses": [
                {**_container(each), "ready": True, "started": True, "state": {"running": {"startedAt": now}}}
                for each in pod["spec"]["containers"]
            ],
            "initContainerStatuses": [
                {**_container(each), "ready": True, "state": {"terminated": over}}
                for each in pod["spec"].get("initContainers", ())
            ],
        }
        _patch(api, path, pod, status)

    def _end(self, api: LocalClient, path: str, pod: Document, *, ending: Ending, restarts: int) -> None:
        if pod["status"].get("phase") != "Running" or "deletionTimestamp" in pod["metadata"]:
            return
        policy = pod["spec"].get("restartPolicy", "Always")
        if policy == "Never" or (policy == "OnFailure" and not ending.exit_code):
            _over(api, path, pod, ending.exit_code)
            return
        last = {"terminated": _terminated(pod, ending.exit_code)}
        again = {"restartCount": restarts, "lastState": last, "state": {"running": {"startedAt": _now()}}}
        statuses = [{**each, **again} for each in pod["status"]["containerStatuses"]]
        _patch(api, path, pod, {"containerStatuses": statuses})
        after = ending.seconds + AGAIN_AFTER
        self._later(pod, after, partial(self._end, ending=ending, restarts=restarts + 1))

    def _stop(self, api: LocalClient, path: str, pod: Document) -> None:
        if pod["status"].get("phase") in ("Pending", "Running"):
            _over(api, path, pod, 143)
        only = {"uid": pod["metadata"]["uid"]}
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "preconditions": only,
        }
        api.request("DELETE", path, options)

    # ── volumes ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _watch_claims(self) -> None:
        with LocalClient(self._kubeconfig) as api:
            for claim in self._events("/api/v1/persistentvolumeclaims"):
                meta, spec = claim["metadata"], claim["spec"]
                chosen = "volume.kubernetes.io/selected-node" in meta.get("annotations", {})
                if chosen and spec.get("storageClassName") == STORAGE_CLASS and not spec.get("volumeName"):
                    with suppress(ApiError):
                        api.create("/api/v1/persistentvolumes", _volume_for(claim))

    def _events(self, path: str) -> Iterator[Document]:
        """Objects of a path as they are and as they change. A watch that breaks begins again."""
        while not self._stopped.is_set():
            with suppress(ApiError), LocalClient(self._kubeconfig, timeout=3600) as api:
                listed = api.get(path)
                yield from listed["items"]
                since = listed["metadata"]["resourceVersion"]
                for event in api.watch(f"{path}?watch=1&resourceVersion={since}"):
                    if event["type"] in ("ADDED", "MODIFIED"):
                        yield event["object"]


def _patch(api: LocalClient, path: str, pod: Document, status: Document) -> None:
    body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
    api.request("PATCH", f"{path}/status", body, content_type=_MERGE)


def _over(api: LocalClient, path: str, pod: Document, exit_code: int) -> None:
    state = {"terminated": _terminated(pod, exit_code)}
    statuses = pod["status"].get("containerStatuses", [])
    status = {
        "phase": "Failed" if exit_code else "Succeeded",
        "conditions": _conditions(pod, "False", "PodFailed" if exit_code else "PodCompleted"),
        "containerStatuses": [
            {**each, "ready": False, "started": False, "state": state} for each in statuses
        ],
    }
    _patch(api, path, pod, status)


def _terminated(pod: Document, exit_code: int) -> Document:
    started, reason = pod["status"].get("startTime", _now()), "Error" if exit_code else "Completed"
    return {"exitCode": exit_code, "reason": reason, "startedAt": started, "finishedAt": _now()}


def _container(container: Document) -> Document:
    return {"name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0}


def _conditions(pod: Document, status: str, reason: str) -> list[Document]:
    told = ("Ready", "ContainersReady") if status == "False" else ("Initialized", "Ready", "ContainersReady")
    kept = [each for each in pod["status"].get("conditions", ()) if each["type"] not in told]
    ours = {"status": status, "reason": reason, "lastTransitionTime": _now()}
    return [*kept, *({"type": each, **ours} for each in told)]


def _volume_for(claim: Document) -> Document:
    meta, spec = claim["metadata"], claim["spec"]
    owner = {key: meta[key] for key in ("namespace", "name", "uid")}
    volume: dict[str, Any] = {
        "capacity": spec["resources"]["requests"],
        "accessModes": spec["accessModes"],
        "storageClassName": STORAGE_CLASS,
        "hostPath": {"path": "/none"},
        "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **owner},
    }
    name = {"name": f"pvc-{meta['uid']}"}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": name, "spec": volume}


def _now() -> str:
    return datetime.fromtimestamp(time.time(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
