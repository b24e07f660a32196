"""Alerts fire when their fault is caused: a real Prometheus, a running Muster, rules in a sixtieth of their time.

More of them are in ``test_alerts_of_lost_parts``.
"""

import base64
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from admission.kube.webhook.certificates import decoded, encoded, renewed
from admission.kube.webhook.configuration import SECRET
from admission.kube.webhook.keyring import utc_now
from deploy.local.stack import Replica
from queues.api.api_resources import DEVICES, SECRETS
from tests.builders.node_agents.node_devices import device, device_object
from tests.cluster_faults import kill_muster
from tests.e2e.monitoring.conftest import address
from tests.e2e.monitoring.muster_that_stumbles import NAME
from tests.e2e.monitoring.prometheus_server import PrometheusServer
from tests.e2e.support.crash_harness import CrashHarness
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.manifests import volcano_job
from tests.fakes.postgres_crash import crash, recover

#: Minutes: `make test-all`. That the rules hold is tried by promtool with all tests.
pytestmark = pytest.mark.long


def test_postgres_that_is_away(harness: CrashHarness, prometheus: PrometheusServer, muster: Replica) -> None:
    crash(harness.stack.postgres)
    try:
        prometheus.fires("MusterPostgresUnreachable")
    finally:
        recover(harness.stack.postgres)
    prometheus.is_silent("MusterPostgresUnreachable")
    harness.leads(muster)


def test_a_device_that_is_unhealthy(
    harness: CrashHarness, prometheus: PrometheusServer, muster: Replica
) -> None:
    with harness.sandbox("unhealthy") as sandbox:
        node = sandbox.nodes[0]
        sandbox.api.create(DEVICES.path(), device_object(node, *map(device, range(8))))
        change = device_object(node, *(device(minor, health=minor != 3) for minor in range(8)))
        sandbox.api.merge(DEVICES.path(name=node), {"spec": change["spec"]})
        sandbox.api.merge(DEVICES.path(name=node), {"status": change["status"]})
        told = prometheus.fires("MusterDevicesUnhealthy")
        assert told["summary"].startswith("1 devices are unhealthy")
        sandbox.api.delete(DEVICES.path(name=node))
    prometheus.is_silent("MusterDevicesUnhealthy")


def test_a_queue_of_which_the_capability_is_lowered_below_its_use(
    harness: CrashHarness, prometheus: PrometheusServer, muster: Replica
) -> None:
    with harness.sandbox("lowered") as sandbox:
        sandbox.add(volcano_job(sandbox, "train", 2, 4))
        sandbox.wait_running("train-", 2)
        queue = sandbox.queues[0]
        sandbox.merge("Queue", queue, {"spec": {"capability": {"nvidia.com/gpu": 4}}})
        told = prometheus.fires("MusterQueueAboveCapability")
        assert told["summary"] == f"Queue {queue} uses 8 of nvidia.com/gpu, more than its capability."
        finish_all(sandbox, "train-")


def test_a_queue_that_has_used_most_of_its_budget(
    harness: CrashHarness, prometheus: PrometheusServer, muster: Replica
) -> None:
    with harness.sandbox("spends") as sandbox:
        queue = sandbox.queues[0]
        sandbox.merge("Queue", queue, {"spec": {"budget": {"hours": {"nvidia.com/gpu": "0.002"}}}})
        sandbox.add(volcano_job(sandbox, "train", 2, 4))
        told = prometheus.fires("MusterBudgetNearlySpent")
        assert told["summary"].startswith(f"Queue {queue} has used ")
        finish_all(sandbox, "train-")


def test_a_gang_that_starves_though_its_queue_deserves_what_it_asks(
    harness: CrashHarness, prometheus: PrometheusServer, muster: Replica
) -> None:
    with harness.sandbox("starves") as sandbox:
        queue = sandbox.queues[0]
        policy = {"starvation": {"clearAfter": "2s"}}
        sandbox.merge("Queue", queue, {"spec": {"deserved": {"nvidia.com/gpu": 24}, "policy": policy}})
        # No node has nine, so no place can be cleared.
        sandbox.add(volcano_job(sandbox, "gang", 2, 9))
        told = prometheus.fires("MusterGangStarves")
        assert told["summary"].startswith(f"In queue {queue} 1 gangs wait longer")
        sandbox.delete("Job", "gang")
    prometheus.is_silent("MusterGangStarves")


