"""A trial says what happens: when the same is submitted to the same cluster. And it leaves no trace."""

from hypothesis import given, settings
from hypothesis import strategies as st

from admission.replay.snapshot_file import save
from tests.laws.worlds.trials import clusters, happened, objects, submit, told


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_what_a_trial_says_happens_when_it_is_submitted(data: st.DataObject) -> None:
    cluster, documents = data.draw(clusters()), data.draw(objects("new"))

    (outcome,) = cluster.tried(*documents).outcomes
    key = submit(cluster, documents, outcome.submitted)
    plan = cluster.turn()

    assert told(outcome) == happened(plan, key)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_a_trial_leaves_no_trace(data: st.DataObject) -> None:
    cluster, documents = data.draw(clusters()), data.draw(objects("new"))
    before = save(cluster.world.freeze(cluster.now), cluster.plan)

    cluster.tried(*documents)

    assert save(cluster.world.freeze(cluster.now), cluster.plan) == before
    assert not cluster.turn().changes_ledger()
