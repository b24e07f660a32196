"""``python -m deploy.demo``: from nothing to a gang that waited whole and ran whole, and away again."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from deploy.demo import cast
from deploy.demo.proof import writes
from deploy.demo.scene import Observer
from deploy.demo.screen import DemoScreen
from deploy.demo.story import Story
from deploy.demo.summary import summary
from deploy.local.components import ClusterOptions
from deploy.local.history import PodHistory
from deploy.local.nodes import NodeShape
from deploy.local.processes import die_with_parent
from deploy.local.stack import USERNAME, Stack
from queues.errors import MusterError

NODES: Final = 8
#: Labels are those that the examples select.
SHAPE: Final = NodeShape(
    gpus=8,
    nodes_per_rack=4,
    racks_per_block=2,
    labels=(("accelerator", "nvidia-tesla-v100"), ("gpu-count", "8"), ("nvidia.com/gpu.count", "8")),
)


def main() -> int:
    """Exit code 0 if everything happened as promised, 1 if not, 130 if interrupted before the end."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    die_with_parent()
    screen = DemoScreen()
    told = False
    try:
        screen.say("· Starting etcd, the Kubernetes control plane, KWOK and Postgres.")
        with Stack(options=ClusterOptions(audit=True), durable=False) as stack:
            set_up(stack, screen)
            play(stack, screen)
            told = True
            if os.environ.get("KEEP"):
                keep(stack, screen)
            screen.say("· Stopping everything.")
    except KeyboardInterrupt:
        print("\nStopped.")
        return 0 if told else 130
    except Exception as error:
        # Whatever it is, it is told in a sentence.
        if os.environ.get("MUSTER_TRACEBACK"):
            raise
        name = "" if isinstance(error, MusterError) else f"{type(error).__name__}: "
        print(f"\nThe demo failed. {name}{error}", file=sys.stderr)
        return 1
    return 0


def set_up(stack: Stack, screen: DemoScreen) -> None:
    """Muster, nodes, queues."""
    screen.say("· `muster install`: definitions, rights, admission policies, the first two queues.")
    stack.install()
    stack.cluster.add_nodes(NODES, SHAPE)
    screen.say(
        f"· {NODES} nodes × {SHAPE.gpus} GPUs, {SHAPE.nodes_per_rack} in a rack. `muster run` as its own user."
    )
    stack.start_muster()
    stack.apply(*(cast.EXAMPLES / f"{name}.yaml" for name in ("namespaces", "topology", "queues")))


def play(stack: Stack, screen: DemoScreen) -> None:
    """Tell the story and sum up. Raises MusterError."""
    with storyteller(stack, screen) as story:
        scene = story.tell()
        screen.keep()
        screen.head("Who waited how long, and why")
        audit = writes(stack.cluster.directory / "log" / "audit.jsonl", USERNAME)
        for line in summary(scene, story.observer, audit, SHAPE.gpus):
            screen.say(line)
    screen.say()


@contextmanager
def storyteller(stack: Stack, screen: DemoScreen) -> Iterator[Story]:
    """A story with its own view of what happens from now on."""
    with stack.cluster.client() as api, PodHistory(stack.cluster.kubeconfig) as history:
        yield Story(
            stack=stack,
            api=api,
            observer=Observer(server=stack.server, history=history),
            screen=screen,
            total_gpus=NODES * SHAPE.gpus,
        )


def keep(stack: Stack, screen: DemoScreen) -> None:
    """Leave the cluster up, with work that waits, until Ctrl-C."""
    with storyteller(stack, screen) as story:
        story.leave()
    screen.keep()
    path = f"{stack.cluster.kubectl.parent}:{Path(sys.executable).parent}"
    screen.head("It stays up until Ctrl-C. In another terminal:")
    screen.say(f"""
export KUBECONFIG={stack.cluster.kubeconfig}
export PATH={path}:$PATH
export MUSTER_SERVER={stack.server}

kubectl muster queues
kubectl muster pending -A
kubectl muster explain vcjob/pytorch-distributed -n language
kubectl get vcjob,podgroup,queue -A
kubectl delete vcjob one-rack -n vision     # what waits goes in, the gang as a whole
kubectl get pods -n language -o wide
""")
    stack.cluster.watch()


if __name__ == "__main__":
    sys.exit(main())
