"""Each alert fires when its fault is caused: a real Prometheus, a running Muster, rules in a sixtieth of their time."""

from deploy.local.stack import Replica
from tests.cluster_faults import kill_muster
from tests.e2e.monitoring.prometheus_server import PrometheusServer
from tests.e2e.support.crash_harness import CrashHarness


def test_a_killed_leader_without_a_successor(
    harness: CrashHarness, prometheus: PrometheusServer, muster: Replica
) -> None:
    assert "MusterNoLeader" not in prometheus.firing()
    kill_muster(muster)
    harness.forget(muster)
    told = prometheus.fires("MusterNoLeader")
    assert "Nothing is admitted" in told["summary"]