@contextmanager
def taken(*ports: int) -> Iterator[None]:
    """Something else listens at these ports while the block goes on."""
    sockets = [socket.create_server(("127.0.0.1", port)) for port in ports]
    try:
        yield
    finally:
        for each in sockets:
            each.close()


def test_a_killed_leader_without_a_successor_and_servers_that_cannot_be_opened(
    harness: CrashHarness, prometheus: PrometheusServer, muster: Replica
) -> None:
    for alert in ("MusterNoLeader", "MusterRecoveryLate"):
        prometheus.is_silent(alert)
    kill_muster(muster)
    harness.forget(muster)
    told = prometheus.fires("MusterNoLeader")
    assert "Nothing is admitted" in told["summary"]
    prometheus.fires("MusterRecoveryLate")
    prometheus.fires("MusterAdmissionBudgetBurnsFast")
    prometheus.fires("MusterAdmissionBudgetBurnsSlowly")
    with taken(harness.stack.webhook_port, harness.stack.read_port):
        next_one = harness.start(wait=False)
        harness.leads(next_one)
        prometheus.scrape(muster=[address(next_one)])
        prometheus.fires("MusterWebhookAway")
        prometheus.fires("MusterReadApiAway")
    for alert in ("MusterWebhookAway", "MusterReadApiAway", "MusterNoLeader", "MusterRecoveryLate"):
        prometheus.is_silent(alert)


def test_certificates_that_nobody_renews(
    harness: CrashHarness, prometheus: PrometheusServer, muster: Replica, tmp_path: Path
) -> None:
    stored = harness.api.get(SECRETS.path("muster-system", SECRET))["data"]
    names = decoded({name: base64.b64decode(value) for name, value in stored.items()}).names()

    def mount(made: datetime) -> None:
        for name, content in encoded(renewed(None, names, made)).items():
            (tmp_path / name).write_bytes(content)

    mount(utc_now() - timedelta(days=50))
    harness.forget(muster)
    # The API server does not believe them: nobody writes their authority into what it reads.
    fresh = harness.start(wait=False, MUSTER_CERTIFICATES_DIR=str(tmp_path))
    harness.leads(fresh)
    prometheus.scrape(muster=[address(fresh)])
    told = prometheus.fires("MusterCertificateExpires")
    assert told["summary"].startswith("The serving certificate of")
    assert "ends in 9d 23h" in told["summary"]
    mount(utc_now())
    prometheus.is_silent("MusterCertificateExpires")
    harness.leave()


def test_a_workload_that_the_engine_fails_on(harness: CrashHarness, prometheus: PrometheusServer) -> None:
    harness.leave()
    stumbles = harness.start(program=("-m", "tests.e2e.monitoring.muster_that_stumbles"))
    harness.leads(stumbles)
    prometheus.scrape(muster=[address(stumbles)])
    with harness.sandbox("stumbles") as sandbox:
        sandbox.add(volcano_job(sandbox, NAME, 1), volcano_job(sandbox, "fine", 1))
        sandbox.wait_running("fine-", 1)
        told = prometheus.fires("MusterWorkloadSetAside")
        assert told["summary"] == "Muster cannot handle 1 workloads and set them aside."
        finish_all(sandbox, "fine-")
        sandbox.delete("Job", NAME)
        prometheus.is_silent("MusterWorkloadSetAside")
    harness.leave()


def test_balances_that_somebody_changed_by_hand_until_they_are_repaired(
    harness: CrashHarness, prometheus: PrometheusServer, muster: Replica
) -> None:
    with harness.sandbox("tampered") as sandbox:
        sandbox.add(volcano_job(sandbox, "first", 1))
        sandbox.wait_running("first-", 1)
        sandbox.ledger.ask(
            "UPDATE node_balances SET used = 8000 WHERE resource = 'nvidia.com/gpu' AND node = any($1)",
            sandbox.nodes,
        )
        sandbox.ledger.ask(
            "INSERT INTO node_balances (node, resource, used) SELECT name, 'nvidia.com/gpu', 8000"
            " FROM unnest($1::text[]) AS name ON CONFLICT DO NOTHING",
            sandbox.nodes,
        )
        sandbox.add(volcano_job(sandbox, "refused", 3, 2))
        prometheus.fires("MusterLedgerRefuses")
        assert harness.stack.muster("ledger", "verify", check=False).returncode == 1
        harness.stack.muster("ledger", "repair")
        sandbox.wait_running("refused-", 3)
        finish_all(sandbox, "first-")
        finish_all(sandbox, "refused-")
    prometheus.is_silent("MusterLedgerRefuses")
