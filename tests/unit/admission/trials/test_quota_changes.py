"""Other quota: what it makes of a cluster of two racks with two nodes of eight GPUs each."""

from dataclasses import replace
from typing import Any

import pytest

from admission.trials.quota_changes import (
    NoQueueToChange,
    RefusedChange,
    UnusableChange,
    with_quota,
)
from queues.quota.budgets import HoursBudget, HoursUsed
from queues.quota.queue import Limits
from queues.read_api.trials import ComparisonBody, QueuePatchBody
from tests.builders import facts
from tests.builders.trials.worlds_in_memory import (
    GPU,
    WorldInMemory,
    batch_job,
    compared_with,
    stored,
    two_racks,
    wanted_quota,
)


@pytest.fixture
def cluster() -> WorldInMemory:
    return two_racks()


def submit(cluster: WorldInMemory, name: str, pods: int, queue: str = "team") -> None:
    cluster.store(stored(batch_job(name, pods, queue=queue, gpu=8), f"{name}-uid"))
    cluster.settle()


def patch(queue: str, **spec: Any) -> QueuePatchBody:
    return QueuePatchBody(queue=queue, spec=spec)


def told(found: ComparisonBody) -> dict[str, str]:
    return {str(each.name): each.what for each in found.workloads}


def test_more_quota_lets_in_who_waits_for_it(cluster: WorldInMemory) -> None:
    submit(cluster, "a", 3)
    submit(cluster, "b", 1)

    found = compared_with(cluster, "team.capability.gpu=32")

    assert told(found) == {"b": "starts"}
    assert found.changes == (f"queue team: capability {GPU} 24 → 32",)
    assert found.at_rest


def test_a_budget_with_hours_left_lets_in_who_waits_for_it(cluster: WorldInMemory) -> None:
    (team,) = (fact for name, fact in cluster.world.queues.items() if name == "team")
    cluster.see(replace(team, queue=replace(team.queue, budget=HoursBudget(hours={GPU: 1000}, holds=True))))
    month = cluster.world.budgets.unread(cluster.now)
    assert month is not None
    used = {team.queue.name: {GPU: HoursUsed(3_600_000, 0, cluster.now)}}
    cluster.world.budgets.begin(month, used, {}, cluster.now)
    submit(cluster, "a", 1)

    def becomes(hours: str) -> tuple[tuple[str, ...], dict[str, str]]:
        budget = {"hours": {GPU: hours}, "whenSpent": "hold"}
        found = compared_with(cluster, quota_patches=(patch("team", budget=budget),))
        return found.changes, told(found)

    was = f"queue team: budget 1 hours of {GPU} (hold)"
    assert becomes("2") == ((f"{was} → 2 hours of {GPU} (hold)",), {"a": "starts"})
    assert becomes("0.5") == ((f"{was} → 0.5 hours of {GPU} (hold)",), {})


def test_limits_of_one_queue_are_changed_together(cluster: WorldInMemory) -> None:
    notes = compared_with(cluster, "team.gpu=28", "team.capability.gpu=28").changes
    assert notes == (f"queue team: deserved {GPU} 16 → 28", f"queue team: capability {GPU} 24 → 28")


@pytest.mark.parametrize("text", [f"team.{GPU}=8", "team.gpu=8", "team.deserved.gpu=8", f"team.{GPU}=8000m"])
def test_a_limit_is_named_in_several_ways(cluster: WorldInMemory, text: str) -> None:
    assert compared_with(cluster, text).changes == (f"queue team: deserved {GPU} 16 → 8",)


@pytest.mark.parametrize("text", ["team.capability.gpu=", "team.capability.gpu=-", "team.capability.gpu-"])
def test_a_limit_is_removed(cluster: WorldInMemory, text: str) -> None:
    assert compared_with(cluster, text).changes == (f"queue team: capability {GPU} 24 → unset",)


def test_limits_of_a_new_flavor_are_stated(cluster: WorldInMemory) -> None:
    notes = compared_with(cluster, "team.gpu=4", flavor="h100").changes
    assert notes == (f"queue team: deserved {GPU} of flavor h100 unset → 4",)


def test_what_is_stated_again_changes_nothing(cluster: WorldInMemory) -> None:
    found = compared_with(cluster, "team.gpu=16")
    assert (found.workloads, found.changes) == ((), ("queue team: it has these limits already",))


def test_a_loan_is_a_write_of_the_queue_that_lends(cluster: WorldInMemory) -> None:
    cluster.see(facts.queue("other", limits=Limits(deserved={GPU: 8_000}, capability={GPU: 8_000})))
    submit(cluster, "a", 1, queue="other")
    submit(cluster, "b", 1, queue="other")
    loan = {"to": "other", "resources": {GPU: "8"}, "until": "2027-01-16T08:00:00Z"}

    found = compared_with(cluster, quota_patches=(patch("team", loans=[loan]),))

    assert told(found) == {"b": "starts"}
    assert found.changes == (
        f"queue team: deserved {GPU} 16 → 8",
        f"queue other: deserved {GPU} 8 → 16",
        f"queue other: capability {GPU} 8 → 16",
    )


