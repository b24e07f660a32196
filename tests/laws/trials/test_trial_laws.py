"""A trial says what happens: when the same is submitted to the same cluster. And it leaves no trace."""

from hypothesis import given
from hypothesis import strategies as st

from admission.replay.snapshot_file import save
from queues.workload import QueueName
from tests.builders.trials.worlds_in_memory import GPU, WorldInMemory, compared_with
from tests.laws.worlds.settings import in_worlds
from tests.laws.worlds.trials import clusters, happened, objects, submit, told


@in_worlds(60)
@given(st.data())
def test_what_a_trial_says_happens_when_it_is_submitted(data: st.DataObject) -> None:
    cluster, documents = data.draw(clusters()), data.draw(objects("new"))

    ((key, item),) = cluster.tried(*documents).items.items()
    submit(cluster, documents, key)
    plan = cluster.turn()

    assert told(item) == happened(cluster.snapshot, plan, key)


@in_worlds(30)
@given(st.data())
def test_a_trial_leaves_no_trace(data: st.DataObject) -> None:
    cluster, documents = data.draw(clusters()), data.draw(objects("new"))
    before = save(cluster.world.freeze(cluster.now), cluster.plan)

    cluster.tried(*documents)

    assert save(cluster.world.freeze(cluster.now), cluster.plan) == before
    assert not cluster.turn().changes_ledger()


@in_worlds(30)
@given(clusters())
def test_a_limit_that_is_stated_again_changes_nothing(cluster: WorldInMemory) -> None:
    limits = cluster.snapshot.queues[QueueName("one")].limits
    stated = [
        f"one.{limit}.{GPU}={amounts[GPU] // 1000}"
        for limit, amounts in (("deserved", limits.deserved), ("capability", limits.capability))
        if GPU in amounts
    ]
    if not stated or limits.deserved.get(GPU, 0) > limits.capability.get(GPU, limits.deserved.get(GPU, 0)):
        return

    found = compared_with(cluster, *stated[-1:])

    assert (found.workloads, found.at_rest) == ((), True)
