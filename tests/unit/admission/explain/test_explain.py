"""What people are told about a workload that waits: place, what it waits behind, and what would let it in."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, combinations
from typing import Any

import pytest
from hypothesis import given

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.levels import HOST
from admission.engine.nodes.table import NodeTable
from admission.engine.placement.need import size_of_pod
from admission.engine.snapshot import Snapshot
from admission.explain.explain import Explained, explain
from admission.explain.suggestions import SuggestionKind, _victim_count, _victims_text
from admission.explain.what_if import WhatIf, WhatIfOutcome
from admission.web.leader.outlook import KnownBesides, outlooks
from queues import kind_names
from queues.admissions import AdmissionState, Seat
from queues.plan import Evict, Reason
from queues.quota.budgets import BudgetUse, HoursBudget, HoursUsed, Period, SpentBudget
from queues.quota.queue import Limits, Queue, QueuePolicy
from queues.reason_codes import ReasonCode
from queues.resources import GPU, Resources
from queues.text_format import duration, rfc3339
from queues.workload import (
    AdmissionId,
    NearRule,
    NodeFilter,
    NodeName,
    Obstacle,
    PlacementRules,
    PodSelection,
    PodSet,
    QueueName,
    Requirement,
    Workload,
    WorkloadKey,
)
from tests.builders.decided_work import a_node, a_workload, an_admission
from tests.laws.worlds.settings import in_worlds
from tests.laws.worlds.snapshots import snapshots
from tests.tables import with_rows

NOW = 1_000_000
Running = tuple[Workload, list[str]]


def queue(name: str, deserved: int, capability: int | None = None, **more: Any) -> Queue:
    limits = Limits(
        deserved={GPU: deserved * 1000}, capability={} if capability is None else {GPU: capability * 1000}
    )
    return Queue(name=QueueName(name), limits=limits, **more)


def job(name: str, queue: str, count: int = 1, gpus: int = 8, **more: Any) -> Workload:
    """A gang of so many pods that came ten minutes ago."""
    pods = PodSet(
        name="worker",
        count=count,
        takes=Resources({GPU: gpus * 1000, "pods": 1}),
        required_topology=more.pop("rack", None) and "rack",
    )
    return a_workload(
        name,
        pods,
        namespace="ml",
        queue=queue,
        arrival=more.pop("arrival", 1),
        minimum=count,
        created=NOW - 600,
        **more,
    )


def world(queues: list[Queue], running: list[Running], waiting: list[Workload]) -> Snapshot:
    """Four nodes of 8 GPUs in racks r0 and r1; what runs started half an hour ago."""
    admissions, used = {}, dict[str, Resources]()
    for number, (workload, places) in enumerate(running, start=1):
        takes = workload.pod_sets[0].takes
        admissions[AdmissionId(number)] = an_admission(
            number,
            workload,
            *tuple(
                Seat(pod_set="worker", ordinal=ordinal, node=NodeName(node), takes=takes)
                for ordinal, node in enumerate(places)
            ),
            namespace="ml",
            opened_at=NOW - 1800,
        )
        for node in places:
            used[node] = used.get(node, Resources()) + takes
    nodes = [
        a_node(
            f"n{number}",
            {GPU: 8000, "pods": 110},
            labels={"rack": f"r{number // 2}"},
            used=used.get(f"n{number}", Resources()),
        )
        for number in range(4)
    ]
    return Snapshot(
        now=NOW,
        queues={each.name: each for each in queues},
        nodes=NodeTable.build(nodes, [["rack"]]),
        pending={each.key: each for each in waiting},
        admissions=admissions,
        holders={each.key: each for each, _ in running},
    )


def explained(snapshot: Snapshot, name: str = "it") -> Explained:
    plan, _ = decide(snapshot, Memo())
    classes = {"low": 1, "same": 2, "mid": 20, "high": 100}
    found = explain(snapshot, plan, WorkloadKey(kind_names.JOB, name), classes)
    assert found is not None
    return found


def told(snapshot: Snapshot, name: str = "it") -> dict[str, str]:
    return {change.kind: change.message for change in explained(snapshot, name).changes}


def full(*, of: str = "b", **more: Any) -> list[Running]:
    return [(job(f"x{number}", of, **more), [f"n{number}"]) for number in range(4)]


def test_who_runs_and_declared_a_run_time_is_told_with_the_time_that_is_left() -> None:
    running = full(run_time=5400)
    running[0] = (replace(running[0][0], run_time=None), ["n0"])

    assert told(world([queue("a", 0), queue("b", 32)], running, [job("it", "a")])) == {
        SuggestionKind.END: "when job/ml/x1 ends, at most 60m"
    }


def elastic() -> list[Running]:
    """A gang of four pods that needs two: its minimum and two elastic parts."""
    gang = replace(job("el", "a", count=4), minimum=2)
    return [(gang, ["n0", "n1"]), (gang, ["n2"]), (gang, ["n3"])]


def test_a_gang_of_which_only_parts_end_is_told_as_one_workload() -> None:
    snapshot = world([queue("a", 32)], elastic(), [job("it", "a")])

    assert told(snapshot)[SuggestionKind.END] == "when pods above the minimum of job/ml/el end"


def test_the_minimum_of_a_gang_does_not_end_without_its_parts() -> None:
    snapshot = world([queue("a", 32)], elastic(), [job("it", "a", count=2, rack=True)])

    # One admission has all of rack r0, but it would take the two in rack r1 with it.
    assert told(snapshot)[SuggestionKind.END] == "rack r1 when pods above the minimum of job/ml/el end"


def test_a_gang_that_ends_with_its_parts_is_told_as_one_workload() -> None:
    snapshot = world([queue("a", 32)], elastic(), [job("it", "a", count=4)])

    assert told(snapshot)[SuggestionKind.END] == "when job/ml/el ends"


@with_rows("elastic_parts", "text")
def test_victims_are_counted_by_workload(elastic_parts: tuple[bool, ...], text: str) -> None:
    it = job("it", "a", count=3)
    what_if, _ = WhatIf.of(world([queue("a", 32)], elastic(), [it]), it)
    victims = tuple(
        Evict(admission=AdmissionId(number), code=ReasonCode.PREEMPTED, message="", elastic=elastic_part)
        for number, elastic_part in enumerate(elastic_parts, 2)
    )
    outcome = WhatIfOutcome(admit=None, reason=None, victims=victims)

    assert _victims_text(what_if, outcome) == text
    assert _victim_count(what_if, outcome) == 1


def test_who_needs_one_island_is_told_if_it_would_fit_without() -> None:
    it = job("it", "a", gpus=4)
    linked = replace(it, pod_sets=(replace(it.pod_sets[0], in_one_island=True),))
    found = told(world([queue("a", 32)], [], [linked]))
    assert found[SuggestionKind.WORKLOAD] == "muster.dev/nvlink preferred instead of required"


def test_a_rack_is_told_with_the_fewest_who_have_to_end_for_it() -> None:
    running = [full()[0], (job("y", "b", count=2, gpus=4), ["n1", "n1"]), *full()[2:]]
    running[2] = (job("z", "b", count=2), ["n2", "n3"])
    snapshot = world([queue("a", 0), queue("b", 32)], running[:3], [job("it", "a", count=2, rack=True)])

    assert told(snapshot)[SuggestionKind.END] == "rack r1 when job/ml/z ends"


def test_a_gang_that_will_have_starved_is_told_when_its_place_is_cleared() -> None:
    running = [full()[0], full()[2]]
    snapshot = world([queue("a", 16), queue("b", 16)], running, [job("it", "a", count=2, rack=True)])

    changes = told(snapshot)

    assert changes[SuggestionKind.TIME] == "in 20m it will have waited 30m: then 1 of b is evicted for it"
    assert next(iter(changes)) == SuggestionKind.TIME, "what takes care of itself comes first"
    assert changes[SuggestionKind.END] == "rack r0 when job/ml/x0 ends"


def test_more_deserved_is_told_with_who_would_go() -> None:
    running = [(job("own", "a"), ["n0"]), *full()[1:]]
    snapshot = world([queue("a", 8), queue("b", 16)], running, [job("it", "a")])

    assert told(snapshot)[SuggestionKind.DESERVED] == f"8 {GPU} more deserved in a: 1 of b is evicted for it"


def test_a_limit_is_told_with_what_it_lacks() -> None:
    snapshot = world(
        [queue("a", 8, 8), queue("b", 24)], [(job("own", "a"), ["n0"])], [job("it", "a", gpus=4)]
    )

    changes = told(snapshot)

    assert changes[SuggestionKind.CAPABILITY] == f"4 {GPU} more capability in a"
    assert changes[SuggestionKind.END] == "when job/ml/own ends"


def test_the_lowest_priority_that_would_do_is_told() -> None:
    running = [(job(f"y{n}", "a", priority=10 + n), [f"n{n}"]) for n in range(4)]

    changes = told(world([queue("a", 32)], running, [job("it", "a", priority=5)]))

    assert (
        changes[SuggestionKind.PRIORITY]
        == "priority class mid (20 instead of 5): 1 of its own queue is evicted for it"
    )


def test_without_a_higher_class_no_priority_is_advised() -> None:
    running = [(job(f"y{n}", "a", priority=200), [f"n{n}"]) for n in range(4)]

    assert SuggestionKind.PRIORITY not in told(
        world([queue("a", 32)], running, [job("it", "a", priority=100)])
    )


def test_a_class_that_never_preempts_is_told_with_who_would_go_without_it() -> None:
    running = [(job(f"y{n}", "a", priority=1), [f"n{n}"]) for n in range(4)]

    changes = told(world([queue("a", 32)], running, [job("it", "a", priority=5, preempts=False)]))

    assert changes[SuggestionKind.PRIORITY] == (
        "a priority class without preemptionPolicy: Never: 1 of its own queue is evicted for it"
    )


@pytest.mark.parametrize(
    ("limits", "field"),
    [({"max_pending": 1}, "access.maxPending"), ({"max_pending_per_user": 1}, "access.maxPendingPerUser")],
)
def test_the_limit_of_pending_workloads_that_stopped_it_is_named(limits: dict[str, int], field: str) -> None:
    waiting = [job("first", "a", user="ann", arrival=1), job("it", "a", user="ann", arrival=2)]

    assert told(world([queue("a", 8, **limits)], [], waiting)) == {
        SuggestionKind.QUEUE: f"fewer workloads that came earlier, or {field} above 1 in a"
    }


def test_a_user_at_the_limit_is_told_what_has_to_end_or_which_limit_to_raise() -> None:
    running = [(job("own", "a", gpus=2, user="ann"), ["n0"])]
    limited = queue("a", 8, max_per_user={"nvidia.com/gpu": 3000})

    assert told(world([limited], running, [job("it", "a", gpus=2, user="ann")])) == {
        SuggestionKind.QUEUE: "1 nvidia.com/gpu less in use by ann in queue a, "
        "or access.maxPerUser 4 nvidia.com/gpu instead of 3 in queue a"
    }


def test_a_limit_of_users_that_is_not_the_only_one_is_told_with_the_next() -> None:
    running = [(job("own", "a", gpus=2, user="ann"), ["n0"])]
    limited = queue("a", 3, max_per_user={"nvidia.com/gpu": 3000}, capability=3)

    (message,) = told(world([limited], running, [job("it", "a", gpus=2, user="ann")])).values()
    assert (
        "access.maxPerUser 4 nvidia.com/gpu instead of 3 in queue a, among others: then it waits still ("
        in message
    )
    assert message.endswith(")")
    assert "QueueLimit, queue a may use 3" in message


def test_pods_that_no_node_could_ever_hold_are_told() -> None:
    changes = told(world([queue("a", 16)], [], [job("it", "a", gpus=16)]))

    assert list(changes) == [SuggestionKind.NODES]
    assert "even empty" in changes[SuggestionKind.NODES]


def test_those_before_it_are_told_as_those_that_can_be_tried_where_others_wait_too() -> None:
    waiting = [
        job("later", "a", arrival=0, not_before=NOW + 90),
        job("first", "a", count=4, arrival=1),
        job("it", "a", arrival=2),
    ]
    found = explained(world([queue("a", 16, order="strict-fifo"), queue("b", 16)], full()[:1], waiting))

    assert found.behind == "1 before it in queue a that can be tried now, right before it job/ml/first"


def test_one_who_waits_for_his_turn_is_told_so() -> None:
    waiting = [job("first", "a", count=4, arrival=1), job("it", "a", arrival=2)]
    snapshot = world([queue("a", 16, order="strict-fifo"), queue("b", 16)], full()[:1], waiting)

    found = explained(snapshot)

    assert (found.position, found.queue_length) == (2, 2)
    assert found.behind == "1 before it in queue a, right before it job/ml/first"
    assert [change.kind for change in found.changes] == [SuggestionKind.TURN]


@pytest.mark.parametrize(
    ("workload", "queue_", "kind", "message"),
    [
        (
            job("it", "a", not_before=NOW + 90),
            queue("a", 8),
            SuggestionKind.TIME,
            "in 90s it is tried again",
        ),
        (
            job("it", "a"),
            queue("a", 8, paused=True),
            SuggestionKind.QUEUE,
            "queue a resumed (kubectl muster queue resume a)",
        ),
        (
            job("it", "a"),
            queue("a", 8, paused=True, closed=True),
            SuggestionKind.QUEUE,
            "queue a opened again (kubectl muster queue open a) and "
            "queue a resumed (kubectl muster queue resume a)",
        ),
        (
            job("it", "a"),
            queue("a", 8, closed=True),
            SuggestionKind.QUEUE,
            "queue a opened again (kubectl muster queue open a)",
        ),
        (
            job("it", "a"),
            queue("a", 8, namespace_selector=(Requirement("team", "In", ("a",)),)),
            SuggestionKind.QUEUE,
            "another queue, or labels of namespace ml that queue a asks for: team=a",
        ),
        (
            job("it", "a"),
            queue(
                "a",
                8,
                budget=HoursBudget(hours={GPU: 1}),
                spent=SpentBudget(resource=GPU, ends_on="2026-12-01"),
            ),
            SuggestionKind.QUEUE,
            "a larger spec.budget.hours of queue a, another queue, or 2026-12-01, with a new budget",
        ),
        (job("it", "none"), queue("a", 8), SuggestionKind.QUEUE, "another queue: there is none named none"),
        (
            job("it", "root"),
            queue("a", 8),
            SuggestionKind.QUEUE,
            "a queue below root, such as a",
        ),
        (
            job("it", "a", count=3, gpus=1),
            queue("a", 8, max_gang=2),
            SuggestionKind.QUEUE,
            "access.maxGang 3 instead of 2 in queue a",
        ),
        (
            job("it", "a", count=1, gpus=3, user="ann"),
            queue("a", 8, max_per_user={"nvidia.com/gpu": 2000}),
            SuggestionKind.QUEUE,
            "access.maxPerUser 3 nvidia.com/gpu instead of 2 in queue a",
        ),
        (
            job("it", "a", count=1, gpus=1, run_time=7200),
            queue("a", 8, max_run_time=3600),
            SuggestionKind.QUEUE,
            "a declared run time of at most 1h, or access.maxRunTime 2h instead of 1h in queue a",
        ),
        (
            job("it", "a", obstacle=Obstacle(ReasonCode.MAX_RUN_TIME, "it has run")),
            queue("a", 8),
            SuggestionKind.WORKLOAD,
            "nothing lets this one in again; submit the work anew",
        ),
        (
            job("it", "a", obstacle=Obstacle(ReasonCode.OTHER_GATES, "it has gates of others")),
            queue("a", 8),
            SuggestionKind.WORKLOAD,
            "Wait until their controllers remove the gates; take them out of a template",
        ),
    ],
)
def test_what_stands_against_it_before_anything_is_tried_is_told_alone(
    workload: Workload, queue_: Queue, kind: SuggestionKind, message: str
) -> None:
    assert told(world([queue_], [], [workload])) == {kind: message}


def test_nobody_is_explained_who_does_not_wait() -> None:
    snapshot = world([queue("a", 8)], [], [job("it", "a")])
    plan, _ = decide(snapshot, Memo())

    assert explain(snapshot, plan, WorkloadKey(kind_names.JOB, "it")) is None
    assert explain(snapshot, plan, WorkloadKey(kind_names.JOB, "nobody")) is None


def test_budgets_that_are_nearly_used_up_or_too_small_for_its_run_time_are_told() -> None:
    top, day = QueueName("top"), 86_400
    budget = HoursBudget(hours={GPU: 100_000, "cpu": 1000})
    queues_ = [replace(queue("top", 8), budget=budget), replace(queue("a", 8), parent=top)]
    snapshot = world(queues_, [(job("own", "a"), ["n0"])], [job("it", "a", gpus=4, run_time=7200)])
    plan, _ = decide(snapshot, Memo())

    def told_of(name: str, hours: int) -> tuple[str, ...]:
        used = {top: {GPU: HoursUsed(hours * 3_600_000, 0, snapshot.now)}}
        use = BudgetUse(Period(snapshot.now - day, snapshot.now + day), used)
        (outlook,) = outlooks(snapshot, plan, "ml", name, None, known_besides=KnownBesides(use))
        return outlook.budgets

    ends = rfc3339(snapshot.now + day)
    nearly = f"Queue top has used 93 % of its 100 hours of {GPU} until {ends}"
    long = (
        f"In its run time of 2h it takes 8 hours of {GPU}, more than the 7 left of the budget of queue top. "
    )
    assert told_of("it", 79) == ()
    assert told_of("it", 93) == (nearly, f"{long}It is admitted all the same")
    assert told_of("own", 93) == (nearly,)
    assert [len(told_of("it", hours)) for hours in (80, 92, 100)] == [1, 1, 1]


def test_the_answer_has_quantities_and_is_found_by_name() -> None:
    snapshot = world([queue("a", 8, 8)], [(job("own", "a"), ["n0"])], [job("it", "a", gpus=4)])
    plan, _ = decide(snapshot, Memo())

    (outlook,) = outlooks(snapshot, plan, "ml", "it", None)

    facts = {change.kind: change.facts for change in outlook.changes}
    assert facts["capability"] == {"more": [{"queue": "a", "resource": GPU, "flavor": "", "units": "4"}]}
    assert outlooks(snapshot, plan, "ml", "it", "vcjob") == ()


def test_a_workload_with_seats_that_does_not_go_on_has_a_problem_and_nothing_that_would_let_it_in() -> None:
    snapshot = world([queue("a", 8)], [(job("own", "a"), ["n0"])], [])
    plan, _ = decide(snapshot, Memo())
    missing = Reason(code=ReasonCode.NOT_READY, message="1 of 1 pod missing since …")

    (outlook,) = outlooks(snapshot, plan, "ml", "own", None, [(job("own", "a"), missing)])

    assert outlook.problem is not None
    assert (outlook.problem.code, outlook.problem.message) == ("NotReady", missing.message)
    assert (outlook.behind, outlook.changes) == ("", ())
    assert outlooks(snapshot, plan, "ml", "own", "vcjob", [(job("own", "a"), missing)]) == ()


@in_worlds(60)
@given(snapshots())
def test_everybody_who_waits_is_explained(snapshot: Snapshot) -> None:
    plan, _ = decide(snapshot, Memo())

    for key in plan.reasons:
        found = explain(snapshot, plan, key)
        assert found is not None
        assert all(change.message for change in found.changes)


@in_worlds(60)
@given(snapshots())
def test_who_is_told_to_wait_for_an_end_goes_in_after_it(snapshot: Snapshot) -> None:
    plan, _ = decide(snapshot, Memo())
    later = snapshot.after(plan)

    for key in plan.reasons:
        found = explain(snapshot, plan, key)
        assert found is not None
        for change in found.changes:
            if change.kind == SuggestionKind.END:
                ended = {number: frozenset(range(99)) for number in change.facts["admissions"]}
                alone = replace(later, pending={key: snapshot.pending[key]}, ended=ended)
                # An elastic gang is admitted as its minimum and parts.
                assert {admit.workload for admit in decide(alone, Memo())[0].admits} == {key}


def test_where_newer_equals_go_no_higher_priority_than_theirs_is_told(golden: Any) -> None:
    running = [(job(f"x{number}", "a", priority=2, arrival=9), [f"n{number}"]) for number in range(4)]
    policy = QueuePolicy(within_queue="lower-or-newer-equal")
    snapshot = world([queue("a", 32, policy=policy)], running, [job("it", "a")])

    assert told(snapshot)[SuggestionKind.PRIORITY] == golden


def test_more_deserved_is_told_for_those_who_start_together_only(golden: Any) -> None:
    elastic = replace(job("it", "a", count=3), minimum=1)
    snapshot = world([queue("a", 0), queue("b", 16)], full(), [elastic])

    assert told(snapshot)[SuggestionKind.DESERVED] == golden


def test_as_many_pods_as_a_limit_leaves_room_for_are_suggested() -> None:
    snapshot = world([queue("a", 0, 24)], [(job("own", "a"), ["n3"])], [job("it", "a", count=3)])

    assert told(snapshot)[SuggestionKind.WORKLOAD] == "2 pods instead of 3"


def test_of_a_limit_nothing_is_told_that_those_free_who_would_go() -> None:
    running = [*full(of="b")[:3], (job("own", "a"), ["n3"])]
    snapshot = world([queue("a", 0, 4), queue("b", 32)], running, [job("it", "a", priority=1)])

    assert told(snapshot)[SuggestionKind.CAPABILITY] == (
        "4 nvidia.com/gpu more capability in a: 1 of its own queue is evicted for it"
    )


def test_where_a_limit_and_the_room_lack_both_are_told() -> None:
    snapshot = world([queue("a", 0, 4), queue("b", 32)], full(), [job("it", "a")])

    (change,) = explained(snapshot).changes
    assert change.message == "4 nvidia.com/gpu more capability in a, and when job/ml/x0 ends"
    assert change.facts["admissions"] == [1]


def test_where_a_limit_and_the_cluster_are_too_small_both_are_told(golden: Any) -> None:
    snapshot = world([queue("a", 0, 4), queue("b", 32)], [], [job("it", "a", gpus=9)])

    assert told(snapshot)[SuggestionKind.CAPABILITY] == golden


def test_one_end_is_told_for_a_limit_and_another_for_the_room() -> None:
    own = (job("own", "a", gpus=4), ["n3"])
    foreign = (job("foreign", "b", gpus=4), ["n3"])
    snapshot = world([queue("a", 8, 8), queue("b", 32)], [*full()[:3], own, foreign], [job("it", "a")])

    assert told(snapshot)[SuggestionKind.END] == "when job/ml/own and job/ml/foreign end"


@pytest.mark.parametrize("small_is_on", ["n0", "n1"])
def test_of_as_many_ends_the_smallest_that_are_enough_are_told(small_is_on: str) -> None:
    """A pod of 2 GPUs needs no job of 6 to end where one of 2 is enough, on the same node or on another."""
    large, small = job("large", "b", gpus=6), job("small", "b", gpus=2)
    other = "n1" if small_is_on == "n0" else "n0"
    running = [
        *full()[2:],
        (large, ["n0"]),
        (small, [small_is_on]),
        (job("rest", "b", gpus=6 if small_is_on == "n1" else 8), ["n1"]),
        *([(job("more", "b", gpus=2), [other])] if small_is_on == "n1" else []),
    ]

    assert told(world([queue("a", 0), queue("b", 32)], running, [job("it", "a", gpus=2)]))[
        SuggestionKind.END
    ] in ("when job/ml/small ends", "when job/ml/more ends")


def test_of_a_gang_each_end_that_is_told_is_as_small_as_can_be() -> None:
    running = [
        (job("large", "b", count=2, gpus=8), ["n0", "n1"]),
        (job("wide", "b", gpus=8), ["n2"]),
        (job("left", "b", gpus=6), ["n3"]),
        (job("right", "b", gpus=2), ["n3"]),
    ]
    snapshot = world([queue("a", 0), queue("b", 32)], running, [job("it", "a", count=2, gpus=2)])

    assert told(snapshot)[SuggestionKind.END] == "when job/ml/left ends"


@in_worlds(60)
@given(snapshots())
def test_no_smaller_workload_is_enough_than_the_one_that_is_told(snapshot: Snapshot) -> None:
    plan, _ = decide(snapshot, Memo())
    later = snapshot.after(plan)

    def size(number: AdmissionId) -> int:
        return sum(size_of_pod(seat.takes) for seat in later.admissions[number].holding())

    for key in plan.reasons:
        found = explain(snapshot, plan, key)
        assert found is not None
        told = [change.facts["admissions"] for change in found.changes if change.kind == SuggestionKind.END]
        for one in (ends[0] for ends in told if len(ends) == 1):
            for number, admission in later.admissions.items():
                if admission.state is AdmissionState.OPEN and size(number) < size(one):
                    ended = {number: frozenset(range(99))}
                    alone = replace(later, pending={key: snapshot.pending[key]}, ended=ended)
                    assert not decide(alone, Memo())[0].admits


@in_worlds(60)
@given(snapshots())
def test_nobody_goes_in_after_fewer_ends_than_are_told(snapshot: Snapshot) -> None:
    plan, _ = decide(snapshot, Memo())
    later = snapshot.after(plan)
    running = [each for each in later.admissions if later.admissions[each].state is AdmissionState.OPEN]

    for key in plan.reasons:
        found = explain(snapshot, plan, key)
        assert found is not None
        told = [change.facts["admissions"] for change in found.changes if change.kind == SuggestionKind.END]
        for fewer in (some for ends in told for some in subsets(running, len(ends) - 1)):
            ended = {number: frozenset(range(99)) for number in fewer}
            alone = replace(later, pending={key: snapshot.pending[key]}, ended=ended)
            assert not decide(alone, Memo())[0].admits


def subsets(numbers: list[AdmissionId], most: int) -> Iterator[tuple[AdmissionId, ...]]:
    return chain.from_iterable(combinations(numbers, size) for size in range(1, most + 1))


@with_rows("seconds", "text")
def test_durations_are_told_in_what_matters(seconds: int, text: str) -> None:
    assert duration(seconds) == text


def _with_pods(workload: Workload, **more: Any) -> Workload:
    return replace(workload, pod_sets=tuple(replace(pods, **more) for pods in workload.pod_sets))


CACHE = PodSelection("cache", ())


@pytest.mark.parametrize(
    ("limits", "pods", "change"),
    [
        (
            {},
            {"nodes": NodeFilter(selector=(("pool", "h100"),))},
            "nodes that its nodeSelector or affinity chooses",
        ),
        ({"flavors": {"h100": Limits()}}, {}, "nodes of flavor h100"),
        (
            {},
            {"rules": PlacementRules(near=(NearRule((HOST,), CACHE),))},
            "4 nodes without the pods that affinity asks",
        ),
    ],
    ids=["labels", "flavor", "pods near by"],
)
def test_what_it_lacks_is_told_by_its_cause(
    limits: dict[str, Any], pods: dict[str, Any], change: str
) -> None:
    waiting = [_with_pods(job("it", "a", gpus=1), **pods)]

    (message,) = told(world([queue("a", 8, **limits)], [], waiting)).values()

    assert change in message
    assert "can hold a pod" not in message


def test_a_limit_of_users_that_it_never_fits_is_told_with_what_stops_it_next() -> None:
    limited = queue("a", 8, max_per_user={"nvidia.com/gpu": 3000})

    alone = told(world([limited], [], [job("it", "a", gpus=4, user="ann")]))
    both = told(world([limited], [], [job("it", "a", gpus=9, user="ann")]))

    raised = "access.maxPerUser {} nvidia.com/gpu instead of 3 in queue a"
    assert alone == {SuggestionKind.QUEUE: raised.format(4)}
    assert both[SuggestionKind.QUEUE].startswith(
        raised.format(9) + ", among others: then it waits still (NeverFits, 9 nvidia.com/gpu asked in one pod"
    )
