"""What the world makes of answers to dry runs, and how long it waits for them."""

from dataclasses import replace
from typing import Any

import pytest

from admission.facts.changes import Change, FactKind
from admission.facts.pods import PodDefaultsFact, PodShape, TemplateFact, TemplateKey
from admission.facts.workloads import WorkloadFact
from admission.world.learned import templates
from admission.world.learned.templates import TemplateIndex, keys_of
from admission.world.world import World
from queues import kind_names
from queues.admissions import Admission
from queues.resources import GPU, Resources
from queues.workload import EVERYWHERE, HostPort, NodeFilter, Toleration, WorkloadKey
from tests.builders.facts import JOB, NOW, admission, gated, gone, gpus, group, job, node, see, seen, world

KEY = TemplateKey("ns", "t")
LARGER = Resources({GPU: 1000, "cpu": 500, "pods": 1})
PATIENCE = 2


def waiting(**facts: Any) -> WorkloadFact:
    return replace(job(2, templates=("t",), suspended=True, generation="1"), **facts)


def told(**outcome: Any) -> Change:
    return Change(FactKind.TEMPLATE, str(KEY), TemplateFact(key=KEY, **outcome))


def asks(**shape: Any) -> Change:
    return told(shape=PodShape(**{"takes": LARGER, **shape}))


def begun(*facts: WorkloadFact, admissions: tuple[Admission, ...] = (), dry_run: int = PATIENCE) -> World:
    return world([node("n1"), *facts], admissions, {JOB: 1}, dry_run=dry_run)


def test_a_job_waits_for_a_moment_until_it_is_known_what_its_pods_will_ask() -> None:
    known = begun(waiting())
    assert known.states[JOB].is_untried
    assert not known.freeze(NOW).pending, "nothing is decided about it"
    see(known, asks())
    assert [pods.takes for pods in known.freeze(NOW).pending[JOB].pod_sets] == [LARGER]
    assert not known.states[JOB].is_untried


@pytest.mark.parametrize("passes", [[], [told()]])
def test_it_is_decided_on_as_it_is_written_if_there_is_no_answer(passes: list[Change]) -> None:
    known = begun(waiting())
    assert not see(known, now=NOW + PATIENCE - 1).freeze(NOW).pending
    now = NOW if passes else NOW + PATIENCE
    pending = see(known, *passes, now=now).freeze(now).pending
    assert [pods.takes for pods in pending[JOB].pod_sets] == [gpus()]
    # The answer comes later.
    assert [pods.takes for pods in see(known, asks()).freeze(now).pending[JOB].pod_sets] == [LARGER]


def test_what_waits_for_an_answer_is_not_looked_at_in_every_turn() -> None:
    known = begun(waiting())
    assert not known.refresh(NOW)
    assert JOB in known.refresh(NOW + PATIENCE)


def test_nothing_waits_where_templates_are_not_tried() -> None:
    assert JOB in begun(waiting(), dry_run=0).freeze(NOW).pending
    assert JOB in begun(waiting(templates=())).freeze(NOW).pending


def test_what_holds_seats_or_cannot_be_used_does_not_wait() -> None:
    known = begun(waiting(parallelism=2), admissions=(admission(JOB, "n1"),))
    assert known.states[JOB].needs_seats
    assert not known.states[JOB].is_untried


def test_the_next_workload_of_a_template_does_not_wait() -> None:
    known = see(begun(waiting()), asks())
    other = WorkloadKey(kind_names.JOB, "other")
    known.number({other: 2})
    see(known, seen(waiting(key=other)))
    assert [pods.takes for pods in known.freeze(NOW).pending[other].pod_sets] == [LARGER]
    assert known.freeze(NOW).pending[other].pod_sets[0] is known.freeze(NOW).pending[JOB].pod_sets[0]


def test_what_the_api_server_would_refuse_is_told_and_not_admitted() -> None:
    known = see(begun(waiting()), told(refusal="exceeded quota: team"))
    obstacle = known.freeze(NOW).pending[JOB].obstacle
    assert obstacle.code == "TemplateRefused"
    assert obstacle.message.startswith("the API server would refuse its pods (main): exceeded quota: team")
    assert see(known, asks()).freeze(NOW).pending[JOB].obstacle is None


