"""``python -m deploy.local up``: a control plane for development, until Ctrl-C."""

import argparse
import signal
import sys
import time
from pathlib import Path

from deploy.local.cluster import LocalCluster
from deploy.local.nodes import NodeShape
from deploy.local.processes import die_with_parent
from queues.errors import MusterError


def main() -> int:
    """Parse the command line and do what it says."""
    parser = argparse.ArgumentParser(prog="python -m deploy.local", description=__doc__)
    up = parser.add_subparsers(dest="command", required=True).add_parser(
        "up", help="start a control plane and stay"
    )
    up.add_argument("--nodes", type=int, default=16, help="simulated GPU nodes (16)")
    up.add_argument("--gpus", type=int, default=8, help="GPUs per node (8)")
    up.add_argument("--dir", type=Path, help="keep the state here; without it nothing is left behind")
    asked = parser.parse_args()
    die_with_parent()
    try:
        _up(asked)
    except KeyboardInterrupt:
        pass
    except MusterError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _up(asked: argparse.Namespace) -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    started = time.monotonic()
    with LocalCluster(asked.dir) as cluster:
        cluster.ensure_nodes(asked.nodes, NodeShape(gpus=asked.gpus))
        print(f"Up in {time.monotonic() - started:.1f} s with {asked.nodes} nodes. Stop with Ctrl-C.")
        print(f"export KUBECONFIG={cluster.kubeconfig} PATH={cluster.kubectl.parent}:$PATH", flush=True)
        cluster.watch()


if __name__ == "__main__":
    sys.exit(main())
