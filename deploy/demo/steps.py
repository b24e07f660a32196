"""The steps of the demo, in order. Each waits for its result, and fails with the table if that does not come."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from deploy.demo import examples, table
from deploy.demo.cluster_view import ClusterView, NoAnswer, Observer
from deploy.demo.examples import (
    GANG,
    GROUP,
    ONE_RACK,
    OVER_QUOTA,
    SIMULATION,
    SMALL,
    TOPOLOGY_AWARE,
    TRAINING,
    Document,
    ExampleWorkload,
    faulty_device,
)
from deploy.demo.terminal import TerminalOutput
from deploy.local.client import LocalClient
from deploy.local.history import PodHistory
from deploy.local.stack import Stack
from queues.api.api_resources import DEVICES, POD_GROUPS, PODS, path_of
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
    """One run of the steps."""

    stack: Stack
    api: LocalClient
    observer: Observer
    terminal: TerminalOutput
    total_gpus: int

    def run(self) -> ClusterView:
        """All steps. Returns the last view. Raises StepFailed, MusterEnded."""
        say = self.terminal.say
        say("· One team takes a whole rack, others take less. A PodGroup has no pods yet.")
        self.submit(ONE_RACK)
        self.until(lambda view: view[ONE_RACK].started == ONE_RACK.pods, "one-rack to run")
        for workload in (SIMULATION, TRAINING, TOPOLOGY_AWARE, GROUP):
            self.submit(workload)
        self.until(
            lambda view: all(
                view[workload].state == "running" for workload in (SIMULATION, TRAINING, TOPOLOGY_AWARE)
            ),
            "the small ones to run",
        )
        say(
            "· A gang of 4 × 8 GPUs comes. Only some of its pods would fit, so it waits whole: not one is created."
        )
        self.submit(GANG)
        self.until(lambda view: view[GANG].code != "", "the gang to wait with a reason")
        say("· A small workload goes past it. A workload over its quota waits, however many GPUs are idle.")
        self.submit(SMALL)
        self.submit(OVER_QUOTA)
        self.until(
            lambda view: view[SMALL].state == "running" and view[OVER_QUOTA].code != "",
            "the small pod to run and the over-quota Job to wait",
        )
        self.end(ONE_RACK)
        self.until(lambda view: view[ONE_RACK].state == "done", "one-rack to end")
        say("· one-rack has ended. The gang that waited is admitted whole.")
        self.until(
            lambda view: view[GANG].state == view[OVER_QUOTA].state == "running",
            "the whole gang and the over-quota Job to run",
        )
        for workload in (SIMULATION, TRAINING, TOPOLOGY_AWARE, GANG, SMALL):
            self.end(workload)
        self.until(lambda view: view[GANG].state == "done", "the gang to end")
        self.survive_fault(OVER_QUOTA)
        self.end(OVER_QUOTA)
        say("· The PodGroup gets pods, one after the other. They wait until all four are there.")
        *first, last = examples.documents(GROUP, file="podgroup-pods")
        for pod in first:
            self.create(pod)
        self.until(
            lambda view: view[GROUP].message.startswith(f"{len(first)} of"), "the group to count its pods"
        )
        self.create(last)
        self.until(lambda view: view[GROUP].state == "running", "the group to run")
        self.end(GROUP)
        return self.until(
            lambda view: all(row.state == "done" for row in view.rows.values()), "everything to be done"
        )

    def leave_running(self) -> None:
        """Delete the ended workloads, and submit the examples once more as they are: none of them ends."""
        for workload in examples.WORKLOADS:
            for document in examples.documents(workload):
                self.delete(document)
        for pod in examples.documents(GROUP, file="podgroup-pods"):
            self.delete(pod)
        # The garbage collector looks for new kinds, such as PodGroup, every half minute only.
        self._wait(self._has_no_groups, "the PodGroups of the first round to be gone", seconds=90.0)
        self.terminal.say(
            "· Once more, without end: the examples as they are, for you to look at and to change."
        )
        with PodHistory(self.stack.cluster.kubeconfig) as history:
            self.observer = Observer(api=self.api, history=history)
            for workload in (ONE_RACK, SIMULATION, TRAINING, TOPOLOGY_AWARE, GROUP):
                self.submit(workload)
            self.until(lambda view: view[TOPOLOGY_AWARE].state == "running", "the first ones to run again")
            for workload in (GANG, SMALL, OVER_QUOTA):
                self.submit(workload)
            self.until(
                lambda view: all(row.state == "running" or row.code for row in view.rows.values()),
                "all workloads to run or to wait with a reason",
            )

    def submit(self, workload: ExampleWorkload) -> None:
        """Create a workload's objects."""
        for document in examples.documents(workload):
            self.create(document)
        self.observer.submitted[workload] = time.monotonic()

    def survive_fault(self, workload: ExampleWorkload) -> None:
        """A GPU fails under a workload, which starts again on other nodes. Raises StepFailed, MusterEnded."""
        node = self.fail_gpu(workload)
        self.terminal.say(
            f"· GPU 0 of {node} fails (XID 79) under {workload.key}. Its queue has onFault: evict,\n"
            "  so the whole Job is evicted and starts again without that node."
        )
        self.until(lambda _: self.runs_without(workload, node), "the Job to run on other nodes")
        self.api.delete(DEVICES.path(name=node))

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
            self.terminal.show(lines, table.changes(view))
            if holds(view):
                return view
            if time.monotonic() > deadline:
                scene = "\n".join(["", *lines, "", "The end of Muster's log:", self._log()])
                raise StepFailed(seconds=seconds, what=what, scene=scene)
            time.sleep(_INTERVAL)

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

    def _has_no_groups(self) -> bool:
        return not self.api.get(POD_GROUPS.path())["items"]

    def _wait(self, holds: Callable[[], bool], what: str, *, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            self._check()
            if time.monotonic() > deadline:
                raise StepFailed(seconds=seconds, what=what, scene=self._log())
            time.sleep(0.05)

    def _check(self) -> None:
        if not self.stack.replicas[0].process.running:
            raise MusterEnded(status=self.stack.replicas[0].process.returncode, tail=self._log())

    def _log(self) -> str:
        return "\n" + self.stack.replicas[0].log.read_text(errors="replace")[-2000:]
