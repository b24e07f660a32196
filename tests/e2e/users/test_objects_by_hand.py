"""Jobs that people make, stop and remove with kubectl muster."""

import subprocess
import sys
from pathlib import Path

from tests.e2e.support.api_paths import path
from tests.e2e.support.sandbox import Sandbox


def muster(sandbox: Sandbox, *words: str, user: Path | None = None) -> "subprocess.CompletedProcess[str]":
    plugin = Path(sys.executable).parent / "kubectl-muster"
    config = user or sandbox.stack.cluster.kubeconfig
    return sandbox.stack.run([plugin, *words, "--kubeconfig", config], check=False)


def test_a_member_of_a_team_runs_suspends_resumes_and_deletes_a_job(sandbox: Sandbox) -> None:
    sandbox.add_nodes(1)
    queue = sandbox.add_queue()
    user, here = sandbox.somebody("alice"), ("-n", sandbox.name)
    # The nodes of other tests are no place for it: it asks for what they do not have.
    for node in sandbox.nodes:
        status = {
            "status": {"allocatable": {"example.com/cards": "4"}, "capacity": {"example.com/cards": "4"}}
        }
        sandbox.api.merge(path("Node", "", node) + "/status", status)
    asked = ("-i", "train:1", "-r", "2", "-L", "example.com/cards=2,cpu=1", "-q", queue)
    made = muster(sandbox, "job", "run", "train", *asked, *here, user=user)
    assert made.stdout.startswith("job train created; `kubectl muster explain train -n "), made.stderr
    sandbox.wait_running("train-", 2)
    assert " running " in muster(sandbox, "jobs", "--state", "running", *here, user=user).stdout

    assert (
        muster(sandbox, "job", "suspend", "train", *here, user=user).stdout
        == "job train is being suspended\n"
    )
    sandbox.wait_phase("Job", "train", "Aborted")

    def listed() -> str:
        return muster(sandbox, "jobs", "--state", "suspended", *here, user=user).stdout

    sandbox.wait(lambda: " suspended " in listed(), "the Job to be listed as suspended")
    assert (
        muster(sandbox, "job", "resume", "train", *here, user=user).stdout == "job train is being resumed\n"
    )
    sandbox.wait_running("train-", 2)
    assert muster(sandbox, "job", "delete", "train", *here, user=user).stdout == "job train deleted\n"
    sandbox.wait_free()

    again = muster(sandbox, "job", "suspend", "train", *here, user=user)
    assert (again.returncode, again.stdout) == (1, "")
    assert 'Suspending job train: jobs.batch.volcano.sh "train" not found' in again.stderr
    forbidden = muster(sandbox, "queue", "close", queue, user=user)
    assert forbidden.returncode == 1
    assert forbidden.stderr.startswith(f"Error: Reading queue {queue}: ")
    assert "you (alice) may not get queues.scheduling.volcano.sh" in forbidden.stderr
    wrong = muster(sandbox, "job", "run", "x", "-i", "y", "-L", "cpu", *here)
    assert wrong.returncode == 2
    assert "found 'cpu', expected NAME=AMOUNT" in wrong.stderr
