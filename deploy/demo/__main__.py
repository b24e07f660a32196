"""``python -m deploy.demo``: starts a cluster with Muster, shows a gang that waits and runs whole, and stops it all."""

import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from deploy.demo import day, examples
from deploy.demo.steps import DemoSteps, head, say
from deploy.local.nodes import NodeShape
from deploy.local.processes import die_with_parent
from deploy.local.stack import Stack
from queues.errors import MusterError
from queues.sql.embedded.supervised import Program, SupervisedProcess

NODES: Final = 8
#: The labels are selected by the examples.
SHAPE: Final = NodeShape(
    gpus=8,
    nodes_per_rack=4,
    racks_per_block=2,
    labels=(("accelerator", "nvidia-tesla-v100"), ("gpu-count", "8"), ("nvidia.com/gpu.count", "8")),
)
#: Where the page is, as its command prints it.
_ADDRESS: Final = re.compile(r"http://\S+")
_PAGE_SECONDS: Final = 20.0


class PageDidNotStart(MusterError):
    """`kubectl muster page` does not start; its output is in {log}."""


def main() -> int:
    """Exit code 0 if everything happened as promised, 1 if not, 130 if interrupted before the end."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    die_with_parent()
    finished = False
    try:
        say("· Starting etcd, the Kubernetes control plane, KWOK and Postgres.")
        with Stack(durable=False) as stack:
            set_up(stack)
            with stack.cluster.client() as api:
                steps = DemoSteps(stack=stack, api=api)
                day.play(steps)
                finished = True
                if os.environ.get("KEEP"):
                    keep(stack, steps)
            say("· Stopping everything.")
    except KeyboardInterrupt:
        print("\nStopped.")
        return 0 if finished else 130
    except Exception as error:
        # Any error is shown as a sentence.
        if os.environ.get("MUSTER_TRACEBACK"):
            raise
        name = "" if isinstance(error, MusterError) else f"{type(error).__name__}: "
        print(f"\nThe demo failed. {name}{error}", file=sys.stderr)
        return 1
    return 0


def set_up(stack: Stack) -> None:
    """Install and start Muster; create nodes and queues."""
    say("· `muster install`: definitions, rights, admission policies, the first two queues.")
    stack.install()
    stack.cluster.add_nodes(NODES, SHAPE)
    say(
        f"· {NODES} nodes × {SHAPE.gpus} GPUs, {SHAPE.nodes_per_rack} in a rack. `muster run`, twice: one leads, the "
        "other stands by."
    )
    stack.start_muster("muster-1", reached=False)
    stack.start_muster("muster-2", reached=True)
    stack.apply(*(examples.FOLDER / f"{name}.yaml" for name in ("namespaces", "topology", "queues")))


def keep(stack: Stack, steps: DemoSteps) -> None:
    """Leave the cluster up, with workloads that run and wait, until Ctrl-C."""
    day.leave_running(steps)
    path = f"{stack.cluster.kubectl.parent}:{Path(sys.executable).parent}"
    with page(stack) as address:
        say()
        head("It stays up until Ctrl-C. To look at, in a browser:")
        say(f"\n{address}\n")
        head("In another terminal:")
        say(f"""
export KUBECONFIG={stack.cluster.kubeconfig}
export PATH={path}:$PATH

kubectl muster jobs -A                                     # what runs and what waits
kubectl muster explain pytorch-distributed -n language     # why, and what would let it in
kubectl delete vcjob one-rack -n vision                    # what waits goes in, the gang as a whole
""")
        stack.cluster.watch()


@contextmanager
def page(stack: Stack) -> Iterator[str]:
    """``kubectl muster page`` for the length of the block; its address."""
    log = stack.cluster.directory / "page.log"
    command = ["-m", "admission.cli.kubectl_muster", "page", "--no-browser"]
    process = SupervisedProcess.start(
        Program(
            argv=[sys.executable, *command, "--kubeconfig", str(stack.cluster.kubeconfig)],
            log=log,
            cwd=Path.cwd(),
            env=dict(os.environ),
        )
    )
    try:
        deadline = time.monotonic() + _PAGE_SECONDS
        while (found := _ADDRESS.search(log.read_text() if log.exists() else "")) is None:
            if not process.running or time.monotonic() > deadline:
                raise PageDidNotStart(log=log)
            time.sleep(0.05)
        yield found.group()
    finally:
        process.stop()


if __name__ == "__main__":
    sys.exit(main())
