"""A day of three tenants, hour by hour: what Muster is there for."""

import time
from typing import Final

from deploy.demo import examples
from deploy.demo.cluster_view import ClusterView, Observer
from deploy.demo.examples import (
    CALIBRATION,
    EVALUATION,
    GANG,
    GROUP,
    NIGHT,
    ONE_RACK,
    OVER_QUOTA,
    SIMULATION,
    SMALL,
    TOPOLOGY_AWARE,
    TRAINING,
)
from deploy.demo.steps import DemoSteps
from deploy.local.history import PodHistory
from queues.api.api_resources import DEVICES

#: Pods of the night's Job that its gang needs; the others may be taken from it.
_NEEDED_AT_NIGHT: Final = 4


def play(steps: DemoSteps) -> ClusterView:
    """The whole day. Returns the last view. Raises StepFailed, MusterEnded."""
    _morning(steps)
    _a_gang_waits(steps)
    _the_leader_fails(steps)
    _the_gang_runs(steps)
    _a_gpu_fails(steps)
    _pods_by_a_script(steps)
    _the_night(steps)
    return steps.until(
        lambda view: all(row.state == "done" for row in view.rows.values()), "everything to be done"
    )


def leave_running(steps: DemoSteps) -> None:
    """Delete the ended workloads, and submit those of the day once more as they are: none of them ends."""
    for workload in examples.WORKLOADS:
        for document in examples.documents(workload):
            steps.delete(document)
    for pod in examples.documents(GROUP, file="podgroup-pods"):
        steps.delete(pod)
    steps.wait_no_groups()
    steps.terminal.say(
        "· Once more, without end: the day's workloads as they are, for you to look at and to change."
    )
    with PodHistory(steps.stack.cluster.kubeconfig) as history:
        steps.observer = Observer(api=steps.api, history=history)
        for workload in (ONE_RACK, SIMULATION, TRAINING, TOPOLOGY_AWARE, GROUP):
            steps.submit(workload)
        steps.until(lambda view: view[TOPOLOGY_AWARE].state == "running", "the first ones to run again")
        for workload in (GANG, SMALL, OVER_QUOTA):
            steps.submit(workload)
        steps.until(
            lambda view: all(row.state == "running" or row.code for row in view.rows.values()),
            "all workloads to run or to wait with a reason",
        )


def _morning(steps: DemoSteps) -> None:
    steps.at(8, "Vision asks for eight pods in one rack, and gets a whole rack. Others take less.")
    steps.submit(ONE_RACK)
    steps.until(lambda view: view[ONE_RACK].started == ONE_RACK.pods, "one-rack to run")
    for workload in (SIMULATION, TRAINING, TOPOLOGY_AWARE, GROUP):
        steps.submit(workload)
    steps.until(
        lambda view: all(
            view[workload].state == "running" for workload in (SIMULATION, TRAINING, TOPOLOGY_AWARE)
        ),
        "the small ones to run",
    )
    steps.show_queues(
        "vision",
        38,
        "What the queues use now. Vision deserves 32 and uses 38: it borrows what others leave idle,",
        "up to its capability of 48.",
    )


def _a_gang_waits(steps: DemoSteps) -> None:
    steps.at(
        9,
        "Language brings a gang of 4 × 8 GPUs. Only some of its pods would fit, so it waits whole: not one",
        "is created, and no GPU is held for half a gang.",
    )
    steps.submit(GANG)
    steps.until(lambda view: view[GANG].code != "", "the gang to wait with a reason")


def _the_leader_fails(steps: DemoSteps) -> None:
    steps.at(
        11,
        "The leading Muster is killed. What runs goes on, and what comes now waits for the second one:",
        "a small pod, and a Job that is more than its queue may use, however many GPUs are idle.",
    )
    killed = steps.kill_leader()
    steps.submit(SMALL)
    steps.submit(OVER_QUOTA)
    steps.until(
        lambda view: view[SMALL].state == "running" and view[OVER_QUOTA].code != "",
        "the small pod to run and the over-quota Job to wait",
    )
    steps.terminal.say(
        f"       The second one took over: {time.monotonic() - killed:.0f} s later the small pod has gone past the "
        "gang, and the Job waits."
    )


