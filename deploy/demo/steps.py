"""What the hours of the demo are made of: each step waits for its result and says it, or fails without it."""

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from deploy.demo import examples
from deploy.demo.examples import Document, ExampleWorkload, faulty_device
from deploy.local.client import LocalClient
from deploy.local.stack import Stack
from queues.api.api_resources import POD_GROUPS, PODS, path_of
from queues.errors import ApiError, MusterError
from queues.resources import GPU

#: Columns of a line about a workload.
WIDTH: Final = 100
_INTERVAL: Final = 0.25
#: Annotation of a pod: the time after its start at which KWOK ends it.
_COMPLETE_AFTER: Final = "kwok.muster.dev/complete-after"
_BOLD: Final = "\x1b[1m{text}\x1b[0m"


class StepFailed(MusterError):
    """The demo waited {seconds:.0f} seconds for this, and it did not happen: {what}.

    {scene}
    """


class MusterEnded(MusterError):
    """Muster ended by itself with status {status}. The end of its log:
    {tail}
    """


def say(text: str = "") -> None:
    """A line, or several."""
    print(text, flush=True)


def head(text: str) -> None:
    """A headline."""
    is_plain = "NO_COLOR" in os.environ or not sys.stdout.isatty() or os.environ.get("TERM") == "dumb"
    say(text if is_plain else _BOLD.format(text=text))


@dataclass(slots=True)
class DemoSteps:
    """Changes to the cluster, and waiting for what follows."""

    stack: Stack
    api: LocalClient

    def at(self, hour: int, *lines: str) -> None:
        """What happens at an hour of the day."""
        first, *others = lines
        say()
        head(f"{hour:02d}:00  {first}")
        for line in others:
            head(f"       {line}")

    def plugin(self, *words: str) -> None:
        """Show a command of ``kubectl muster`` and its answer."""
        say(f"\n  $ kubectl muster {' '.join(words)}")
        command = [sys.executable, "-m", "admission.cli.kubectl_muster", *words]
        # Other clusters that start on the same machine can delay an answer by more than the usual limit.
        kubeconfig = self.stack.cluster.kubeconfig
        done = self.stack.run([*command, "--kubeconfig", kubeconfig, "--timeout", "120"], check=True)
        say("\n".join(f"  {line}".rstrip() for line in done.stdout.splitlines()))

    def show_queues(self, queue: str, gpus: int, text: str) -> None:
        """What the queues use, with what is to be seen there, once this queue uses so many GPUs."""
        self.until(lambda: self._gpus_used(queue) == gpus, f"queue {queue} to use {gpus} GPUs")
        say(f"       {text}")
        self.plugin("queues")

    def submit(self, *workloads: ExampleWorkload) -> None:
        """Create the objects of workloads."""
        for workload in workloads:
            for document in examples.documents(workload):
                self.create(document)

    def runs(self, workload: ExampleWorkload, pods: int | None = None) -> None:
        """Wait until so many pods of a workload run, and no others; None for all."""
        wanted = workload.pods if pods is None else pods
        self.until(lambda: self.running(workload) == wanted, f"{workload.key} to run")
        say(f"  ● {workload.key} runs with {wanted} of {workload.pods} pods")

    def waits(self, workload: ExampleWorkload, why: str = "") -> None:
        """Wait until a workload waits with a reason, whose message begins so."""

        def has_reason() -> bool:
            return bool(self._reason(workload)["code"]) and self._reason(workload)["message"].startswith(why)

        self.until(has_reason, f"{workload.key} to wait with a reason")
        reason = self._reason(workload)
        line = f"  ◌ {workload.key} waits: {reason['code']}: {reason['message']}"
        say(line if len(line) <= WIDTH else line[: WIDTH - 1] + "…")

    def ends(self, *workloads: ExampleWorkload) -> None:
        """Have KWOK end the pods of workloads, and wait until they have succeeded."""
        for workload in workloads:
            for pod in self.pods(workload):
                path = PODS.path(workload.namespace, pod["metadata"]["name"])
                self.api.merge(path, {"metadata": {"annotations": {_COMPLETE_AFTER: "0s"}}})
        for workload in workloads:
            self.until(partial(self._has_ended, workload), f"{workload.key} to end")
            say(f"  ✓ {workload.key} has ended")

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

    def running(self, workload: ExampleWorkload) -> int:
        """Pods of the workload that run."""
        return self._count(workload, "Running")

    def pods(self, workload: ExampleWorkload) -> list[Document]:
        """The workload's pods as they are now."""
        pods: list[Document] = self.api.get(PODS.path(workload.namespace))["items"]
        return [pod for pod in pods if workload.owns(pod["metadata"])]

    def create(self, document: Document) -> None:
        """Create one object, as ``kubectl create`` would."""
        self.api.create(path_of(document).rpartition("/")[0], document)

    def delete(self, document: Document) -> None:
        """Delete one object and its dependents, and wait until it is gone."""
        path = path_of(document)
        self.api.request("DELETE", path, {"propagationPolicy": "Foreground", "gracePeriodSeconds": 0})

        def is_gone() -> bool:
            try:
                self.api.get(path)
            except ApiError as error:
                return bool(error.facts["status"] == 404)
            return False

        self.until(is_gone, f"{path} to be gone")

    def wait_no_groups(self) -> None:
        """Wait until no PodGroup is left: the garbage collector looks for new kinds every half minute only."""
        self.until(lambda: not self.api.get(POD_GROUPS.path())["items"], "PodGroups to be gone")

    def until(self, holds: Callable[[], bool], what: str, *, seconds: float = 180.0) -> None:
        """Wait until a condition holds. ``what``: the condition in words. Raises StepFailed, MusterEnded."""
        deadline = time.monotonic() + seconds
        while True:
            for replica in self.stack.replicas:
                if not replica.process.running:
                    raise MusterEnded(status=replica.process.returncode, tail=self._log())
            try:
                if holds():
                    return
            except ApiError as error:
                # While another replica takes over, the read API has no answer.
                if error.facts.get("status") != 503:
                    raise
            if time.monotonic() > deadline:
                raise StepFailed(seconds=seconds, what=what, scene=f"The end of Muster's log:\n{self._log()}")
            time.sleep(_INTERVAL)

    def _ask(self, path: str) -> list[Any]:
        items: list[Any] = []

        def has_answered() -> bool:
            items[:] = self.api.get(f"/apis/read.muster.dev/v1/{path}")["items"]
            return True

        self.until(has_answered, f"an answer about {path}")
        return items

    def _reason(self, workload: ExampleWorkload) -> dict[str, str]:
        for item in self._ask("pending"):
            if (item["kind"], item["namespace"], item["name"]) == (
                workload.kind,
                workload.namespace,
                workload.name,
            ):
                return item.get("reason") or {"code": "", "message": ""}
        return {"code": "", "message": ""}

    def _gpus_used(self, queue: str) -> int:
        accounts = [
            each for item in self._ask("queues") if item["name"] == queue for each in item["accounts"]
        ]
        return sum(
            int(each.get("used", 0)) for each in accounts if each["resource"] == GPU and not each["flavor"]
        )

    def _count(self, workload: ExampleWorkload, phase: str) -> int:
        return sum(pod["status"].get("phase") == phase for pod in self.pods(workload))

    def _has_ended(self, workload: ExampleWorkload) -> bool:
        return self._count(workload, "Succeeded") >= workload.pods

    def _log(self) -> str:
        return self.stack.replicas[-1].log.read_text(errors="replace")[-2000:]
