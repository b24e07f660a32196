"""A day of three tenants, hour by hour: what Muster is there for."""

import time
from typing import Final

from deploy.demo import examples
from deploy.demo.examples import (
    CALIBRATION,
    DAY,
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
from deploy.demo.steps import DemoSteps, say
from queues.api.api_resources import DEVICES

#: Pods of the night's Job that its gang needs; the others may be taken from it.
_NEEDED_AT_NIGHT: Final = 4


def play(steps: DemoSteps) -> None:
    """The whole day. Raises StepFailed, MusterEnded."""
    _morning(steps)
    _a_gang_waits(steps)
    _the_leader_fails(steps)
    _the_gang_runs(steps)
    _a_gpu_fails(steps)
    _pods_by_a_script(steps)
    _the_night(steps)


def leave_running(steps: DemoSteps) -> None:
    """Delete the ended workloads, and submit those of the day once more as they are: none of them ends."""
    for workload in examples.WORKLOADS:
        for document in examples.documents(workload):
            steps.delete(document)
    for pod in examples.documents(GROUP, file="podgroup-pods"):
        steps.delete(pod)
    steps.wait_no_groups()
    say("\n· Once more, without end: the day's workloads as they are, for you to look at and to change.")
    first = (ONE_RACK, SIMULATION, TRAINING, TOPOLOGY_AWARE)
    steps.submit(*first, GROUP)
    for workload in first:
        steps.runs(workload)
    steps.submit(*(workload for workload in DAY if workload not in (*first, GROUP)))
    steps.runs(SMALL)
    for workload in (GANG, OVER_QUOTA, GROUP):
        steps.waits(workload)


def _morning(steps: DemoSteps) -> None:
    steps.at(8, "Vision asks for eight pods in one rack, and gets a whole rack. Others take less.")
    steps.submit(ONE_RACK)
    steps.runs(ONE_RACK)
    steps.submit(SIMULATION, TRAINING, TOPOLOGY_AWARE, GROUP)
    for workload in (SIMULATION, TRAINING, TOPOLOGY_AWARE):
        steps.runs(workload)
    steps.show_queues(
        "vision",
        38,
        "Vision deserves 32 and uses 38: it borrows what others leave idle, up to its capability of 48.",
    )


def _a_gang_waits(steps: DemoSteps) -> None:
    steps.at(
        9,
        "Language brings a gang of 4 × 8 GPUs. Only some of its pods would fit, so it waits whole: not one",
        "is created, and no GPU is held for half a gang.",
    )
    steps.submit(GANG)
    steps.waits(GANG)


def _the_leader_fails(steps: DemoSteps) -> None:
    steps.at(
        11,
        "The leading Muster is killed. What runs goes on, and what comes now waits for the second one:",
        "a small pod, and a Job that is more than its queue may use, however many GPUs are idle.",
    )
    killed = steps.kill_leader()
    steps.submit(SMALL, OVER_QUOTA)
    steps.runs(SMALL)
    steps.waits(OVER_QUOTA)
    say(
        f"       The second one took over: {time.monotonic() - killed:.0f} s later the small pod has gone past the "
        "gang, and the Job waits."
    )


def _the_gang_runs(steps: DemoSteps) -> None:
    steps.at(13, "one-rack ends. The gang that waited is admitted whole.")
    steps.ends(ONE_RACK)
    steps.runs(GANG)
    steps.runs(OVER_QUOTA)
    steps.plugin("explain", GANG.name, "-n", GANG.namespace)
    steps.ends(SIMULATION, TRAINING, TOPOLOGY_AWARE, GANG, SMALL)


def _a_gpu_fails(steps: DemoSteps) -> None:
    node = steps.fail_gpu(OVER_QUOTA)
    steps.at(
        15,
        f"GPU 0 of {node} fails (XID 79) under {OVER_QUOTA.key}. Its queue has onFault: evict,",
        "so the whole Job is evicted and starts again without that node.",
    )
    steps.until(lambda: steps.runs_without(OVER_QUOTA, node), "the Job to run on other nodes")
    others = sorted(pod["spec"]["nodeName"] for pod in steps.pods(OVER_QUOTA))
    say(
        f"  ● {OVER_QUOTA.key} runs again with {OVER_QUOTA.pods} of {OVER_QUOTA.pods} pods, on {' and '.join(others)}"
    )
    steps.api.delete(DEVICES.path(name=node))


def _pods_by_a_script(steps: DemoSteps) -> None:
    steps.at(
        17, "A script brings the pods of a PodGroup one after the other. They wait until all four are there."
    )
    *first, last = examples.documents(GROUP, file="podgroup-pods")
    for pod in first:
        steps.create(pod)
    steps.waits(GROUP, f"{len(first)} of")
    steps.create(last)
    steps.runs(GROUP)
    steps.ends(GROUP)


def _the_night(steps: DemoSteps) -> None:
    steps.at(
        20,
        "Language starts a gang of four that takes up to three pods more. When tune has ended it has borrowed",
        "24 GPUs beside its own 32: all but the 8 that are guaranteed to robotics.",
    )
    steps.submit(NIGHT)
    steps.until(lambda: steps.running(NIGHT) >= _NEEDED_AT_NIGHT, "the gang of night-batch to run")
    steps.ends(OVER_QUOTA)
    steps.runs(NIGHT)
    steps.show_queues("language", 56, "Language deserves 32 and uses 56: 24 are borrowed.")
    steps.at(
        22,
        "Robotics wants the 16 that it owns: 8 at once, and for the 8 that it has lent one pod is evicted that",
        "the borrower can do without. The borrower's gang runs on.",
    )
    steps.submit(CALIBRATION, EVALUATION)
    steps.runs(CALIBRATION)
    steps.runs(EVALUATION)
    steps.runs(NIGHT, NIGHT.pods - 1)
    steps.show_queues("language", 48, "Robotics has the 16 that it deserves, and language gave 8 back.")
    steps.ends(CALIBRATION, EVALUATION)
    steps.runs(NIGHT)
    steps.ends(NIGHT)
