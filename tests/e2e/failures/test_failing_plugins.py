"""Plug-ins that fail hold their own queues; the term goes on, and corrected ones serve after the next start."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.builders.plugin_policies import NEVER
from tests.e2e.support.api_paths import condition, path
from tests.e2e.support.crash_harness import LONG_LEASE, CrashHarness
from tests.e2e.support.manifests import batch_job

ORDER = """
{imports}
import numpy

from queues.plugins.interface import OrderPolicy


class Tried(OrderPolicy):
    name = "{name}"
    terms = None
    asked = 0

    def urgency(self, workload):
        {answer}
"""
RAISES = 'raise ValueError("no such thing")'
CORRECTED = "return -workload.created"
#: By plug-in: what it answers, and what is said of it.
FAILING: Mapping[str, tuple[str, str]] = {
    "raises": (RAISES, "raised ValueError: no such thing"),
    "sleeps": (NEVER, "kept a decision from ending for 10 s"),
    "floats": ("return 0.5", "answered 0.5 (float), expected a whole number"),
    "mutates": ("workload.priority = 7", "raised FrozenInstanceError"),
    "random": ("Tried.asked += 1; return Tried.asked", "answered the same question differently"),
    "imports": (CORRECTED, "imports os, expected one of"),
}


def install(folder: Path, answers: Mapping[str, str]) -> str:
    """A package for each of these plug-ins; the PYTHONPATH of a Muster that has them."""
    for name, answer in answers.items():
        about = folder / f"{name}_order-1.0.dist-info"
        about.mkdir(parents=True)
        imports = "import os" if name == "imports" and answer == FAILING[name][0] else ""
        (folder / f"{name}_order.py").write_text(ORDER.format(name=name, answer=answer, imports=imports))
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-order\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[muster.plugins]\n{name} = {name}_order:Tried\n")
    return os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))


def test_failing_plug_ins_hold_their_own_queues_until_they_are_corrected(
    harness: CrashHarness, tmp_path: Path
) -> None:
    harness.leave()
    answers = {name: answer for name, (answer, _) in FAILING.items()}
    where = install(tmp_path / "failing", answers)
    limits = {**LONG_LEASE, "MUSTER_DECISION_LIMIT_SECONDS": "10"}
    failing = harness.start(PYTHONPATH=where, **limits)
    harness.leads(failing)
    with harness.sandbox("failing") as sandbox:
        term = harness.ledger.ask("SELECT term FROM leases")
        queues = {name: sandbox.add_queue(name, policy={"order": name}) for name in FAILING}
        for name, queue in queues.items():
            ours = batch_job(sandbox, name, 1)
            ours["metadata"]["labels"]["muster.dev/queue-name"] = queue
            sandbox.add(ours)
        sandbox.add(batch_job(sandbox, "theirs", 1))
        sandbox.wait_running("theirs-", 1)
        for name, (_, why) in FAILING.items():
            assert why in sandbox.wait_reason(name, "PluginNotUsable")
            sandbox.wait(
                lambda queue=queues[name]: (  # type: ignore[misc]
                    condition(sandbox.api.get(path("Queue", "", queue)), "PluginsUsable").get("status")
                    == "False"
                ),
                "the condition of the queue",
            )
        assert harness.ledger.ask("SELECT term FROM leases") == term
        assert failing.process.running
        turn = str(tmp_path / "turn.json")
        harness.stack.muster("snapshot", "--out", turn, "--kubeconfig", str(harness.stack.cluster.kubeconfig))
        replay = ["env", f"PYTHONPATH={where}", sys.executable, "-m", "admission.cli.muster", "replay", turn]
        assert "the same plan" in harness.stack.run(replay, True).stdout

        harness.forget(failing)
        where = install(tmp_path / "corrected", dict.fromkeys(FAILING, "return workload.created"))
        corrected = harness.start(PYTHONPATH=where, **limits)
        harness.leads(corrected)
        for name, queue in queues.items():
            sandbox.wait_running(f"{name}-", 1)
            harness.stack.kubectl(
                "patch", "queue", queue, "--type=merge", "-p", '{"spec":{"policy":{"order":null}}}'
            )
    harness.leave()
