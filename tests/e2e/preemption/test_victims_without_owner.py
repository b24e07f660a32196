"""Pods without an owner that run and have to go: stored, deleted, made again gated, and run again later."""

from tests.e2e.preemption.test_preemption import (
    check_that_everybody_tells_who_took_the_place,
    evicted,
    urgent,
)
from tests.e2e.support.api_paths import Document
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.manifests import grouped, pod_group, volcano_job
from tests.e2e.support.sandbox import Sandbox

__all__ = ["urgent"]

#: What nobody makes again goes only if it says so.
MAY_GO = {"volcano.sh/preemptable": "true"}


def as_group(sandbox: Sandbox, name: str) -> list[Document]:
    members = [grouped(sandbox, name, f"{name}-{index}", 8) for index in range(2)]
    for each in members:
        each["metadata"]["annotations"] |= MAY_GO
    return [pod_group(sandbox, name, 2), *members]


def uids(sandbox: Sandbox, prefix: str) -> dict[str, str]:
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in sandbox.pods(prefix)}


def wait_made_again(sandbox: Sandbox, prefix: str, before: dict[str, str]) -> None:
    """All of them are there under their names, each another one, and wait behind the gate."""

    def again() -> bool:
        pods = {each["metadata"]["name"]: each for each in sandbox.pods(prefix)}
        return pods.keys() == before.keys() and all(
            each["metadata"]["uid"] != before[name]
            and each["metadata"]["annotations"]["muster.dev/recreated-from"] == before[name]
            and each["spec"]["schedulingGates"] == [{"name": "muster.dev/admission"}]
            for name, each in pods.items()
        )

    sandbox.wait(again, f"pods {prefix}* to be made again, gated")


def check_made_once(sandbox: Sandbox, names: dict[str, str]) -> None:
    """Each pod was made twice in all, and never two of a name ran at a time."""
    for name in names:
        made = [
            moment.pod["metadata"]["uid"]
            for moment in sandbox.history.of(sandbox.name)
            if moment.kind == "ADDED" and moment.name == f"{sandbox.name}/{name}"
        ]
        assert len(made) == 2, name
    assert sandbox.ledger.ask("SELECT * FROM recreations WHERE namespace = $1", sandbox.name) == []


def test_running_pods_without_an_owner_go_for_a_more_urgent_gang_and_run_again(
    sandbox: Sandbox, urgent: str
) -> None:
    sandbox.add_nodes(2)
    sandbox.add_queue()
    sandbox.add(*as_group(sandbox, "calm"))
    sandbox.wait_running("calm-", 2)
    before = uids(sandbox, "calm-")

    sandbox.add(volcano_job(sandbox, "urgent", 2, 8, priorityClassName=urgent))
    sandbox.wait_running("urgent-", 2)
    wait_made_again(sandbox, "calm-", before)
    assert [code for code, _ in evicted(sandbox, "calm")] == ["Preempted"]
    sandbox.wait_reason("calm", "NoFit")
    told = f"(Preempted) for vcjob/{sandbox.name}/urgent"
    check_that_everybody_tells_who_took_the_place(sandbox, "PodGroup", "calm", told)

    finish_all(sandbox, "urgent-")
    sandbox.wait_running("calm-", 2)
    check_made_once(sandbox, before)
    finish_all(sandbox, "calm-")
    sandbox.wait_free()
