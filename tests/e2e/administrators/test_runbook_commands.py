"""Commands of the runbooks, run by the administrator of a running product: each ends with status 0."""

import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from deploy.local.helm import helm
from deploy.local.stack import Stack
from queues.api.api_resources import DEPLOYMENTS, DEVICES
from tests.builders.node_agents.node_devices import device, device_object
from tests.cluster_faults import plugin
from tests.e2e.support.manifests import volcano_job
from tests.e2e.support.sandbox import Sandbox
from tests.runbook_commands import every_command
from tests.unit.deploy.chart_rendering import SECRET, rendered

#: Commands that are run otherwise, with what is run instead. None: they are not run here, for the reason beside them.
OTHERWISE: Final[dict[str, str | None]] = {
    # All commands of a group are meant.
    "kubectl muster": "kubectl muster --help",
    # Pods have no containers here; what is run in one is run beside it, by `muster ledger show`.
    "kubectl exec -n muster-system deploy/muster -- muster ledger show": None,
    # No metrics-server measures anything here.
    "kubectl top pod -n muster-system": "kubectl top pod -n muster-system --help",
    # There is no cert-manager here: its resources are unknown.
    "kubectl describe certificate muster -n muster-system": None,
    # What other tests of this product stand on stays: the API server decides, and deletes nothing.
    "kubectl delete secret muster-webhook -n muster-system": (
        "kubectl delete secret muster-webhook -n muster-system --dry-run=server"
    ),
    "kubectl delete validatingwebhookconfigurations,mutatingwebhookconfigurations muster": (
        "kubectl delete validatingwebhookconfigurations,mutatingwebhookconfigurations muster --dry-run=server"
    ),
    # The node is healthy: it has no taint that could be taken away.
    "kubectl taint node NODE muster.dev/gpu-fault-": None,
    # There is nobody to ask.
    "kubectl muster quota set QUEUE --capability nvidia.com/gpu=64": (
        "kubectl muster quota set QUEUE --capability nvidia.com/gpu=64 --yes"
    ),
    # No controller answers checks here: the account may not, which kubectl says by its status.
    (
        "kubectl auth can-i update checkrequests --subresource=status -A"
        " --as=system:serviceaccount:NAMESPACE:NAME"
    ): None,
    # Needs all replicas to be stopped: tests/e2e/failures/test_restore.py.
    "muster ledger adopt-cluster": "muster ledger adopt-cluster --help",
    "kubectl exec -n muster-system deploy/muster -- muster ledger verify": "muster ledger verify",
    "kubectl exec -n muster-system deploy/muster -- muster ledger repair": "muster ledger repair",
    # Neither replicas nor agents are pods here, and no victim is leaving.
    "kubectl port-forward -n muster-system POD 8080": None,
    "kubectl logs -n muster-system POD --previous": None,
    "kubectl logs -n muster-agents POD --since=15m": None,
    "kubectl logs -n muster-agents POD --previous": None,
    "kubectl describe pod -n muster-agents POD": None,
    "kubectl delete pod NAME -n NAMESPACE --grace-period=10": None,
}
#: Those that make what the others read come first, those that need it last.
ORDER: Final = ("muster install", "muster snapshot", "kubectl muster drain")


@pytest.fixture
def deployed(sandbox: Sandbox) -> Iterator[None]:
    """The Deployment of the chart, without a pod: Muster runs beside the cluster."""
    deployment = rendered(helm(), *SECRET)[DEPLOYMENTS.kind, "muster-system", "muster"]
    deployment["spec"]["replicas"] = 0
    sandbox.api.create(DEPLOYMENTS.path("muster-system"), deployment)
    yield
    sandbox.api.delete(DEPLOYMENTS.path("muster-system", "muster"))


def run(stack: Stack, command: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run a command as the administrator of the cluster and of the ledger. Raises LocalCommandFailed."""
    words = [word.replace("turn.json", str(folder / "turn.json")) for word in shlex.split(command)]
    kubeconfig = ("--kubeconfig", stack.cluster.kubeconfig)
    if words[:2] == ["kubectl", "muster"]:
        done = plugin(stack.cluster.kubeconfig, *words[2:])
        assert done.returncode == 0, done
        return done
    if words == ["muster", "install"]:
        stack.install()
        return run(stack, "muster ledger show", folder)
    if words[0] == "muster":
        needs = kubeconfig if words[1] in ("install", "snapshot") or words[1:] == ["ledger", "show"] else ()
        return stack.muster(*words[1:], *needs)
    assert words[0] == "kubectl", command
    return stack.kubectl(*words[1:])


def place(command: str) -> int:
    return next((i for i, beginning in enumerate(ORDER) if command.startswith(beginning)), len(ORDER))


def test_every_command_of_the_runbooks_does_what_its_page_says(
    sandbox: Sandbox, whole_stack: Stack, tmp_path: Path, deployed: None
) -> None:
    [node] = sandbox.add_nodes(1)
    queue = sandbox.add_queue()
    sandbox.api.create(DEVICES.path(), device_object(node, *map(device, range(8))))
    sandbox.add(volcano_job(sandbox, "waits", 1, 9))
    sandbox.wait_reason("waits", "NeverFits")
    filled_in = {
        "NODE": node,
        "QUEUE": queue,
        "NAME": "waits",
        "NAMESPACE": sandbox.name,
        "FILE": "turn.json",
    }
    run_now = {command: OTHERWISE.get(command, command) for command in every_command()}
    assert {command for command in OTHERWISE if command not in run_now} == set(), "listed, and on no page"
    failed = {}
    for command in sorted(filter(None, run_now.values()), key=place):
        ready = " ".join(filled_in.get(word, word) for word in command.split(" "))
        try:
            run(whole_stack, ready, tmp_path)
        except Exception as error:  # all that fail are told at once
            failed[ready] = str(error)
    assert not failed, "\n".join(failed.values())
    sandbox.api.delete(DEVICES.path(name=node))