@pytest.mark.parametrize(
    ("to", "amount", "why"),
    [
        ("other", "17", f"queue team has 16 {GPU} to lend: what it deserves without its guarantee"),
        ("default", "1", f"queue default states no deserved {GPU}"),
        ("below", "1", "one is above the other"),
    ],
)
def test_a_loan_that_would_not_count_in_full_is_refused(
    cluster: WorldInMemory, to: str, amount: str, why: str
) -> None:
    limits = Limits(deserved={GPU: 8_000})
    cluster.see(facts.queue("other", limits=limits), facts.queue("below", parent="team", limits=limits))
    loan = {"to": to, "resources": {GPU: amount}, "until": "2027-01-16T08:00:00Z"}
    with pytest.raises(RefusedChange, match="would not count in full") as error:
        compared_with(cluster, quota_patches=(patch("team", loans=[loan]),))
    assert why in str(error.value)


def test_writes_follow_one_another(cluster: WorldInMemory) -> None:
    cluster.see(facts.queue("other", limits=Limits(deserved={GPU: 16_000})))
    lower = patch("team", deserved={GPU: "8"})
    raising = patch("other", deserved={GPU: "24"})
    notes = compared_with(cluster, quota_patches=(lower, raising)).changes
    assert notes == (f"queue team: deserved {GPU} 16 → 8", f"queue other: deserved {GPU} 16 → 24")


def test_a_resource_that_no_node_has_is_worth_a_warning(cluster: WorldInMemory) -> None:
    found = with_quota(cluster.snapshot, wanted_quota("team.amd.com/gpu=8"), cluster.view().queue_facts())
    assert found.warnings == ("no usable node has amd.com/gpu now.",)


def test_less_quota_of_who_uses_it_evicts_them_for_who_waits(cluster: WorldInMemory) -> None:
    cluster.see(facts.queue("other", limits=Limits(deserved={GPU: 32_000})))
    submit(cluster, "borrower", 3, queue="other")
    submit(cluster, "waits", 2)

    found = compared_with(cluster, "other.gpu=8")

    assert told(found) == {"borrower": "stops", "waits": "starts"}
    (stops,) = (each for each in found.workloads if each.name == "borrower")
    assert stops.reason is not None
    assert stops.beneficiary is not None
    assert stops.beneficiary.endswith("/waits")


def test_objects_are_tried_in_the_changed_cluster(cluster: WorldInMemory) -> None:
    document = batch_job("a", 4, queue="team", gpu=8)
    (item,) = cluster.tried(document).items.values()
    assert item.state == "waits"
    changes = wanted_quota("team.capability.gpu=32")
    (item,) = cluster.tried(document, changes=changes).items.values()
    assert item.state == "admitted"


def test_nothing_of_the_cluster_is_changed(cluster: WorldInMemory) -> None:
    submit(cluster, "a", 3)
    submit(cluster, "b", 1)
    compared_with(cluster, "team.gpu=24")
    assert not cluster.turn().changes_ledger()


@pytest.mark.parametrize(
    ("limits", "patches", "told"),
    [
        (("team",), (), "--quota: found 'team', expected QUEUE.[LIMIT.]RESOURCE=AMOUNT"),
        (("team=8",), (), "--quota: found 'team=8', expected QUEUE.[LIMIT.]RESOURCE=AMOUNT"),
        (("team.gpu=+8",), (), "--quota: found 'team.gpu=+8', expected QUEUE.[LIMIT.]RESOURCE"),
        (("nowhere.gpu=1",), (), "There is no queue nowhere."),
        (("no.where.guarantee.gpu=1",), (), "There is no queue no.where."),
        (("team.gp=1",), (), "--quota: found resource 'gp', expected gpu, cpu, memory"),
        (("team.gpu=many",), (), "Change of queue team: spec.deserved[nvidia.com/gpu]: found 'many'"),
        (("team.gpu=-1",), (), "expected an amount of at least 0"),
        (("team.gpu=0.5",), (), "expected a whole number"),
        (("team.=1",), (), "--quota: found 'team.=1', expected QUEUE.[LIMIT.]RESOURCE=AMOUNT"),
        (("root.gpu=1",), (), "Queue root has what the usable nodes can allocate"),
        (("team.gpu=28",), (), "found 28, expected at most the capability of 24."),
        ((), (patch("team", weight=5),), "found 'weight', expected budget, capability, deserved"),
        ((), (patch("nowhere"),), "There is no queue nowhere."),
    ],
)
def test_what_cannot_be_changed_is_told_in_one_line(
    cluster: WorldInMemory, limits: tuple[str, ...], patches: tuple[QueuePatchBody, ...], told: str
) -> None:
    asked = wanted_quota(*limits, quota_patches=patches)
    with pytest.raises((UnusableChange, RefusedChange, NoQueueToChange)) as error:
        with_quota(cluster.snapshot, asked, cluster.view().queue_facts())
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_queues_may_have_dots_in_their_names(cluster: WorldInMemory) -> None:
    cluster.see(facts.queue("team.blue", limits=Limits(deserved={GPU: 1000})))
    cluster.turn()
    notes = compared_with(cluster, f"team.blue.{GPU}=2").changes
    assert notes == (f"queue team.blue: deserved {GPU} 1 → 2",)
    notes = compared_with(cluster, "team.blue.deserved.gpu=").changes
    assert notes == (f"queue team.blue: deserved {GPU} 1 → unset",)
