"""A plug-in that fails holds its own queue; the term goes on, and a corrected one serves after the next start."""

import os
from pathlib import Path

from tests.e2e.support.api_paths import condition, path
from tests.e2e.support.crash_harness import CrashHarness
from tests.e2e.support.manifests import batch_job

ORDER = """
from queues.plugins.interface import OrderPolicy


class Tried(OrderPolicy):
    name = "tried"
    terms = None

    def urgency(self, workload):
        {answer}
"""


def install(folder: Path, answer: str) -> str:
    """The package with this answer; the PYTHONPATH of a Muster that has it."""
    about = folder / "tried_order-1.0.dist-info"
    about.mkdir(parents=True)
    (folder / "tried_order.py").write_text(ORDER.format(answer=answer))
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tried-order\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[muster.plugins]\ntried = tried_order:Tried\n")
    return os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))


def test_a_failing_plug_in_holds_its_own_queue_until_it_is_corrected(
    harness: CrashHarness, tmp_path: Path
) -> None:
    harness.leave()
    failing = harness.start(PYTHONPATH=install(tmp_path / "failing", 'raise ValueError("no such thing")'))
    harness.leads(failing)
    with harness.sandbox("failing") as sandbox:
        queue = sandbox.add_queue("tried", policy={"order": "tried"})
        ours = batch_job(sandbox, "ours", 1)
        ours["metadata"]["labels"]["muster.dev/queue-name"] = queue
        sandbox.add(ours, batch_job(sandbox, "theirs", 1))
        sandbox.wait_running("theirs-", 1)
        said = sandbox.wait_reason("ours", "PluginNotUsable")
        assert "raised ValueError: no such thing" in said
        sandbox.wait(
            lambda: (
                condition(sandbox.api.get(path("Queue", "", queue)), "PluginsUsable").get("status") == "False"
            ),
            "the condition of the queue",
        )
        assert failing.process.running

        harness.forget(failing)
        corrected = harness.start(PYTHONPATH=install(tmp_path / "corrected", "return -workload.created"))
        harness.leads(corrected)
        sandbox.wait_running("ours-", 1)
        harness.stack.kubectl(
            "patch", "queue", queue, "--type=merge", "-p", '{"spec":{"policy":{"order":null}}}'
        )
    harness.leave()
