"""From which moment the protection of running work counts, and what its holder cannot begin anew."""

import re
from collections import Counter
from dataclasses import fields, replace
from pathlib import Path

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.preemption.protection import BUDGETS_KEEP_LENT_QUOTA
from admission.engine.snapshot import Budget, Snapshot
from queues.admissions import Admission
from queues.plan import Evict
from queues.quota.queue import Limits, Queue, QueuePolicy
from queues.resources import GPU
from queues.workload import AdmissionId, QueueName, Workload
from tests.builders.decided_work import (
    a_snapshot,
    a_workload,
    an_admission,
    gpu_node,
    gpu_pods,
    plan_of,
    seats_on,
)
from tests.tables import named_rows

HOUR = 3600
NOW = 10_000_000
OWNER, BORROWER = QueueName("owner"), QueueName("borrower")
GANG = a_workload("gang", gpu_pods(8), queue=BORROWER, minimum=7, created=NOW - 90 * HOUR)
#: Its core, and a part that joined it later.
CORE, PART = AdmissionId(1), AdmissionId(2)


def evicts(gang: Workload, **about: int) -> tuple[Evict, ...]:
    """What goes for a gang of the owner, who deserves all that the borrower does not; its own gang holds 8 GPUs."""
    return plan_of(world(gang, **about)).evicts


def world(
    gang: Workload,
    *,
    started: int,
    joined: int,
    pods: int,
    held: int = 0,
    waits: int = HOUR,
    deserved: int = 0,
    **policy: int,
) -> Snapshot:
    """Seconds are those that have passed since."""
    about = {"minimum": gang.minimum, "ready": True, "held_since": NOW - held if held else 0}
    (asked,) = gang.pod_sets
    core, part = seats_on("n " * 7, asked), seats_on("n", asked, first=7)
    admissions = (
        an_admission(CORE, gang, *core, opened_at=NOW - started, **about),
        an_admission(PART, gang, *part, opened_at=NOW - joined, **about),
    )
    asks = {"namespace": "other", "queue": OWNER, "arrival": 2, "created": NOW - waits}
    owner = a_workload("owner", gpu_pods(pods), **asks)
    queues = (
        Queue(name=BORROWER, limits=Limits(deserved={GPU: deserved * 1000}), policy=QueuePolicy(**policy)),
        Queue(name=OWNER, limits=Limits(deserved={GPU: (8 - deserved) * 1000})),
    )
    node = gpu_node("n", used=asked.takes * 8)
    holders = {gang.key: gang}
    return a_snapshot(owner, queues=queues, nodes=[node], admissions=admissions, now=NOW, holders=holders)


@named_rows(
    ("evictions", "joined", "policy"),
    {
        "never evicted, a part joined a moment ago": (0, 600, {}),
        "evicted once, a part joined within its hour of rest": (1, 50 * 60, {}),
        "evicted five times, a part joined within a day": (5, 23 * HOUR, {}),
        "minRunTime, a part joined within it": (0, 50 * 60, {"min_run_time": HOUR}),
        "users may protect nothing": (1, 50 * 60, {"max_protection": 0}),
    },
)
def test_a_part_that_joins_does_not_begin_the_time_of_its_gang_anew(
    evictions: int, joined: int, policy: dict[str, int]
) -> None:
    gang = replace(GANG, evictions=evictions, waiting_since=NOW - 80 * HOUR if evictions else 0)
    found = evicts(gang, started=72 * HOUR, joined=joined, pods=4, **policy)
    assert {each.admission for each in found} == {CORE, PART}


def test_a_member_that_replaces_another_does_not_begin_it_anew_either() -> None:
    """All that it holds was opened within the rest; it holds seats without a break for longer."""
    gang = replace(GANG, evictions=5, waiting_since=NOW - 80 * HOUR)
    assert not evicts(gang, started=10 * HOUR, joined=HOUR, pods=4, waits=600)
    assert evicts(gang, started=10 * HOUR, joined=HOUR, held=72 * HOUR, pods=4, waits=600)


def test_a_part_on_lent_quota_goes_whatever_protects_its_gang() -> None:
    gang = replace(GANG, evictions=3, waiting_since=NOW - 2 * HOUR)
    (part,) = evicts(gang, started=HOUR, joined=60, pods=1)
    assert part.admission == PART
    assert part.elastic


def test_what_starts_while_an_owner_waits_keeps_nothing_from_it_by_min_run_time() -> None:
    assert not evicts(GANG, started=600, joined=600, pods=4, waits=500, min_run_time=HOUR)
    assert evicts(GANG, started=600, joined=600, pods=4, waits=HOUR, min_run_time=HOUR)


def test_what_starts_while_an_owner_waits_rests_from_its_last_eviction_on() -> None:
    for evicted, goes in ((50 * 60, False), (70 * 60, True)):
        gang = replace(GANG, evictions=1, waiting_since=NOW - evicted)
        assert bool(evicts(gang, started=600, joined=600, pods=4, waits=2 * HOUR)) is goes


