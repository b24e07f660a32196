"""Whoever was lent a place gives it back in a bounded time, however long its pods may take to end."""

import time
from datetime import datetime

from admission.settings import Settings
from tests.e2e.preemption.test_preemption import urgent
from tests.e2e.support.api_paths import Document
from tests.e2e.support.manifests import bare_pod, batch_job, grouped, pod_group, template_of, volcano_job
from tests.e2e.support.sandbox import Sandbox

__all__ = ["urgent"]

YEAR = 31_536_000
LONGEST = Settings.model_fields["eviction_grace_seconds"].default
#: It goes on when it is told to end, and may be evicted although no controller makes it again.
SLOW = {"kwok.muster.dev/stop-after": "3600s", "volcano.sh/preemptable": "true"}


def slow(document: Document) -> Document:
    """The pods of a workload have a year to end, and take it."""
    made = template_of(document)
    made["metadata"].setdefault("annotations", {}).update(SLOW)
    made["spec"]["terminationGracePeriodSeconds"] = YEAR
    return document


def test_evicted_pods_of_every_kind_end_in_a_bounded_time(sandbox: Sandbox, urgent: str) -> None:
    sandbox.add_nodes(1, gpus=10)
    sandbox.add_queue()
    sandbox.add(
        slow(batch_job(sandbox, "slow-batch", 1, 2)),
        slow(batch_job(sandbox, "slow-deleted", 1, 2)),
        slow(volcano_job(sandbox, "slow-volcano", 1, 2)),
        pod_group(sandbox, "slow-group", 1),
        slow(grouped(sandbox, "slow-group", "slow-member", 2)),
        slow(bare_pod(sandbox, "slow-pod", 2)),
    )
    victims = {each["metadata"]["name"]: each["metadata"]["uid"] for each in sandbox.wait_running("slow-", 5)}

    def have(grace: int, count: int) -> bool:
        """Whether so many of them are being deleted with this grace period."""
        pods = [each["metadata"] for each in sandbox.pods("slow-")]
        mine = [each for each in pods if each["uid"] in victims.values()]
        return sum(each.get("deletionGracePeriodSeconds") == grace for each in mine) == count

    sandbox.delete("batch/v1 Job", "slow-deleted")
    sandbox.wait(lambda: have(YEAR, 1), "the pod of the deleted Job to have a year to end")

    sandbox.add(volcano_job(sandbox, "urgent", 1, 10, priorityClassName=urgent))
    sandbox.wait(lambda: have(LONGEST, 5), "all to end in a bounded time")
    now = time.time()
    for name in victims:
        ends = datetime.fromisoformat(sandbox.get("Pod", name)["metadata"]["deletionTimestamp"])
        assert ends.timestamp() <= now + LONGEST + 1, name

    for name in victims:
        sandbox.merge("Pod", name, {"metadata": {"annotations": {"kwok.muster.dev/stop-after": "0s"}}})
    sandbox.wait_running("urgent-", 1)

    # While there is no room for them: those that run again would take an hour to end.
    for kind, name in (("batch/v1 Job", "slow-batch"), ("Job", "slow-volcano")):
        sandbox.delete(kind, name)

    def made_again() -> set[str]:
        pods = [each["metadata"] for each in sandbox.pods("slow-")]
        return {each["name"] for each in pods if each["uid"] not in victims.values()}

    sandbox.wait(lambda: {"slow-pod", "slow-member"} <= made_again(), "pods without a Job to be made again")
    for name in ("slow-pod", "slow-member"):
        sandbox.delete("Pod", name)
    sandbox.wait(lambda: not sandbox.pods("slow-"), "the slow pods to go")
