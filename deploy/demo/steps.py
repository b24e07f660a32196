"""What the hours of the demo are made of: each step waits for its result, and fails with the table without it."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from deploy.demo import examples, table
from deploy.demo.cluster_view import ClusterView, NoAnswer, Observer
from deploy.demo.examples import Document, ExampleWorkload, faulty_device
from deploy.demo.terminal import TerminalOutput
from deploy.local.client import LocalClient
from deploy.local.stack import Stack
from queues.api.api_resources import POD_GROUPS, PODS, path_of
from queues.errors import ApiError, MusterError

_INTERVAL: Final = 0.25
#: Annotation of a pod: the time after its start at which KWOK ends it.
_COMPLETE_AFTER: Final = "kwok.muster.dev/complete-after"


class StepFailed(MusterError):
    """The demo waited {seconds:.0f} seconds for this, and it did not happen: {what}.

    {scene}
    """


class MusterEnded(MusterError):
    """Muster ended by itself with status {status}. The end of its log:
    {tail}
    """


@dataclass(slots=True)
class DemoSteps:
    """Changes to the cluster, and waiting for what follows."""

    stack: Stack
    api: LocalClient
    observer: Observer
    terminal: TerminalOutput
    total_gpus: int

    def at(self, hour: int, *lines: str) -> None:
        """What happens at an hour of the day."""
        first, *rest = lines
        self.terminal.head(f"{hour:02d}:00  {first}")
        for line in rest:
            self.terminal.head(f"       {line}")

    def show_queues(self, queue: str, gpus: int, *lines: str) -> None:
        """What the queues use, below what is to be seen there, once this queue uses so many GPUs; it stays."""
        view = self.until(
            lambda view: table.gpus_used(view, queue) == gpus, f"queue {queue} to use {gpus} GPUs"
        )
        self.terminal.say()
        for line in lines:
            self.terminal.say(f"       {line}")
        for line in table.queues(view, self.total_gpus):
            self.terminal.say(f"  {line}")
        self.terminal.say()

    def submit(self, workload: ExampleWorkload) -> None:
        """Create a workload's objects."""
        for document in examples.documents(workload):
            self.create(document)
        self.observer.submitted[workload] = time.monotonic()

    def kill_leader(self) -> float:
        """SIGKILL the Muster that leads; when that was, by ``time.monotonic``."""
        os.kill(self.stack.replicas[0].process.pid, signal.SIGKILL)
        self.stack.replicas.pop(0).process.wait(10)
        return time.monotonic()

    def fail_gpu(self, workload: ExampleWorkload) -> str:
        """Report a fault of a GPU of one of the workload's pods, as the agent of its node would; the node."""
        pod = next(pod for pod in self.pods(workload) if pod["spec"].get("nodeName"))
        node: str = pod["spec"]["nodeName"]
        self.create(faulty_device(node, pod["metadata"]))
        return node

    def runs_without(self, workload: ExampleWorkload, node: str) -> bool:
        """Whether all pods of the workload run, and none on this node."""
        running = [pod for pod in self.pods(workload) if pod["status"].get("phase") == "Running"]
        return len(running) == workload.pods and all(pod["spec"]["nodeName"] != node for pod in running)

    def pods(self, workload: ExampleWorkload) -> list[Document]:
        """The workload's pods as they are now."""
        found: list[Document] = self.api.get(PODS.path(workload.namespace))["items"]
        return [pod for pod in found if workload.owns(f"{workload.namespace}/{pod['metadata']['name']}")]

    def end(self, workload: ExampleWorkload) -> None:
        """Have KWOK end the workload's pods."""
        last = {each.name: each.kind for each in self.observer.history.moments if workload.owns(each.name)}
        names = [name for name, kind in last.items() if kind != "DELETED"]
        for namespace, _, name in (each.partition("/") for each in sorted(names)):
            ends = {"metadata": {"annotations": {_COMPLETE_AFTER: "0s"}}}
            self.api.merge(f"/api/v1/namespaces/{namespace}/pods/{name}", ends)

    def create(self, document: Document) -> None:
        """Create one object, as ``kubectl create`` would."""
        self.api.create(path_of(document).rpartition("/")[0], document)

    def delete(self, document: Document) -> None:
        """Delete one object and its dependents."""
        path = path_of(document)
        self.api.request("DELETE", path, {"propagationPolicy": "Foreground", "gracePeriodSeconds": 0})
        self._wait_gone(path)

    def until(self, holds: Callable[[ClusterView], bool], what: str, *, seconds: float = 30.0) -> ClusterView:
        """Show the cluster until a condition holds. ``what``: the condition in words, for the error."""
        deadline = time.monotonic() + seconds
        while True:
            self._check()
            try:
                view = self.observer.look()
            except NoAnswer:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_INTERVAL)  # if it has ended, the check says more
                continue
            lines = table.lines(view, self.total_gpus)
            self.terminal.show(lines, table.states(view))
            if holds(view):
                return view
            if time.monotonic() > deadline:
                scene = "\n".join(["", *lines, "", "The end of Muster's log:", self._log()])
                raise StepFailed(seconds=seconds, what=what, scene=scene)
            time.sleep(_INTERVAL)

    def wait_no_groups(self) -> None:
        """Wait until no PodGroup is left: the garbage collector looks for new kinds every half minute only."""
        self._wait(lambda: not self.api.get(POD_GROUPS.path())["items"], "PodGroups to be gone", seconds=90.0)

    def _wait_gone(self, path: str) -> None:
        def is_gone() -> bool:
            try:
                self.api.get(path)
            except ApiError as error:
                if error.facts["status"] == 404:
                    return True
                raise
            return False

        self._wait(is_gone, f"{path} to be gone", seconds=30.0)

    def _wait(self, holds: Callable[[], bool], what: str, *, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            self._check()
            if time.monotonic() > deadline:
                raise StepFailed(seconds=seconds, what=what, scene=self._log())
            time.sleep(0.05)

    def _check(self) -> None:
        for replica in self.stack.replicas:
            if not replica.process.running:
                raise MusterEnded(status=replica.process.returncode, tail=self._log())

    def _log(self) -> str:
        return "\n" + self.stack.replicas[-1].log.read_text(errors="replace")[-2000:]
