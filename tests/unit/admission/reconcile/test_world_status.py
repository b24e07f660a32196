"""What objects are told about the queue that they are in: whether they may use it, and which priority counts."""

from dataclasses import replace

import pytest

from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.facts.changes import Change, FactKind
from admission.facts.cluster import NamespaceFact, QueueFact
from admission.reconcile.expected_starts import ExpectedStart, ToldStarts
from admission.reconcile.world_status import WAYS_OUT, QueueStatuses, WorldStatuses
from admission.world.world import World
from queues import kind_names
from queues.plan import Reason
from queues.quota.queue import Limits, QueuePolicy
from queues.reason_codes import ADVICE, ReasonCode
from queues.resources import Resources
from queues.workload import AdmissionId, QueueName, Requirement, WorkloadKey
from tests.builders.facts import (
    GPU,
    JOB,
    NOW,
    TEAM,
    VOLCANO,
    admission,
    gated,
    gone,
    job,
    node,
    pod,
    queue,
    see,
    seen,
    volcano_job,
    world,
)
from tests.tables import with_rows

GOLD = (Requirement("tier", "In", ("gold",)),)


def namespace(tier: str) -> NamespaceFact:
    return NamespaceFact(name="ns", labels={"tier": tier})


def running(tier: str) -> World:
    facts = [namespace(tier), queue(TEAM, namespace_selector=GOLD), node("n1"), job(1)]
    return world(facts, [admission(JOB, "n1", started=True)], {JOB: 1})


def condition_of(shown: World) -> tuple[str, str, str]:
    (wanted,) = WorldStatuses(shown, None, {}).of(JOB)  # type: ignore[arg-type]
    (told,) = wanted.conditions
    return told.status, told.reason, told.message


def test_what_is_wrong_with_workloads_that_have_seats_is_found_by_their_name() -> None:
    shown = running("tin")
    statuses = WorldStatuses(shown, None, {})  # type: ignore[arg-type]
    ((workload, problem),) = statuses.problems_of("ns", "train")
    assert (workload.key, problem.code) == (JOB, ReasonCode.NOT_ALLOWED)
    assert list(statuses.problems_of("ns", "other")) == []
    assert list(statuses.problems_of("other", "train")) == []


def test_running_work_goes_on_and_is_told_when_its_namespace_loses_the_queue() -> None:
    shown = running("gold")
    assert condition_of(shown)[1] == "Admitted"
    shown.observe([seen(namespace("tin"))])
    assert JOB in shown.refresh(NOW), "its status is to be written again"
    status, reason, message = condition_of(shown)
    assert (status, reason) == ("True", ReasonCode.NOT_ALLOWED)
    goes_on = "what runs goes on, and nothing more is admitted"
    assert message.startswith(f"{goes_on}: namespace ns may not use queue team:")
    assert shown.states[JOB].evictable == {}
    shown.observe([seen(namespace("gold"))])
    assert JOB in shown.refresh(NOW)
    assert condition_of(shown)[1] == "Admitted"


def test_the_snapshot_has_the_labels_of_namespaces_and_is_made_again_when_they_change() -> None:
    shown = running("gold")
    assert shown.freeze(NOW).namespaces == {"ns": {"tier": "gold"}}
    shown.observe([seen(namespace("gold"))])
    assert not shown.snapshot_is_stale
    shown.observe([gone(namespace("gold"))])
    assert shown.snapshot_is_stale
    assert shown.freeze(NOW).namespaces == {}


@with_rows("policy", "told")
def test_a_workload_that_waits_is_told_how_much_of_its_priority_counts(
    policy: dict[str, int], told: str
) -> None:
    fact: QueueFact = queue(TEAM, policy=QueuePolicy(**policy))
    shown = world([fact, node("n1"), replace(job(1), priority=2_000_000_000)], arrivals={JOB: 1})
    shown.ledger.put_reasons({JOB: Reason(code=ReasonCode.NO_FIT, message="no room")}, ())
    _, reason, message = condition_of(shown)
    assert (reason, message) == (ReasonCode.NO_FIT, f"no room{told}. {ADVICE[ReasonCode.NO_FIT].owner}")


