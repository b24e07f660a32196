"""What tests do to a local cluster and its Musters: kill, pause, restart, ask, and count the requests."""

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import click

from admission.cli.command_line import finish
from admission.cli.kubectl_muster import kubectl_muster as program
from deploy.local.cluster import LocalCluster
from deploy.local.components import ALIVE
from deploy.local.stack import Replica, Stack
from queues.errors import ApiError
from tests.waiting import LIMIT


def kill_node(cluster: LocalCluster, name: str, *, report_unready: bool = False) -> None:
    """Stop a node's heartbeat. ``report_unready``: it is also reported unready now, without the grace time."""
    with cluster.client() as api:
        api.merge(f"/api/v1/nodes/{name}", {"metadata": {"labels": {ALIVE[0]: None}}})
        if report_unready:
            condition = {
                "type": "Ready",
                "status": "Unknown",
                "reason": "NodeStatusUnknown",
                "message": "killed",
            }
            api.request(
                "PATCH",
                f"/api/v1/nodes/{name}/status",
                {"status": {"conditions": [condition]}},
                content_type="application/strategic-merge-patch+json",
            )


def revive_node(cluster: LocalCluster, name: str) -> None:
    """Restart a killed node's heartbeat; it becomes ready."""
    with cluster.client() as api:
        api.merge(f"/api/v1/nodes/{name}", {"metadata": {"labels": dict([ALIVE])}})


def kill_component(cluster: LocalCluster, component: str) -> None:
    """SIGKILL a component; it stays down until ``start_component``."""
    cluster.running.pop(component).kill9()


def pause_component(cluster: LocalCluster, component: str) -> None:
    """Make a component hang: it does not end, and its connections stay open."""
    cluster.running[component].send(signal.SIGSTOP)


def resume_component(cluster: LocalCluster, component: str) -> None:
    """Continue a paused component."""
    cluster.running[component].send(signal.SIGCONT)


def restart_api_server(cluster: LocalCluster, *, down_for: float = 0.0) -> None:
    """Crash the API server and start it again: same port, same data.

    Then each pod is changed: what KWOK was writing of one when the connection broke it writes again only after that.
    """
    kill_component(cluster, "kube-apiserver")
    time.sleep(down_for)
    cluster.start_component("kube-apiserver")
    with cluster.client() as api:
        for pod in api.get("/api/v1/pods")["items"]:
            path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
            with suppress(ApiError):  # it may have gone
                api.merge(path, {"metadata": {"annotations": {"kwok.muster.dev/crash": str(time.time())}}})


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedRequest:
    """A request as the API server's audit log has it."""

    user: str
    verb: str
    #: With its subresource, as "pods/status".
    resource: str
    namespace: str
    name: str
    #: Bytes of the object or patch that was sent, as JSON; 0: the log has none.
    size: int


def audited_requests(cluster: LocalCluster) -> list[AuditedRequest]:
    """Requests that were answered so far, from the log of ``ClusterOptions.audit``."""
    found = []
    with (cluster.directory / "log" / "audit.jsonl").open() as lines:
        for line in lines:
            if not line.endswith("\n"):
                break  # being written
            event = json.loads(line)
            what = event.get("objectRef", {})
            sent = event.get("requestObject")
            found.append(
                AuditedRequest(
                    user=event["user"]["username"],
                    verb=event["verb"],
                    resource="/".join(filter(None, (what.get("resource"), what.get("subresource")))),
                    namespace=what.get("namespace", ""),
                    name=what.get("name", ""),
                    size=len(json.dumps(sent, separators=(",", ":"))) if sent is not None else 0,
                )
            )
    return found


def leads(replica: Replica) -> bool:
    """Whether a Muster is the leader now."""
    try:
        with urllib.request.urlopen(f"{replica.http}/metrics", timeout=2) as answer:
            return b"muster_leader 1.0" in answer.read()
    except (OSError, urllib.error.URLError):
        return False


def readiness(replica: Replica) -> str:
    """The checks of a replica that is not ready; "": it is, or does not answer."""
    try:
        with urllib.request.urlopen(f"{replica.http}/readyz", timeout=5):
            return ""
    except urllib.error.HTTPError as answer:
        return answer.read().decode()
    except OSError:
        return ""


def kill_muster(replica: Replica) -> None:
    """SIGKILL a Muster: it cannot end anything in order."""
    os.kill(replica.process.pid, signal.SIGKILL)
    replica.process.wait(LIMIT)


def continue_muster(replica: Replica) -> None:
    """SIGCONT a Muster that was stopped by SIGSTOP."""
    os.kill(replica.process.pid, signal.SIGCONT)


def stop_muster(stack: Stack, replica: Replica) -> None:
    """End a Muster in order; another one may then use its webhook's port."""
    replica.process.stop()
    stack.replicas.remove(replica)


def plugin(kubeconfig: Path, *words: str | Path) -> "subprocess.CompletedProcess[str]":
    """What ``kubectl muster`` leads to. It runs in this process, for to start one takes longer than most answers."""
    line = [*map(str, words), "--kubeconfig", str(kubeconfig), *_patience(list(map(str, words)))]
    deadline = time.monotonic() + LIMIT
    while True:
        out, complaints = StringIO(), StringIO()
        with redirect_stdout(out), redirect_stderr(complaints):
            code = finish(program, "kubectl muster", line)
        # A question that a busy Muster did not get to.
        if "no answer in time" not in complaints.getvalue() or time.monotonic() > deadline:
            return subprocess.CompletedProcess(line, code, out.getvalue(), complaints.getvalue())


def _patience(words: list[str]) -> list[str]:
    """The option by which a command waits for its answer as long as a test does, if it asks Muster."""
    command: click.Command = program
    for word in words:
        if not isinstance(command, click.Group):
            break
        command = command.get_command(click.Context(command), word) or click.Command("none")
    is_asking = any(option.name == "timeout" for option in command.params)
    return ["--timeout", str(LIMIT)] if is_asking and "--timeout" not in words else []


def kubectl_muster(stack: Stack, *words: str | Path) -> str:
    """The answer of ``kubectl muster`` to the administrator."""
    done = plugin(stack.cluster.kubeconfig, *words)
    assert done.returncode == 0, done
    return done.stdout
