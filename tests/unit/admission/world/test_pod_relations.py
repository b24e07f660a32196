"""Which pods rules are about, kept up to date change by change: as if all had been seen at once."""

from dataclasses import replace
from random import Random

import pytest

from admission.engine.snapshot import Snapshot
from admission.facts.cluster import NamespaceFact
from admission.facts.pods import PodFact
from admission.facts.workloads import WorkloadFact
from queues.workload import COUNTED, HostPort, NodeName
from tests.builders.facts import NOW, gone, see, seen, world
from tests.laws.pod_rules.clusters import Drawn, facts_of, job_of


def counts(snapshot: Snapshot) -> tuple[dict[NodeName, tuple[HostPort, ...]], list[object]]:
    sets = [workload.pod_sets for _, workload in sorted(snapshot.pending.items())]
    return dict(snapshot.nodes.ports), [(pods.counted, pods.kept_from) for each in sets for pods in each]


@pytest.mark.parametrize("seed", range(40))
def test_the_order_in_which_pods_and_gangs_come_does_not_matter(seed: int) -> None:
    drawn, draw = Drawn(seed), Random(seed)
    job = job_of(drawn)
    facts = [*facts_of(drawn), job]
    moving = [fact for fact in facts if isinstance(fact, PodFact | WorkloadFact | NamespaceFact)]
    draw.shuffle(moving)
    late = world([fact for fact in facts if fact not in moving], arrivals={job.key: 1})
    for fact in moving:
        if isinstance(fact, PodFact) and draw.random() < 0.5:
            see(late, replace(fact, labels=(("app", "web"),)))
            late.freeze(NOW)
        if draw.random() < 0.3:
            late.observe([seen(fact), gone(fact)])
        see(late, fact)
        late.freeze(NOW)
    assert counts(late.freeze(NOW)) == counts(world(facts, arrivals={job.key: 1}).freeze(NOW))


def test_nothing_is_counted_while_no_pod_has_rules() -> None:
    facts = [fact for fact in facts_of(Drawn(3)) if not isinstance(fact, PodFact) or not fact.shape.rules]
    begun = world(facts)
    assert begun.freeze(NOW).nodes.ports == {}
    assert not begun.snapshot_rows.pod_relations._is_used


def test_what_a_gang_asked_to_be_counted_is_not_counted_without_it() -> None:
    drawn = next(drawn for drawn in map(Drawn, range(100)) if any_counted(drawn))
    job = job_of(drawn)
    begun = world([*facts_of(drawn), job], arrivals={job.key: 1})
    begun.freeze(NOW)
    see(begun, gone(job))
    assert begun.freeze(NOW).nodes.ports == {}


def any_counted(drawn: Drawn) -> bool:
    job = job_of(drawn)
    snapshot = world([*facts_of(drawn), job], arrivals={job.key: 1}).freeze(NOW)
    rules = any(pod["spec"].get("affinity") for pod in drawn.cluster.pods)
    return not rules and any(
        port.protocol == COUNTED for ports in snapshot.nodes.ports.values() for port in ports
    )
