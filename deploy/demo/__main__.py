"""``python -m deploy.demo``: from nothing to a gang that waited whole and ran whole, and away again."""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Final

from deploy.demo import cast
from deploy.demo.proof import writes
from deploy.demo.scene import Observer
from deploy.demo.screen import Screen
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
    screen = Screen()
    told = False
    try:
        with Stack(options=ClusterOptions(audit=True), durable=False) as stack:
            play(stack, screen)
            told = True
            if os.environ.get("KEEP"):
                keep(stack, screen)
            screen.say("Stopping everything.")
    except KeyboardInterrupt:
        print("\nStopped.")
        return 0 if told else 130
    except MusterError as error:
        print(f"\nThe demo failed. {error}", file=sys.stderr)
        return 1
    return 0


def play(stack: Stack, screen: Screen) -> None:
    """Set the scene, tell the story, sum up. Raises MusterError."""
    began = time.monotonic()
    set_up(stack, screen)
    screen.say(f"· Ready after {time.monotonic() - began:.1f} s.")
    with stack.cluster.client() as api, PodHistory(stack.cluster.kubeconfig) as history:
        observer = Observer(server=stack.server, history=history)
        story = Story(stack=stack, api=api, observer=observer, screen=screen, total_gpus=NODES * SHAPE.gpus)
        scene = story.tell()
        screen.keep()
        audit = writes(stack.cluster.directory / "log" / "audit.jsonl", USERNAME)
        for line in summary(scene, observer, audit, SHAPE.gpus):
            screen.say(line)
    screen.say()


def set_up(stack: Stack, screen: Screen) -> None:
    """Nodes, Muster, queues."""
    screen.say(
        "· Control plane and Postgres are up. `muster install`: definitions, rights, policies, queues."
    )
    stack.install()
    stack.cluster.add_nodes(NODES, SHAPE)
    screen.say(
        f"· {NODES} nodes × {SHAPE.gpus} GPUs in racks of {SHAPE.nodes_per_rack}. `muster run`, as its own user."
    )
    stack.start_muster()
    stack.apply(*(cast.EXAMPLES / f"{name}.yaml" for name in ("namespaces", "topology", "queues")))


def keep(stack: Stack, screen: Screen) -> None:
    """Leave the cluster up, with work that waits, until Ctrl-C."""
    path = f"{stack.cluster.kubectl.parent}:{Path(sys.executable).parent}"
    screen.say(f"export KUBECONFIG={stack.cluster.kubeconfig} PATH={path}:$PATH MUSTER_SERVER={stack.server}")
    stack.cluster.watch()


if __name__ == "__main__":
    sys.exit(main())