def usable_of(shown: World) -> dict[str, tuple[str, str]]:
    """What each queue is told about whether it can be used: status and reason."""
    return {
        wanted.ref.name: (told.status, told.reason)
        for wanted in QueueStatuses(shown).changed()
        for told in wanted.conditions
        if told.type == "Usable"
    }


def test_queues_in_a_stored_cycle_say_so_and_admit_nothing_while_others_go_on() -> None:
    """The webhook refuses cycles; one that was stored while it was away is what is left."""
    a, b = QueueName("a"), QueueName("b")
    queues = [queue(a, parent=b), queue(b, parent=a), queue(TEAM)]
    in_a_cycle, elsewhere = replace(job(1), queue=a), volcano_job(1)
    shown = world([*queues, node("n1"), in_a_cycle, elsewhere], arrivals={JOB: 1, VOLCANO: 2})
    plan, _ = decide(shown.freeze(NOW), Memo())
    assert [admit.workload for admit in plan.admits] == [VOLCANO]
    assert plan.reasons[JOB].code == ReasonCode.QUEUE_BROKEN
    broken = ("False", ReasonCode.QUEUE_BROKEN)
    assert usable_of(shown) == {"a": broken, "b": broken, "team": ("True", "Usable")}
    (of_a, *_) = QueueStatuses(shown).changed()
    assert "a → b → a" in of_a.conditions[0].message

    shown.ledger.put_reasons(plan.reasons, ())
    assert condition_of(shown)[:2] == ("False", ReasonCode.QUEUE_BROKEN)
    see(shown, queue(b))
    plan, _ = decide(shown.freeze(NOW), Memo())
    assert {admit.workload for admit in plan.admits} == {JOB, VOLCANO}
    assert {status for status, _ in usable_of(shown).values()} == {"True"}


@pytest.mark.parametrize(
    ("deserved", "reclaim", "code", "says"),
    [
        (8000, "never", ReasonCode.NO_FIT, True),
        (8000, "never", ReasonCode.MAKING_ROOM, False),
        (8000, "any", ReasonCode.NO_FIT, False),
        (0, "never", ReasonCode.NO_FIT, False),
    ],
)
def test_work_within_its_queues_share_says_that_the_queue_takes_nothing_back(
    deserved: int, reclaim: str, code: ReasonCode, says: bool
) -> None:
    limits = Limits(deserved=Resources({GPU: deserved}))
    fact = queue(TEAM, policy=QueuePolicy(reclaim=reclaim), limits=limits)
    shown = world([fact, node("n1"), job(1)], arrivals={JOB: 1})
    shown.ledger.put_reasons({JOB: Reason(code=code, message="why")}, ())
    words = f"why; queue {TEAM} uses less than it deserves, and takes back nothing that others borrow"
    assert condition_of(shown)[2].startswith(words) == says


def test_a_pod_that_waits_for_its_own_deployment_says_so_and_no_expected_start() -> None:
    new = gated("web-6b7-x", queue=TEAM, controller="deployment/web")
    old = pod("web-5a6-a", "n1", queue=TEAM, controller="deployment/web", admission=AdmissionId(1))
    shown = world([queue(TEAM), node("n1"), new, old])
    key = WorkloadKey(kind_names.POD, new.uid)
    shown.ledger.reasons[key] = Reason(code=ReasonCode.QUEUE_LIMIT, message="full")
    starts = ToldStarts()
    starts.forecast({key: ExpectedStart(NOW, NOW + 3600, NOW + 7200)})
    assert starts.next(0.0) == key
    statuses = WorldStatuses(shown, None, {}, starts=starts)  # type: ignore[arg-type]
    reason = statuses.why_waiting(key)
    assert reason.message.endswith(f"it waits for pods of its own Deployment web: {WAYS_OUT}")
    assert statuses.start_note(key) is None
    assert statuses.own_updates() == {key}, "explain, pending and the read API expect no start either"
    ((workload, problem),) = statuses.problems_of(new.namespace, new.name)
    assert (workload.key, problem.message in reason.message) == (key, True), "explain says so"
    assert list(statuses.problems_of(new.namespace, "web-6b7-y")) == []
    shown.observe([Change(FactKind.POD, old.uid, None)])
    assert statuses.own_updates() == set()
    assert list(statuses.problems_of(new.namespace, new.name)) == []