def test_what_runs_has_no_obstacle_because_more_of_it_would_be_refused() -> None:
    known = begun(waiting(suspended=False), admissions=(admission(JOB, "n1"),))
    see(known, told(refusal="exceeded quota: team"))
    assert known.states[JOB].workload.obstacle is None


def test_what_was_told_stays_known_while_there_is_no_answer() -> None:
    known = see(begun(waiting()), asks())
    see(known, told())
    assert [pods.takes for pods in known.states[JOB].workload.pod_sets] == [LARGER]
    assert known.templates.is_current(KEY)


def test_requests_are_never_smaller_than_the_template_s() -> None:
    smaller = Resources({"cpu": 1, "pods": 1})
    known = see(begun(waiting()), asks(takes=smaller))
    assert known.states[JOB].workload.pod_sets[0].takes == gpus().largest(smaller)


def test_places_and_ports_are_those_of_the_pods() -> None:
    kata = NodeFilter(selector=(("runtime", "kata"),), tolerations=(Toleration("kata", "Exists"),))
    ports = (HostPort(9100),)
    pods = see(begun(waiting()), asks(nodes=kata, ports=ports)).states[JOB].workload.pod_sets[0]
    assert (pods.nodes, pods.ports) == (kata, ports)


def test_what_kubernetes_lets_every_pod_tolerate_changes_nothing() -> None:
    always = tuple(
        Toleration(f"node.kubernetes.io/{state}", "Exists", "", "NoExecute")
        for state in ("not-ready", "unreachable")
    )
    fact = waiting()
    known = see(begun(fact), asks(takes=gpus(), nodes=NodeFilter(tolerations=always)))
    assert known.states[JOB].workload.pod_sets[0] is fact.pod_sets[0]
    assert known.states[JOB].workload.pod_sets[0].nodes == EVERYWHERE


def test_a_suspended_job_goes_back_if_its_pods_turn_out_larger_than_its_seats() -> None:
    known = begun(waiting(), admissions=(admission(JOB, "n1 n1"),))
    assert known.states[JOB].evictable == {}
    see(known, asks())
    assert [each.code for each in known.states[JOB].evictable.values()] == ["RequestChanged"]


def test_an_answer_is_asked_for_anew_when_what_it_rests_on_has_changed() -> None:
    index = see(begun(waiting()), asks()).templates

    def outdated(namespace: str) -> list[TemplateKey]:
        index.outdate(namespace)
        return index.take_outdated()

    assert index.is_current(KEY)
    assert outdated("elsewhere") == []
    assert outdated("ns") == [KEY]
    assert index.take_outdated() == [], "it is asked once"
    assert not index.is_current(KEY)
    index.put(TemplateFact(key=KEY, shape=PodShape(takes=LARGER)))
    assert index.is_current(KEY)
    assert outdated("") == [KEY]


@pytest.mark.parametrize(
    "fact", [PodDefaultsFact(namespace="ns", digest="1"), PodDefaultsFact(digest="1"), None]
)
def test_a_limit_range_that_changes_or_goes_makes_answers_outdated(fact: PodDefaultsFact | None) -> None:
    known = see(begun(waiting()), asks())
    known.observe([Change(FactKind.POD_DEFAULTS, "uid", fact)])
    assert known.templates.take_outdated() == [KEY]


def test_a_bounded_number_of_templates_is_remembered(golden: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "_REMEMBERED", 2)
    index = TemplateIndex(PATIENCE)
    for number in range(4):
        fact = waiting(templates=(str(number),))
        index.replace(None, fact)
        index.put(TemplateFact(key=next(keys_of(fact)), shape=PodShape(takes=LARGER)))
        index.replace(fact, None)
    assert [index.is_told(TemplateKey("ns", str(number))) for number in range(4)] == golden
    unknown = waiting(templates=("5",))
    index.replace(None, unknown)
    index.put(TemplateFact(key=next(keys_of(unknown))))
    index.replace(unknown, None)
    assert not index.is_told(TemplateKey("ns", "5")), "the next Job of it waits for the answer"


def test_a_job_that_is_gone_wants_no_answer() -> None:
    known = begun(waiting())
    see(known, gone(waiting()), asks())
    assert not known.templates.users_of(KEY)


def test_groups_have_pods_that_show_what_they_ask() -> None:
    known = world([node("n1"), group(1), gated("a", group="gang")], dry_run=PATIENCE)
    assert all(not state.is_untried for state in known.states.values())
