"""A cluster of its own, in which Musters are killed, and a Prometheus that watches them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.stack import Replica
from tests.e2e.monitoring.prometheus_server import PrometheusServer
from tests.e2e.support.crash_harness import CrashHarness, own_crash_harness
from tests.prometheus.programs import NoPrometheus, programs


@pytest.fixture(scope="session")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    """It scrapes nothing until it is told to. Skips where there is none."""
    try:
        program = programs()["prometheus"]
    except NoPrometheus as error:
        pytest.skip(str(error))
    with PrometheusServer(program, tmp_path_factory.mktemp("prometheus")) as server:
        yield server


@pytest.fixture(scope="session")
def harness(prometheus: PrometheusServer, kubernetes_binaries: dict[str, Path]) -> Iterator[CrashHarness]:
    with own_crash_harness(durable=True) as found:
        yield found


@pytest.fixture
def muster(harness: CrashHarness, prometheus: PrometheusServer) -> Replica:
    """One that leads and is scraped; another one when the former was ended."""
    if not harness.stack.replicas:
        harness.start()
    replica = harness.stack.replicas[0]
    harness.leads(replica)
    prometheus.scrape(muster=[address(replica)])
    prometheus.is_silent("MusterNoLeader")
    return replica


def address(replica: Replica) -> str:
    """What Prometheus calls its target."""
    return replica.http.removeprefix("http://")
