"""Turn reports as Prometheus reads them."""

import threading
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from admission.figures.queue_metrics import WideMetrics
from admission.kube.watch.informers import InformerState
from admission.metrics import LeaderFigures, Metrics, ProcessFigures
from admission.turn_report import EvictionCost, Stage, TurnReport
from admission.world.nodes import NodeHealth
from queues.reason_codes import ReasonCode


def samples(metrics: Metrics) -> dict[str, float]:
    return {
        sample.name + "".join(f",{name}={text}" for name, text in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
    }


def report(**changes: object) -> TurnReport:
    return TurnReport(now=0, freeze_seconds=0.001, decide_seconds=0.02, apply_seconds=0.3, **changes)  # type: ignore[arg-type]


def test_decisions_add_up_over_turns(golden: Any) -> None:
    metrics = Metrics()
    metrics.observe(report(admitted=2, freed=3, evicted=1, adopted=4, dropped=5))
    metrics.observe(report(admitted=1))

    found = samples(metrics)

    assert found["muster_turns_total"] == 2
    assert {
        what: found[f"muster_decisions_total,what={what}"]
        for what in ("admit", "adopt", "free", "evict", "drop")
    } == golden
    assert found["muster_turn_phase_seconds_count,phase=decide"] == 2
    assert round(found["muster_turn_phase_seconds_sum,phase=apply"], 3) == 0.6


def test_evictions_and_what_they_cost_add_up_by_reason() -> None:
    metrics = Metrics()
    code = ReasonCode.GPU_UNHEALTHY
    metrics.observe(report(evicted=1, evictions={code: EvictionCost(1, 800)}))
    metrics.observe(report(evicted=2, evictions={code: EvictionCost(2, 40)}))

    found = samples(metrics)

    assert found["muster_evictions_total,reason=GpuUnhealthy"] == 3
    assert found["muster_lost_device_seconds_total,reason=GpuUnhealthy"] == 840


def test_the_leader_tells_of_faulty_nodes() -> None:
    health = NodeHealth(nodes=1, faults={"XidFault": 2}, closed={"failed": 1, "draining": 0})

    found = samples(Metrics(leader=lambda: LeaderFigures(node_health=health)))

    assert found["muster_devices_faulty,reason=XidFault"] == 2
    assert found["muster_nodes_faulty"] == 1
    assert (found["muster_nodes_closed,phase=failed"], found["muster_nodes_closed,phase=draining"]) == (1, 0)
    assert "muster_nodes_faulty" not in samples(Metrics())


def test_a_turn_that_decided_nothing_leaves_the_gauges_as_they_are() -> None:
    metrics = Metrics()
    metrics.observe(report(nodes_usable=7))
    metrics.observe(TurnReport(now=1, changes=1))

    found = samples(metrics)

    assert (found["muster_nodes_usable"], found["muster_turns_total"]) == (7, 2)
    assert found["muster_turn_phase_seconds_count,phase=decide"] == 1


def test_a_replica_that_lost_the_lead_shows_no_queues() -> None:
    metrics = Metrics()
    metrics.leads(7)
    metrics.observe(report(nodes_usable=7))
    leading = samples(metrics)
    metrics.leads(None)
    following = samples(metrics)

    assert (leading["muster_leader"], leading["muster_term"]) == (1, 7)
    assert (following["muster_leader"], following["muster_term"]) == (0, 0)
    assert "muster_nodes_usable" not in following


def test_stages_requests_and_informers_are_told() -> None:
    metrics = Metrics(
        process=ProcessFigures(answers=lambda: {("GET", "pods", 200): 5, ("PATCH", "pods", 409): 1}),
        leader=lambda: LeaderFigures(
            informers={"pods": InformerState(silent_seconds=1.5, lists=2, objects=4000)}
        ),
    )
    metrics.observe(report(stages={Stage.ADMITTED: (1.0, 3.0), Stage.BOUND: (0.2,)}))

    found = samples(metrics)

    assert found["muster_gang_stage_seconds_sum,stage=created_to_admitted"] == 4
    assert found["muster_gang_stage_seconds_count,stage=admitted_to_bound"] == 1
    assert found["muster_api_requests_total,code=409,verb=PATCH"] == 1
    assert found["muster_api_writes_total,outcome=conflict,resource=pods"] == 1
    assert found["muster_informer_silent_seconds,kind=pods"] == 1.5
    assert found["muster_informer_lists_total,kind=pods"] == 2
    assert found["muster_informer_objects,kind=pods"] == 4000


def test_failures_are_counted_over_terms() -> None:
    metrics = Metrics(
        process=ProcessFigures(longest_block=lambda: 0.25),
        leader=lambda: LeaderFigures(unlisted_jobs=3, silent_checks={"data": [1, 2]}),
    )
    metrics.leads(1)
    metrics.observe(TurnReport(now=0, failed_decisions=2, set_aside=1))
    found = samples(metrics)
    assert (found["muster_workloads_set_aside"], found["muster_decisions_failed_total"]) == (1, 2)
    assert (found["muster_loop_block_seconds"], found["muster_jobs_unlisted"]) == (0.25, 3)
    assert found["muster_check_requests_silent,check=data"] == 2
    metrics.ended(ZeroDivisionError())
    metrics.leads(None)
    metrics.leads(2)
    metrics.observe(TurnReport(now=0, failed_decisions=1))
    metrics.put_off()
    found = samples(metrics)
    assert (found["muster_workloads_set_aside"], found["muster_decisions_failed_total"]) == (0, 3)
    assert found["muster_terms_ended_total,error=ZeroDivisionError"] == 1
    assert found["muster_turns_put_off_total"] == 1


def test_dry_runs_are_counted_by_outcome_with_their_time() -> None:
    metrics = Metrics()
    for seconds in (0.01, 0.03):
        metrics.observe_dry_run("accepted", seconds)
    metrics.observe_dry_run("refused", 0.002)
    found = samples(metrics)
    assert found["muster_dry_run_seconds_count,outcome=accepted"] == 2
    assert round(found["muster_dry_run_seconds_sum,outcome=accepted"], 3) == 0.04
    assert found["muster_dry_run_seconds_count,outcome=refused"] == 1


async def test_what_takes_long_is_written_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set()

    def text(_: WideMetrics) -> str:
        threads.add(threading.get_ident())
        return "wide 1\n"

    monkeypatch.setattr(WideMetrics, "text", text)
    written = await Metrics().written()
    assert written.endswith(b"wide 1\n")
    assert b"muster_leader 0.0\n" in written
    assert threads
    assert threading.get_ident() not in threads


def test_answers_of_the_api_server_have_few_outcomes() -> None:
    codes = {
        200: "ok",
        201: "ok",
        409: "conflict",
        429: "throttled",
        403: "refused",
        500: "unavailable",
        0: "unavailable",
    }
    answers = {("PUT", f"of-{code}", code): 1 for code in codes} | {
        ("GET", "of-200", 200): 7,
        ("WATCH", "x", 0): 1,
    }
    found = samples(Metrics(process=ProcessFigures(answers=lambda: answers)))
    writes = {name: value for name, value in found.items() if name.startswith("muster_api_writes_total")}
    assert writes == {
        f"muster_api_writes_total,outcome={outcome},resource=of-{code}": 1 for code, outcome in codes.items()
    }
    assert found["muster_api_requests_total,code=200,verb=GET"] == 7


def test_the_age_of_the_last_turn_is_told_by_a_leader_only() -> None:
    metrics = Metrics()
    assert "muster_turn_age_seconds" not in samples(metrics)
    metrics.leads(3)
    assert 0 <= samples(metrics)["muster_turn_age_seconds"] < 60
    metrics.leads(None)
    assert "muster_turn_age_seconds" not in samples(metrics)
