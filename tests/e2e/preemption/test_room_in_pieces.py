"""The nodes of a deleted gang come back one by one, and are for the first in line that they are enough for."""

from tests.e2e.support.api_paths import Document
from tests.e2e.support.manifests import volcano_job
from tests.e2e.support.sandbox import Sandbox

STOP_AFTER = "kwok.muster.dev/stop-after"


def slow(document: Document) -> Document:
    """Its pods go on for an hour when they are told to end."""
    made = document["spec"]["tasks"][0]["template"]
    made["metadata"].setdefault("annotations", {})[STOP_AFTER] = "3600s"
    made["spec"]["terminationGracePeriodSeconds"] = 3600
    return document


def test_a_gang_gets_the_nodes_of_a_deleted_one_that_end_one_by_one(sandbox: Sandbox) -> None:
    sandbox.add_nodes(2, gpus=8)
    sandbox.add_queue(deserved={"nvidia.com/gpu": "16"}, reclaimable=False)
    busy = sandbox.add_queue("busy")
    sandbox.add(slow(volcano_job(sandbox, "rack", 2, 8, queue=busy)))
    first, last = (each["metadata"]["name"] for each in sandbox.wait_running("rack-", 2))
    # Not reclaimed for: it came when the pods were ending already.
    sandbox.delete("Job", "rack")
    sandbox.wait(
        lambda: all("deletionTimestamp" in each["metadata"] for each in sandbox.pods("rack-")),
        "both pods to be told to end",
    )
    sandbox.add(volcano_job(sandbox, "gang", 2, 8))
    assert "0 of 2" in sandbox.wait_reason("gang", "NoFit")

    sandbox.merge("Pod", first, {"metadata": {"annotations": {STOP_AFTER: "0s"}}})
    sandbox.wait(lambda: len(sandbox.pods("rack-")) == 1, "one of the pods to be gone")
    sandbox.add(volcano_job(sandbox, "small", 1, 8, queue=busy))
    assert "is before it" in sandbox.wait_reason("small", "Reserved")
    assert "what is free is kept for it" in sandbox.wait_reason("gang", "NoFit")

    sandbox.merge("Pod", last, {"metadata": {"annotations": {STOP_AFTER: "0s"}}})
    sandbox.wait_running("gang-", 2)
    sandbox.wait_reason("small", "NoFit")
    sandbox.delete("Job", "gang")
    sandbox.wait_running("small-", 1)
