"""Muster in a cluster as an administrator has it there: by the chart, as pods.

The control plane, the scheduler and the pods' containers are real; ``kubelet.py`` and ``pod_network.py`` say what plays
the rest.
"""

import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

import deploy
from deploy.local.client import LocalClient
from deploy.local.components import ALIVE, ClusterOptions
from deploy.local.helm import helm
from deploy.local.nodes import NodeShape, node
from deploy.local.stack import Stack
from queues.api.names import AGENT_NAMESPACE, RUNS_AGENT
from tests.e2e.installation.support.kubelet import API_SERVER, Kubelet, RunningPod
from tests.e2e.installation.support.pod_network import PodNetwork
from tests.e2e.support.api_paths import Document, path
from tests.unit.deploy.chart_rendering import SECRET, run_helm
from tests.waiting import until

#: Of tests that run pods of Muster.
NEEDS_PODS = pytest.mark.skipif(
    shutil.which("ip") is None or os.geteuid() != 0,
    reason="pods get namespaces of Linux, by root and the program ip",
)
CHART = Path(deploy.__file__).parent / "chart"
NAMESPACE = "muster-system"
#: Where pods find the database.
_POSTGRES = ("10.96.0.20", 5432)
DSN = f"postgresql://muster@{_POSTGRES[0]}/postgres"
#: Nodes with GPUs, which only their work tolerates: the pods of Muster run on the node of the kubelet.
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


@dataclass(slots=True)
class Deployed:
    """A cluster whose pods of Muster run, once something is applied."""

    stack: Stack
    api: LocalClient
    kubelet: Kubelet
    #: Runs the agents, of the same node.
    agents: Kubelet

    def kubectl(self, *arguments: str | Path, user: Path | None = None) -> str:
        """What kubectl prints, for the administrator or another user."""
        return self.stack.kubectl(*arguments, user=user).stdout

    def kubectl_muster(self, user: Path, *arguments: str) -> str:
        """What the plugin prints for a user."""
        plugin = [sys.executable, "-m", "admission.cli.kubectl_muster", *arguments]
        return self.stack.run([*plugin, "--kubeconfig", user], check=True).stdout

    def roll_out(self, replicas: int = 2) -> None:
        """Wait until the Deployment has so many ready pods of its newest template, one of which leads."""

        def is_there() -> bool:
            assert not self.kubelet.failures, (self.kubelet.failures, self.kubelet.logs())
            found = self.api.get(path("Deployment", NAMESPACE, "muster"))
            status = found.get("status", {})
            return (
                status.get("observedGeneration") == found["metadata"]["generation"]
                and (status.get("readyReplicas"), status.get("updatedReplicas")) == (replicas, replicas)
                and status.get("replicas") == replicas
            )

        try:
            until(is_there, f"{replicas} replicas to be ready")
            until(lambda: len(self.leaders()) == 1, "one replica to lead")
        except AssertionError as late:
            raise AssertionError(
                f"{late}: {self.kubectl('get', 'pods', '-A')}\n{self.kubelet.logs()}"
            ) from late

    def pods(self) -> list[RunningPod]:
        """Those that run."""
        return [pod for pod in self.kubelet.pods.values() if pod.container.running]

    def leaders(self) -> list[RunningPod]:
        """Running pods that say that they lead."""
        return [pod for pod in self.pods() if "\nmuster_leader 1.0\n" in self.metrics(pod)]

    def execute(self, pod: RunningPod, *command: str) -> bytes:
        """What a command prints in the container of a pod, as `kubectl exec` has it."""
        until(lambda: pod.container.entered, f"the container of {pod.name} to begin")
        done = subprocess.run(
            pod.container.inside(*command),
            capture_output=True,
            env=pod.container.environment(),
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    def readiness(self, pod: RunningPod) -> str:
        """What `/readyz` of a pod says; empty: it does not answer."""
        try:
            with urllib.request.urlopen(f"http://{pod.interface.address}:8080/readyz", timeout=5) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as not_ready:
            return not_ready.read().decode()
        except OSError:
            return ""

    def metrics(self, pod: RunningPod) -> str:
        """What Prometheus reads from a pod; empty: it does not answer."""
        try:
            with urllib.request.urlopen(f"http://{pod.interface.address}:8080/metrics", timeout=5) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""


@contextmanager
def deployment_cluster(folder: Path) -> Iterator[Deployed]:
    """A control plane that reaches pods by their Services, a Postgres, a node for Muster and three with GPUs."""
    options = ClusterOptions(
        # Nobody renews the lease of the kubelet's node.
        node_grace_seconds=600,
        api_server_flags=("--enable-aggregator-routing=true",),
    )
    with Stack(options=options, durable=False) as stack, stack.cluster.client() as api:
        _add_nodes(api)
        (socket,) = (parse_qs(urlsplit(stack.dsn).query))["host"]
        server = urlsplit(stack.cluster.url)
        assert server.hostname is not None
        assert server.port is not None
        services = {
            API_SERVER: (server.hostname, server.port),
            _POSTGRES: next(each for each in Path(socket).glob(".s.PGSQL.*") if each.is_socket()),
        }
        with PodNetwork(services).up() as network:
            kubelet, agents = (
                Kubelet(stack.cluster, network, folder / namespace, namespace)
                for namespace in (NAMESPACE, AGENT_NAMESPACE)
            )
            with kubelet.playing(), agents.playing():
                yield Deployed(stack, api, kubelet, agents)


def apply_rendered(deployed: Deployed, folder: Path) -> None:
    """Install what the chart renders, by kubectl, in the order of the page; two replicas are ready afterwards."""
    deployed.kubectl("create", "namespace", NAMESPACE)
    deployed.kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
    secret = ("secret", "generic", "muster-database", "-n", NAMESPACE)
    deployed.kubectl("create", *secret, f"--from-literal=dsn={DSN}")
    deployed.kubectl("apply", "--server-side", "-f", CHART / "crds")
    file = rendered_file(folder, "--set", "firstQueues.create=false")
    deployed.kubectl("apply", "--server-side", "-f", file)
    deployed.kubectl("create", "-f", rendered_file(folder, "--show-only", "templates/queues.yaml"))
    deployed.roll_out()


def rendered_file(folder: Path, *options: str) -> Path:
    """What the chart makes with a Secret that is there, as a file for kubectl."""
    done = run_helm(helm(), "template", "muster", str(CHART), "--namespace", NAMESPACE, *SECRET, *options)
    assert done.returncode == 0, done.stderr
    file = folder / "rendered.yaml"
    file.write_text(done.stdout)
    return file


def _add_nodes(api: LocalClient) -> None:
    own = node(0, NodeShape(gpus=0, labels=((RUNS_AGENT, "true"),)), "system")
    del own["metadata"]["labels"][ALIVE[0]]
    gpu_nodes = [node(index, NodeShape(), "gpu") for index in range(3)]
    for each in gpu_nodes:
        each["spec"]["taints"] = [GPU_TAINT]
    for each in (own, *gpu_nodes):
        api.create(path("Node", ""), each)


def gang(name: str, pods: int, gpus: int) -> Document:
    """A Job all of whose pods start together, in the namespace's queue."""
    container = {"name": "main", "image": "train", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    spec = {
        "restartPolicy": "Never",
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "containers": [container],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {"muster.dev/queue-name": "default"}},
        "spec": {"parallelism": pods, "completions": pods, "template": {"spec": spec}},
    }
