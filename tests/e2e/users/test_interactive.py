"""Pods with a shell, as somebody at a terminal has them. A kubectl that waits stands for the shell."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.local.stack import Stack
from tests.e2e.support.people import Person
from tests.e2e.support.sandbox import GPU, Sandbox
from tests.waiting import LIMIT

Terminal = Callable[..., "subprocess.Popen[str]"]
#: Goes on until the shell's container has ended, or for one line.
WAITS = "#!/bin/sh\necho attached\nread line\n"


@pytest.fixture
def terminal(sandbox: Sandbox, tmp_path: Path) -> Iterator[Terminal]:
    """Starts ``kubectl muster run shell --interactive`` of a member of the team."""
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(WAITS)
    kubectl.chmod(0o755)
    alice = Person(sandbox, "alice", edits=(sandbox.name,))
    started: list[subprocess.Popen[str]] = []

    def start(*words: str) -> "subprocess.Popen[str]":
        called = ("run", "shell", "-i", "busybox:1.37", "--interactive", "-n", sandbox.name, *words)
        line = [sys.executable, "-m", "admission.cli.kubectl_muster", *called]
        environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "KUBECONFIG": str(alice.kubeconfig)}
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            line, env={**os.environ, **environment}, stdin=pipe, stdout=pipe, stderr=pipe, text=True
        )
        started.append(process)
        return process

    yield start
    for each in started:
        each.kill()
        each.communicate()


def attached(process: "subprocess.Popen[str]") -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "attached\n"


def test_a_pod_with_a_shell_is_admitted_and_goes_with_the_shell(sandbox: Sandbox, terminal: Terminal) -> None:
    sandbox.add_nodes(1, gpus=1)
    queue = sandbox.add_queue()
    process = terminal("-q", queue, "--gpus-per-pod", "1")
    attached(process)
    pod = sandbox.get("Pod", "shell")
    assert (pod["status"]["phase"], pod["spec"]["activeDeadlineSeconds"]) == ("Running", 7200)
    assert sandbox.held()[f"queue {queue} {GPU}"] == 1000
    process.communicate("exit\n", timeout=LIMIT)
    assert process.returncode == 0
    sandbox.wait(lambda: sandbox.find("Pod", "shell") is None, "the pod to go")
    sandbox.wait_free()


def test_a_shell_ends_when_its_time_is_over(sandbox: Sandbox, terminal: Terminal) -> None:
    sandbox.add_nodes(1, gpus=1)
    process = terminal("-q", sandbox.add_queue(), "--time", "3s")
    attached(process)
    sandbox.wait(lambda: sandbox.phase("Pod", "shell") == "Failed", "the deadline")
    _, said = process.communicate("\n", timeout=LIMIT)
    assert process.returncode == 137
    assert "pod/shell has ended: DeadlineExceeded: " in said


def test_ctrl_c_deletes_a_pod_that_waits(sandbox: Sandbox, terminal: Terminal) -> None:
    sandbox.add_nodes(1, gpus=1)
    process = terminal("-q", sandbox.add_queue(capability={GPU: 0}), "--gpus-per-pod", "1")
    sandbox.wait_reason("shell", "NeverFits")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=LIMIT)
    assert process.returncode == 130
    assert "pod/shell is deleted" in said
    sandbox.wait(lambda: sandbox.find("Pod", "shell") is None, "the pod to go")


def test_a_shell_that_nobody_is_at_any_more_is_deleted(
    sandbox: Sandbox, terminal: Terminal, whole_stack: Stack, absent_muster: Callable[[], None]
) -> None:
    sandbox.add_nodes(1, gpus=1)
    process = terminal("-q", sandbox.add_queue(), "--gpus-per-pod", "1")
    attached(process)
    process.kill()
    absent_muster()
    assert sandbox.phase("Pod", "shell") == "Running"
    impatient = ("-m", "tests.e2e.support.muster_with_little_patience")
    whole_stack.start_muster("impatient", program=impatient)
    try:
        sandbox.wait(lambda: sandbox.find("Pod", "shell") is None, "the pod to go")
        sandbox.wait_free()
    finally:
        absent_muster()
