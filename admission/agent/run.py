"""The process of an agent: it finds vendors, serves metrics and handles signals."""

import logging
import random
import signal
import threading

from admission.agent.agent import Agent
from admission.agent.cluster.api_client import ApiClient
from admission.agent.metrics import MetricsServer
from admission.agent.settings import AgentSettings
from admission.agent.vendors.registry import VENDORS
from admission.api_connection import Access

logger = logging.getLogger(__name__)


def run(settings: AgentSettings, access: Access) -> int:
    """Report until SIGTERM or SIGINT, then 0. Raises OSError: the address of the metrics is taken."""
    client = ApiClient(access)
    vendors = {name: vendor.reader() for name, vendor in VENDORS.items()}
    agent, stop = Agent(settings, client, vendors, rng=random.Random()), threading.Event()

    def end(number: int, _: object) -> None:
        logger.info("ended by %s", signal.Signals(number).name)
        stop.set()
        agent.wake.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    if settings.metrics_listen:
        MetricsServer(settings.metrics_listen, agent.metrics, agent.is_alive).start()
    logger.info("the devices of node %s are reported to %s", settings.node_name, access.server)
    agent.run(stop)
    return 0
