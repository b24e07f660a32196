"""A tenant's queues on a server of their own, and the plugin to ask about them."""

from collections.abc import AsyncIterator

import pytest

from admission.cli.plugin import quota_lend, quota_set
from tests.fakes.plugin import Asking, Plugin
from tests.unit.admission.cli.plugin.queue_server import GPU, QueueServer


@pytest.fixture
async def server() -> AsyncIterator[QueueServer]:
    async with QueueServer() as server:
        await server.add("root")
        await server.add("lab", deserved={GPU: "128"}, guarantee={"resource": {GPU: "16"}})
        await server.add("vision", parent="lab", deserved={GPU: 64}, guarantee={"resource": {GPU: 8}})
        await server.add("language", parent="lab", deserved={GPU: "32"}, capability={GPU: "40"})
        await server.add("other", weight=2)
        yield server


@pytest.fixture
def ask(plugin: Plugin, server: QueueServer) -> Asking:
    """What changes of quota would do to work is not asked: test_quota_trial.py is about that."""
    for module in (quota_set, quota_lend):
        plugin.monkeypatch.setattr(module, "trial_of_write", lambda *_, **__: None)
    return plugin.at(server)
