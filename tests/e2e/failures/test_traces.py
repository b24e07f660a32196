"""A gang's trace arrives at a collector: once, with its stages in their order, though its leader was killed."""

import itertools
from collections.abc import Iterator

import pytest

from deploy.local.client import LocalClient
from tests.cluster_faults import kill_muster
from tests.e2e.support.api_paths import path
from tests.e2e.support.crash_harness import CrashHarness
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.manifests import batch_job
from tests.e2e.users.test_lists import Asking
from tests.fakes.tracing.otlp_collector import Collector, collector
from tests.waiting import until

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
STAGES = ["seen", "decided", "applied", "released", "bound", "running"]


@pytest.fixture
def traced() -> Iterator[Collector]:
    with collector() as found:
        yield found


def test_a_gang_that_outlives_its_leader_is_traced_once(harness: CrashHarness, traced: Collector) -> None:
    harness.leave()
    leader = harness.start(MUSTER_TRACING="true", OTEL_EXPORTER_OTLP_ENDPOINT=traced.url)
    harness.leads(leader)
    with harness.sandbox("traced") as sandbox:
        kubeconfig = sandbox.somebody("ann")
        submitted = batch_job(sandbox, "train", 2, 4)
        submitted["metadata"]["annotations"] = {"muster.dev/traceparent": f"00-{TRACE}-{SPAN}-01"}
        with LocalClient(kubeconfig) as client:
            client.create(path("batch/v1 Job", sandbox.name), submitted)
            client.create(path("batch/v1 Job", sandbox.name), batch_job(sandbox, "other", 1, 8))
        sandbox.wait_running("train-", 2)
        sandbox.wait_running("other-", 1)

        kill_muster(leader)
        harness.forget(leader)
        leader = harness.start(MUSTER_TRACING="true", OTEL_EXPORTER_OTLP_ENDPOINT=traced.url)
        harness.leads(leader)
        explained = Asking(harness.stack, kubeconfig).text("explain", "job/train", "-n", sandbox.name)
        assert f"trace: {TRACE}" in explained
        finish_all(sandbox, "train-")
        until(lambda: TRACE in traced.traces(), "the trace of train")
        finish_all(sandbox, "other-")
        until(lambda: len(traced.traces()) == 2, "the trace of other")

        whole, *stages = traced.traces()[TRACE]
        assert [each.name for each in stages] == STAGES
        assert (whole.name, whole.parent) == ("admission", SPAN)
        assert {each.parent for each in stages} == {whole.id}
        assert (whole.start, whole.end) == (stages[0].start, stages[-1].end)
        assert all(one.end == then.start for one, then in itertools.pairwise(stages))
        assert whole.attributes["muster.gang"] == f"{sandbox.name}/train"
        assert (whole.attributes["muster.queue"], whole.attributes["muster.gpus"]) == (sandbox.queues[0], 8.0)
        (own,) = traced.traces().keys() - {TRACE}
        assert own in Asking(harness.stack, kubeconfig).text("explain", "job/other", "-n", sandbox.name)
    # What ends in order tells what is left, and nothing is told again.
    harness.leave()
    assert [each.name for each in traced.spans if each.trace == TRACE] == ["admission", *STAGES]
    assert [each.name for each in traced.spans].count("admission") == 2