def with_budget(snapshot: Snapshot) -> Snapshot:
    """A budget that allows no disruption covers all pods."""
    pods = Counter(key for each in snapshot.admissions.values() for key in [each.workload] * len(each.seats))
    return replace(snapshot, budgets=(Budget(namespace="team", name="keep", allowed=0, pods=pods),))


def under_budget(snapshot: Snapshot) -> tuple[Evict, ...]:
    return plan_of(with_budget(snapshot)).evicts


@named_rows(
    ("started", "policy", "goes"),
    {
        "four hours are not over": (BUDGETS_KEEP_LENT_QUOTA - 1, {}, False),
        "four hours are over": (BUDGETS_KEEP_LENT_QUOTA, {}, True),
        "maxProtection is over": (2 * HOUR, {"max_protection": HOUR}, True),
        "maxProtection is longer": (5 * HOUR, {"max_protection": 6 * HOUR}, False),
    },
)
def test_a_budget_keeps_lent_quota_for_a_time(started: int, policy: dict[str, int], goes: bool) -> None:
    found = under_budget(world(GANG, started=started, joined=60, pods=4, **policy))
    assert {each.admission for each in found} == ({CORE, PART} if goes else set())
    assert all("PodDisruptionBudget keep keeps lent quota no longer" in each.message for each in found)


def test_a_budget_keeps_what_the_queue_deserves_without_end() -> None:
    gang = replace(GANG, minimum=4)
    snapshot = world(gang, started=72 * HOUR, joined=72 * HOUR, pods=1, deserved=7)
    single = a_workload("later", *gang.pod_sets, queue=BORROWER, minimum=1, created=gang.created)
    lent = replace(snapshot.admissions[PART], workload=single.key, name="later")
    snapshot = replace(
        snapshot,
        admissions={**snapshot.admissions, PART: lent},
        holders={gang.key: gang, single.key: single},
    )
    found = under_budget(snapshot)
    assert [each.admission for each in found] == [PART], "the oldest fits into what the queue deserves"


def test_a_budget_has_no_end_inside_its_queue() -> None:
    snapshot = world(GANG, started=72 * HOUR, joined=72 * HOUR, pods=4)
    (owner,) = snapshot.pending.values()
    own = replace(snapshot, pending={owner.key: replace(owner, queue=BORROWER, priority=5)})
    assert plan_of(own).evicts
    assert not under_budget(own)


def test_the_end_of_what_a_budget_keeps_is_known() -> None:
    snapshot = world(GANG, started=HOUR, joined=HOUR, pods=4, waits=2 * HOUR)
    _, memo = decide(with_budget(snapshot), Memo())
    assert memo.until == NOW - HOUR + BUDGETS_KEEP_LENT_QUOTA


# ── the list ────────────────────────────────────────────────────────────────────────────────────────────────

#: Times that protect nothing and keep nothing.
NO_GRANTS = frozenset(("usage_half_life",))
PAGE = Path(__file__).parents[5] / "docs" / "explanation" / "preemption.md"
#: By the beginning of a line of the page: the fields of ``QueuePolicy``, ``Workload`` and ``Admission`` (durations and
#: times) that the right follows from.
GRANTS = {
    "rest after an eviction": ("held_since",),
    "`policy.minRunTime`": ("min_run_time",),
    "what a user wishes": ("min_run_time", "cooldown", "max_protection"),
    "a PodDisruptionBudget": ("max_protection",),
    "what a gang was lent": ("clear_after", "waiting_since", "max_protection"),
    "clearing, and the place": ("clear_after", "created", "waiting_since"),
    "a claim on the place": (),
    "quota that is held": (),
    "a run time that lets work pass": ("run_time",),
    "lost work that is counted": ("checkpoint_interval",),
    "`access.maxRunTime`": ("held_since",),
    "the time that a gang may be below": ("ready_within",),
    "a reservation of nodes": (),
}


def test_every_time_of_policies_workloads_and_admissions_is_in_the_list() -> None:
    times = {
        each.name
        for owner in (QueuePolicy, Workload, Admission)
        for each in fields(owner)
        if re.search(
            r"(_time|_after|_within|_life|_interval|_since|_protection|cooldown|created)$", each.name
        )
    }
    assert times - NO_GRANTS == {name for names in GRANTS.values() for name in names}


def test_the_page_says_of_each_when_it_begins_whether_it_can_be_renewed_and_when_it_ends() -> None:
    _, _, table = PAGE.read_text().partition(
        "| what | counts from | can its holder begin it again? | it ends |\n"
    )
    rows = [line.strip("| ").split(" | ") for line in table.partition("\n\n")[0].splitlines()[1:]]
    assert all(len(row) == 4 and all(row) for row in rows)
    assert [grant for row in rows for grant in GRANTS if row[0].startswith(grant)] == [*GRANTS]
    assert len(rows) == len(GRANTS)
