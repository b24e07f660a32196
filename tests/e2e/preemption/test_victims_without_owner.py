"""Pods without an owner that run and have to go: stored, deleted, made again gated, and run again later."""

from collections.abc import Callable

import pytest

from tests.e2e.preemption.test_preemption import (
    check_that_everybody_tells_who_took_the_place,
    evicted,
    urgent,
)
from tests.e2e.support.api_paths import Document, path
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.manifests import bare_pod, grouped, pod_group, volcano_job
from tests.e2e.support.sandbox import Yard

__all__ = ["urgent"]

#: What nobody makes again goes only if it says so.
MAY_GO = {"volcano.sh/preemptable": "true"}


def as_group(yard: Yard, name: str) -> list[Document]:
    members = [grouped(yard, name, f"{name}-{index}", 8) for index in range(2)]
    for each in members:
        each["metadata"]["annotations"] |= MAY_GO
    return [pod_group(yard, name, 2), *members]


def as_pods(yard: Yard, name: str) -> list[Document]:
    return [bare_pod(yard, f"{name}-{index}", 8, annotations=dict(MAY_GO)) for index in range(2)]


def workloads_of(yard: Yard, name: str, alike: object) -> list[str]:
    """Names of the workloads: one group, or each pod."""
    return [name] if alike is as_group else [f"{name}-0", f"{name}-1"]


def uids(yard: Yard, prefix: str) -> dict[str, str]:
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in yard.pods(prefix)}


def wait_made_again(yard: Yard, prefix: str, before: dict[str, str]) -> None:
    """All of them are there under their names, each another one, and wait behind the gate."""

    def again() -> bool:
        pods = {each["metadata"]["name"]: each for each in yard.pods(prefix)}
        return pods.keys() == before.keys() and all(
            each["metadata"]["uid"] != before[name]
            and each["metadata"]["annotations"]["muster.dev/recreated-from"] == before[name]
            and each["spec"]["schedulingGates"] == [{"name": "muster.dev/admission"}]
            for name, each in pods.items()
        )

    yard.wait(again, f"pods {prefix}* to be made again, gated", seconds=60)


def check_made_once(yard: Yard, names: dict[str, str]) -> None:
    """Each pod was made twice in all, and never two of a name ran at a time."""
    for name in names:
        made = [
            moment.pod["metadata"]["uid"]
            for moment in yard.history.of(yard.name)
            if moment.kind == "ADDED" and moment.name == f"{yard.name}/{name}"
        ]
        assert len(made) == 2, name
    assert yard.books.ask("SELECT * FROM recreations WHERE namespace = $1", yard.name) == []


@pytest.mark.parametrize("victims", [as_group, as_pods])
def test_running_pods_without_an_owner_go_for_a_more_urgent_gang_and_run_again(
    yard: Yard, urgent: str, victims: Callable[[Yard, str], list[Document]]
) -> None:
    yard.add_nodes(2)
    yard.add_queue()
    yard.add(*victims(yard, "calm"))
    yard.wait_running("calm-", 2)
    before = uids(yard, "calm-")

    yard.add(volcano_job(yard, "urgent", 2, 8, priorityClassName=urgent))
    yard.wait_running("urgent-", 2, seconds=60)
    wait_made_again(yard, "calm-", before)
    for name in workloads_of(yard, "calm", victims):
        assert [code for code, _ in evicted(yard, name)] == ["Preempted"]
        yard.wait_reason(name, "NoFit")
        kind = "PodGroup" if victims is as_group else "Pod"
        told = f"(Preempted) for vcjob/{yard.name}/urgent"
        check_that_everybody_tells_who_took_the_place(yard, kind, name, told)

    finish_all(yard, "urgent-")
    yard.wait_running("calm-", 2, seconds=60)
    check_made_once(yard, before)
    finish_all(yard, "calm-")
    yard.wait_free()


def test_a_group_of_pods_without_an_owner_is_got_back_by_whom_its_quota_was_lent_from(yard: Yard) -> None:
    yard.add_nodes(2)
    borrower = yard.add_queue("borrower", deserved={"nvidia.com/gpu": 8})
    lender = yard.add_queue("lender", deserved={"nvidia.com/gpu": 8})
    yard.add(*as_group(yard, "lent"))
    yard.wait_running("lent-", 2)
    before = uids(yard, "lent-")

    yard.add(volcano_job(yard, "mine", 1, 8, queue=lender))
    yard.wait_running("mine-", 1, seconds=60)
    wait_made_again(yard, "lent-", before)
    ((code, message),) = evicted(yard, "lent")
    assert code == "Reclaimed"
    assert f"queue {borrower} uses 16 nvidia.com/gpu and deserves 8" in message
    yard.wait_reason("lent", "NoFit")

    finish_all(yard, "mine-")
    yard.wait_running("lent-", 2, seconds=60)
    check_made_once(yard, before)


def test_pods_without_an_owner_that_do_not_say_so_stay(yard: Yard, urgent: str) -> None:
    yard.add_nodes(1)
    yard.add_queue()
    silent = bare_pod(yard, "silent", 8)
    yard.add(silent)
    yard.wait_running("silent", 1)
    before = uids(yard, "silent")

    yard.add(volcano_job(yard, "urgent", 1, 8, priorityClassName=urgent))
    yard.wait_reason("urgent", "NoFit")
    assert uids(yard, "silent") == before
    yard.api.merge(path("Pod", yard.name, "silent"), {"metadata": {"annotations": MAY_GO}})
    yard.wait_running("urgent-", 1, seconds=60)
    wait_made_again(yard, "silent", before)
    assert [code for code, _ in evicted(yard, "silent")] == ["Preempted"]
