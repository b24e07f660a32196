"""What another process is handed again and again: the same objects stay the same ones, and nothing is kept for ever."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.containment.decision_child import ChildEnded, ChildFailed, DecisionChild
from admission.containment.shared_objects import Receiver, Sender
from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.plan_limit import SEATS_PER_PLAN
from admission.engine.snapshot import Snapshot
from admission.replay import json_form
from admission.replay.made_up_clusters import made_up_clusters
from queues.plugins.guard import PluginFault
from queues.versioned_map import VersionedMap
from tests.builders.plugin_policies import installed
from tests.laws.worlds.settings import in_worlds
from tests.laws.worlds.snapshots import snapshots
from tests.waiting import until


@in_worlds(60)
@given(st.lists(snapshots(), min_size=1, max_size=3))
def test_what_arrives_decides_the_same(given_ones: list[Snapshot]) -> None:
    sender, receiver = Sender(), Receiver()
    for snapshot in given_ones:
        arrived = receiver.load(sender.dump(snapshot))
        assert json_form.written(decide(arrived, Memo())[0]) == json_form.written(decide(snapshot, Memo())[0])


def test_what_stayed_the_same_object_stays_the_same_there_and_what_went_is_forgotten() -> None:
    snapshot = next(made_up_clusters(1))
    sender, receiver = Sender(), Receiver()
    first = receiver.load(sender.dump(snapshot))
    fewer = dict(list(snapshot.pending.items())[1:])
    second = receiver.load(sender.dump(replace(snapshot, pending=fewer)))
    assert second.nodes.layout is first.nodes.layout
    assert second.nodes.used is first.nodes.used
    assert all(second.pending[key] is first.pending[key] for key in fewer)
    receiver.load(sender.dump(()))
    assert receiver.load(sender.dump(())) == ()
    assert not receiver._known or all(
        not isinstance(each, type(snapshot.nodes.layout)) for each in receiver._known.values()
    )


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


SLOW = """
import re

from queues.plugins.interface import OrderPolicy


class Slow(OrderPolicy):
    name = "slow"
    terms = None

    def urgency(self, workload):
        return len(re.match("(a+)+$", "a" * 64 + "b") or "")
"""


def test_who_is_asked_when_the_child_ends_is_to_blame(tmp_path: Path) -> None:
    with installed(tmp_path, "slow_order", {"slow_order.py": SLOW}, slow="slow_order:Slow"):
        snapshot = next(made_up_clusters(1))
        served = {name: replace(each, order="slow") for name, each in snapshot.queues.items()}
        child = DecisionChild()
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(child.decide, replace(snapshot, queues=served), SEATS_PER_PLAN)
            until(lambda: child.busy().asked is not None, "the plug-in to be asked")
            child._process.kill()
            with pytest.raises(PluginFault, match="ended the process that decides"):
                asked.result(60)
        assert not child.is_alive()
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
        plan, memo = child.decide(next(made_up_clusters(1)), SEATS_PER_PLAN)
        assert plan.admits
        assert memo.usage is not None
    finally:
        child.end()
