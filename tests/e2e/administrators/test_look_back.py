"""An administrator with the ledger's DSN looks back: why a Job did not start, and what more quota would have done."""

import re
import subprocess
import sys

from tests.e2e.support.api_paths import path
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.manifests import batch_job
from tests.e2e.support.sandbox import GPU, Sandbox


def replay(sandbox: Sandbox, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "admission.cli.muster", "replay", *words]
    return sandbox.stack.run(command, check=False)


def test_a_job_that_waited_is_explained_later_and_more_quota_would_have_let_it_in(sandbox: Sandbox) -> None:
    sandbox.add_nodes(2)
    queue = sandbox.add_queue(deserved={GPU: 8}, capability={GPU: 8})
    alice = f"alice-{sandbox.name}"
    with sandbox.as_user(alice) as api:
        for name, pods in (("first", 6), ("second", 4)):
            api.create(path("batch/v1 Job", sandbox.name), batch_job(sandbox, name, pods, 1))
            if name == "first":
                sandbox.wait(lambda: len(sandbox.running("first")) == 6, "the pods of the first Job to run")

    explained: list[subprocess.CompletedProcess[str]] = []

    def is_kept() -> bool:
        words = ("--at", "now", "--explain", "job/second", "-n", sandbox.name)
        explained.append(replay(sandbox, *words))
        return explained[-1].returncode == 0

    sandbox.wait(is_kept, "a turn to be kept in which the second Job waits", seconds=60)
    (seen,) = re.findall(r"^Turn of (\S+),", explained[-1].stdout)
    finish_all(sandbox, "first")
    sandbox.wait(lambda: len(sandbox.running("second")) == 4, "the pods of the second Job to run")

    later = replay(sandbox, "--at", seen, "--explain", "second", "-n", sandbox.name)
    assert later.returncode == 0, later.stderr
    told = f"queue {queue} may use 8 {GPU}: 6 used, 4 asked, 2 too many"
    assert re.search(rf"Waits because\n  QueueLimit\n  {re.escape(told)}", later.stdout)
    assert f"- 2 {GPU} more capability in {queue}" in later.stdout

    whole = replay(sandbox, "--at", seen, "--all")
    assert whole.returncode == 0, whole.stdout + whole.stderr
    assert "Decided again: the same plan as then" in whole.stdout
    assert "Decision log: the same" in whole.stdout

    days = replay(
        sandbox, "--days", "1", "--quota", f"{queue}.gpu=16", "--quota", f"{queue}.capability.gpu=16", "--all"
    )
    assert days.returncode == 0, days.stderr
    assert f"queue {queue}: deserved {GPU} 8 → 16" in days.stdout
    assert len(re.findall(rf"^  {queue} .* 2 → 2$", days.stdout, re.MULTILINE)) == 2, days.stdout
