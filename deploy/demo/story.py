"""What happens, in order. Each step waits for what it promises, and fails with the scene if that does not come."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from deploy.demo import cast, table
from deploy.demo.cast import (
    GANG,
    GROUP,
    ONE_RACK,
    OVER_QUOTA,
    SIMULATION,
    SMALL,
    TOPOLOGY_AWARE,
    TRAINING,
    Document,
    Role,
)
from deploy.demo.scene import NoAnswer, Observer, Scene
from deploy.demo.screen import DemoScreen
from deploy.local.client import LocalClient
from deploy.local.history import PodHistory
from deploy.local.stack import Stack
from queues.errors import ApiError, MusterError

_LOOK_EVERY: Final = 0.25
_PLURALS: Final = {
    "Pod": "/api/v1/namespaces/{}/pods",
    "PodGroup": "/apis/scheduling.volcano.sh/v1beta1/namespaces/{}/podgroups",
    "batch/v1": "/apis/batch/v1/namespaces/{}/jobs",
    "batch.volcano.sh/v1alpha1": "/apis/batch.volcano.sh/v1alpha1/namespaces/{}/jobs",
}


class StepFailed(MusterError):
    """The demo waited {seconds:.0f} seconds for this, and it did not happen: {what}.

    {scene}
    """


class MusterEnded(MusterError):
    """Muster ended by itself with status {status}. The end of its log:
    {tail}
    """


@dataclass(slots=True)
class Story:
    """One telling."""

    stack: Stack
    api: LocalClient
    observer: Observer
    screen: DemoScreen
    total_gpus: int

    def tell(self) -> Scene:
        """All steps; the last scene. Raises StepFailed, MusterEnded."""
        say = self.screen.say
        say("· One team takes a whole rack, others take less. A PodGroup has no pods yet.")
        self.submit(ONE_RACK)
        self.until(lambda scene: scene[ONE_RACK].started == ONE_RACK.pods, "one-rack to run")
        for role in (SIMULATION, TRAINING, TOPOLOGY_AWARE, GROUP):
            self.submit(role)
        self.until(
            lambda scene: all(
                scene[role].state == "running" for role in (SIMULATION, TRAINING, TOPOLOGY_AWARE)
            ),
            "the small ones to run",
        )
        say(
            "· A gang of 4 × 8 GPUs comes. Only some of its pods would fit, so it waits whole: not one is created."
        )
        self.submit(GANG)
        self.until(lambda scene: scene[GANG].code != "", "the gang to wait with a reason")
        say("· Who needs little goes past it. Who is over the quota waits, however many GPUs are idle.")
        self.submit(SMALL)
        self.submit(OVER_QUOTA)
        self.until(
            lambda scene: scene[SMALL].state == "running" and scene[OVER_QUOTA].code != "",
            "the small pod to run and the over-quota Job to wait",
        )
        self.until(lambda scene: scene[ONE_RACK].state == "done", "one-rack to end")
        say("· one-rack has ended. The gang that waited is admitted whole.")
        self.until(lambda scene: scene[GANG].state == "running", "the whole gang to run")
        self.until(lambda scene: scene[GANG].state == "done", "the gang to end")
        say("· The PodGroup gets pods, one after the other. They wait until all four are there.")
        *first, last = cast.documents(GROUP, example="podgroup-pods")
        for pod in first:
            self.create(pod)
        self.until(
            lambda scene: scene[GROUP].message.startswith(f"{len(first)} of"), "the group to count its pods"
        )
        self.create(last)
        return self.until(
            lambda scene: all(row.state == "done" for row in scene.rows.values()), "everything to be done"
        )

    def leave(self) -> None:
        """Delete what has ended, and submit the same once more as it is in the examples: nothing of it ends."""
        for role in cast.ALL:
            for document in cast.documents(role):
                self.delete(document)
        for pod in cast.documents(GROUP, example="podgroup-pods"):
            self.delete(pod)
        self.screen.say(
            "· Once more, without end: the examples as they are, for you to look at and to change."
        )
        with PodHistory(self.stack.cluster.kubeconfig) as history:
            self.observer = Observer(server=self.stack.server, history=history)
            for role in (ONE_RACK, SIMULATION, TRAINING, TOPOLOGY_AWARE, GROUP):
                self.submit(role, ends=False)
            self.until(lambda scene: scene[TOPOLOGY_AWARE].state == "running", "the first ones to run again")
            for role in (GANG, SMALL, OVER_QUOTA):
                self.submit(role, ends=False)
            self.until(
                lambda scene: all(row.state == "running" or row.code for row in scene.rows.values()),
                "everybody to run or to wait with a reason",
            )

    def submit(self, role: Role, *, ends: bool = True) -> None:
        """Create a role's objects."""
        for document in cast.documents(role, ends=ends):
            self.create(document)
        self.observer.submitted[role] = time.monotonic()

    def create(self, document: Document) -> None:
        """One object, as ``kubectl create`` would."""
        self.api.create(_collection(document), document)

    def delete(self, document: Document) -> None:
        """One object and what belongs to it."""
        path = f"{_collection(document)}/{document['metadata']['name']}"
        self.api.request("DELETE", path, {"propagationPolicy": "Foreground", "gracePeriodSeconds": 0})
        self._wait_gone(path)

    def until(self, holds: Callable[[Scene], bool], what: str, *, seconds: float = 30.0) -> Scene:
        """Show the scene until something holds."""
        deadline = time.monotonic() + seconds
        while True:
            self._check()
            try:
                scene = self.observer.look()
            except NoAnswer:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_LOOK_EVERY)  # if it has ended, the check says more
                continue
            lines = table.lines(scene, self.total_gpus)
            self.screen.show(lines, table.changes(scene))
            if holds(scene):
                return scene
            if time.monotonic() > deadline:
                raise StepFailed(seconds=seconds, what=what, scene=_told(lines, self._log()))
            time.sleep(_LOOK_EVERY)

    def _wait_gone(self, path: str, *, seconds: float = 30.0) -> None:
        deadline = time.monotonic() + seconds
        while True:
            self._check()
            try:
                self.api.get(path)
            except ApiError as error:
                if error.facts["status"] == 404:
                    return
                raise
            if time.monotonic() > deadline:
                raise StepFailed(seconds=seconds, what=f"{path} to be gone", scene=self._log())
            time.sleep(0.05)

    def _check(self) -> None:
        if not self.stack.replicas[0].process.running:
            raise MusterEnded(status=self.stack.replicas[0].process.returncode, tail=self._log())

    def _log(self) -> str:
        return "\n" + self.stack.replicas[0].log.read_text(errors="replace")[-2000:]


def _collection(document: Document) -> str:
    version, kind = document["apiVersion"], document["kind"]
    path = _PLURALS.get(version) or _PLURALS[kind]
    return path.format(document["metadata"]["namespace"])


def _told(lines: Sequence[str], log: str) -> str:
    return "\n".join(["", *lines, "", "The end of Muster's log:", log])
