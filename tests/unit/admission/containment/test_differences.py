"""What another process is handed again and again: the same objects stay the same ones, and only changes are sent."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.containment.child_process import ChildEnded, ChildFailed
from admission.containment.decision_child import DecisionChild
from admission.containment.differences import Receiver, Sender
from admission.containment.made_up_clusters import made_up_clusters
from admission.engine.decide import decide
from admission.engine.memo import Memo, books_after
from admission.engine.plan_limit import SEATS_PER_PLAN
from admission.engine.snapshot import Snapshot
from admission.replay import json_form
from queues.plugins.guard import PluginFault
from queues.versioned_map import VersionedMap
from tests.builders.plugin_policies import NEVER, installed
from tests.laws.worlds.settings import in_worlds
from tests.laws.worlds.snapshots import snapshots
from tests.waiting import until


@in_worlds(60)
@given(st.lists(snapshots(), min_size=1, max_size=3))
def test_what_arrives_decides_the_same_turn_after_turn(given_ones: list[Snapshot]) -> None:
    sender, receiver, memo = Sender(), Receiver(), Memo()
    for given_one in given_ones:
        snapshot = given_one
        for _ in range(3):
            arrived = receiver.load(sender.dump(snapshot))
            plan, _ = decide(snapshot, Memo())
            there, memo = decide(arrived, memo)
            assert json_form.written(there) == json_form.written(plan)
            snapshot = snapshot.after(plan)


def test_what_stayed_the_same_object_stays_the_same_there_and_is_not_sent_again() -> None:
    snapshot = next(made_up_clusters(1))
    rows = VersionedMap(snapshot.pending)
    snapshot = replace(snapshot, pending=rows.freeze())
    sender, receiver = Sender(), Receiver()
    whole = sender.dump(snapshot)
    first = receiver.load(whole)
    gone, changed, *_ = snapshot.pending
    rows.pop(gone)
    rows.put(changed, replace(snapshot.pending[changed], priority=7))
    changes = sender.dump(replace(snapshot, now=snapshot.now + 1, pending=rows.freeze()))
    assert len(changes) < len(whole) / 10
    second = receiver.load(changes)
    assert dict(second.pending) == dict(rows.freeze())
    assert second.now == first.now + 1
    assert second.nodes is first.nodes
    kept = second.pending.keys() - {changed}
    assert all(second.pending[key] is first.pending[key] for key in kept)
    assert second.pending.changed_since(first.pending) == {gone, changed}


def test_versions_of_maps_and_mappings_that_cannot_change_arrive_as_they_are() -> None:
    kept: VersionedMap[str, int] = VersionedMap()
    for number in range(2000):
        kept.put(f"{number}", number)
    kept.freeze()
    kept.pop("7")
    value = {"map": kept.freeze(), "fixed": MappingProxyType({"a": 1}), "array": np.arange(3)}
    arrived = Receiver().load(Sender().dump(value))
    assert dict(arrived["map"]) == dict(value["map"])
    assert "7" not in arrived["map"]
    assert dict(arrived["fixed"]) == {"a": 1}
    assert arrived["array"].tolist() == [0, 1, 2]


SLOW = f"""
import numpy

from queues.plugins.interface import OrderPolicy


class Slow(OrderPolicy):
    name = "slow"
    terms = None

    def urgency(self, workload):
        {NEVER}
"""


def test_who_is_asked_when_the_child_ends_is_to_blame(tmp_path: Path) -> None:
    with installed(tmp_path, "slow_order", {"slow_order.py": SLOW}, slow="slow_order:Slow"):
        snapshot = next(made_up_clusters(1))
        served = {name: replace(each, order="slow") for name, each in snapshot.queues.items()}
        child = DecisionChild()
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(child.decide, replace(snapshot, queues=served), SEATS_PER_PLAN)
            until(lambda: child._page.asked() is not None, "the plug-in to be asked")
            child._process.kill()
            with pytest.raises(PluginFault, match="ended the process that decides"):
                asked.result(60)
        assert not child.is_alive()
        child.end()


KEEPS = """
from queues.plugins.interface import OrderPolicy


class Keeping(OrderPolicy):
    name = "keeping"
    terms = None

    def __init__(self, rules, parameters=None):
        super().__init__(rules, parameters)
        self.by = lambda workload: len(workload.name)

    def urgency(self, workload):
        return self.by(workload)
"""


def test_reasons_and_books_arrive_whatever_a_plug_in_keeps(tmp_path: Path) -> None:
    with installed(tmp_path, "keeping_order", {"keeping_order.py": KEEPS}, keeping="keeping_order:Keeping"):
        child, memo, books = DecisionChild(), Memo(), None
        try:
            for made_up in made_up_clusters(3):
                served = {name: replace(each, order="keeping") for name, each in made_up.queues.items()}
                snapshot = replace(made_up, queues=served, tree=None)
                for _ in range(3):
                    plan, memo = decide(snapshot, memo)
                    books = books_after(books, memo)
                    there = child.decide(snapshot, SEATS_PER_PLAN)
                    assert json_form.written(there.plan) == json_form.written(plan)
                    assert there.until == memo.until
                    told = there.books
                    assert books is not None
                    assert told is not None
                    for amounts in ("used", "deserved", "past_use"):
                        assert getattr(told, amounts) == getattr(books, amounts)
                    assert told.tree.paths == books.tree.paths
                    snapshot = snapshot.after(plan)
        finally:
            child.end()


def test_nobody_is_to_blame_where_nobody_was_asked() -> None:
    child = DecisionChild()
    child._process.kill()
    with pytest.raises(ChildEnded):
        child.decide(next(made_up_clusters(1)), SEATS_PER_PLAN)
    child.end()


def test_an_error_of_the_engine_in_the_child_is_told_here() -> None:
    child = DecisionChild()
    try:
        broken = replace(next(made_up_clusters(1)), nodes=None)
        with pytest.raises(ChildFailed, match="AttributeError"):
            child.decide(broken, SEATS_PER_PLAN)
        outcome = child.decide(next(made_up_clusters(1)), SEATS_PER_PLAN)
        assert outcome.plan.admits
        assert outcome.books is not None
        assert outcome.books.used
    finally:
        child.end()
