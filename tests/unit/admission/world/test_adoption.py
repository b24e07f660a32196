"""Which pods that run without an admission the world has adopted, as queues and namespaces change."""

from dataclasses import replace

from admission.facts import NamespaceFact
from admission.workloads.context import Context, in_context
from queues.resources import GPU
from queues.workload import NodeName, Requirement, WorkloadKey, WorkloadKind
from tests.builders.facts import JOB, NOW, TEAM, admission, job, migrated, node, pod, queue, seen, world

ALONE = WorkloadKey(WorkloadKind.POD, "a")


def test_a_pod_is_adopted_as_soon_as_its_namespace_may_use_the_queue() -> None:
    gold = queue(TEAM, namespace_selector=(Requirement("tier", "In", ("gold",)),))
    facts = [gold, node("n1"), job(1), migrated("a", "n1", owner=JOB)]
    known = world([*facts, NamespaceFact(name="ns", labels={"tier": "tin"})])
    assert known.states[JOB].unbooked is None
    assert [each.name for each in known.states[JOB].foreign] == ["a"]
    known.observe([seen(NamespaceFact(name="ns", labels={"tier": "gold"}))])
    known.refresh(NOW)
    assert known.states[JOB].unbooked is not None


def test_a_pod_that_is_not_adopted_counts_on_its_node() -> None:
    known = world([node("n1"), job(1), pod("a", "n1", owner=JOB)])
    assert known.node_inventory.room(NodeName("n1"))[GPU] == 7000
    assert known.states[JOB].unbooked is None


def test_what_was_adopted_stays_so_when_its_namespace_says_nothing_any_more() -> None:
    mode = Context(queues={"ns": TEAM}, adopt_until={"ns": NOW + 1})
    found = in_context(pod("a", "n1"), mode)
    known = world([node("n1"), found], [admission(ALONE, "n1", adopted={"a": 0}, started=True)])  # type: ignore[list-item]
    known.observe([seen(in_context(pod("a", "n1"), Context()))])
    known.refresh(NOW + 100)
    state = known.states[ALONE]
    assert (state.ended, state.unbooked, state.foreign) == ({}, None, ())


def test_a_pod_in_migration_mode_is_a_workload_only_while_that_lasts() -> None:
    mode = Context(queues={"ns": TEAM}, adopt_until={"ns": NOW + 1})
    adopted, late = (in_context(pod("a", "n1"), context) for context in (mode, replace(mode, adopt_until={})))
    assert world([node("n1"), adopted]).states[ALONE].unbooked is not None
    assert world([node("n1"), late]).states == {}