def _the_gang_runs(steps: DemoSteps) -> None:
    steps.at(13, "one-rack ends. The gang that waited is admitted whole.")
    steps.end(ONE_RACK)
    steps.until(lambda view: view[ONE_RACK].state == "done", "one-rack to end")
    steps.until(
        lambda view: view[GANG].state == view[OVER_QUOTA].state == "running",
        "the whole gang and the over-quota Job to run",
    )
    for workload in (SIMULATION, TRAINING, TOPOLOGY_AWARE, GANG, SMALL):
        steps.end(workload)
    steps.until(lambda view: view[GANG].state == "done", "the gang to end")


def _a_gpu_fails(steps: DemoSteps) -> None:
    node = steps.fail_gpu(OVER_QUOTA)
    steps.at(
        15,
        f"GPU 0 of {node} fails (XID 79) under {OVER_QUOTA.key}. Its queue has onFault: evict,",
        "so the whole Job is evicted and starts again without that node.",
    )
    steps.until(lambda _: steps.runs_without(OVER_QUOTA, node), "the Job to run on other nodes")
    others = sorted(pod["spec"]["nodeName"] for pod in steps.pods(OVER_QUOTA))
    steps.terminal.say(
        f"       {OVER_QUOTA.key} runs again, all {OVER_QUOTA.pods} pods, on {' and '.join(others)}."
    )
    steps.api.delete(DEVICES.path(name=node))


def _pods_by_a_script(steps: DemoSteps) -> None:
    steps.at(
        17, "A script brings the pods of a PodGroup one after the other. They wait until all four are there."
    )
    *first, last = examples.documents(GROUP, file="podgroup-pods")
    for pod in first:
        steps.create(pod)
    steps.until(
        lambda view: view[GROUP].message.startswith(f"{len(first)} of"), "the group to count its pods"
    )
    steps.create(last)
    steps.until(lambda view: view[GROUP].state == "running", "the group to run")
    steps.end(GROUP)
    steps.until(lambda view: view[GROUP].state == "done", "the group to end")


def _the_night(steps: DemoSteps) -> None:
    steps.at(
        20,
        "Language starts a gang of four that takes up to three pods more. When tune has ended it has borrowed",
        "24 GPUs beside its own 32: all but the 8 that are guaranteed to robotics.",
    )
    steps.submit(NIGHT)
    steps.until(lambda view: view[NIGHT].started >= _NEEDED_AT_NIGHT, "the gang of night-batch to run")
    steps.end(OVER_QUOTA)
    steps.until(lambda view: view[NIGHT].started == NIGHT.pods, "all of night-batch to run")
    steps.show_queues(
        "language", 56, "What the queues use now. Language deserves 32 and uses 56: 24 are borrowed."
    )
    steps.at(
        22,
        "Robotics wants the 16 that it owns: 8 at once, and for the 8 that it has lent one pod is evicted that",
        "the borrower can do without. The borrower's gang runs on.",
    )
    for workload in (CALIBRATION, EVALUATION):
        steps.submit(workload)
    steps.until(
        lambda view: view[CALIBRATION].state == view[EVALUATION].state == "running",
        "robotics to have its own",
    )
    steps.until(
        lambda view: _NEEDED_AT_NIGHT <= view[NIGHT].started == NIGHT.pods - 1,
        "one pod less of night-batch to run",
    )
    steps.show_queues(
        "language",
        48,
        "What the queues use now. Robotics has the 16 that it deserves, and language gave 8 back.",
    )
    steps.end(CALIBRATION)
    steps.end(EVALUATION)
    steps.until(lambda view: view[NIGHT].started == NIGHT.pods, "night-batch to be complete again")
    steps.end(NIGHT)
