"""A tenant's queues on a server of their own, and the plugin to ask about them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from admission.cli.failures import finish
from admission.cli.kubectl_muster import kubectl_muster
from admission.cli.objects import loans, quota_set
from tests.unit.admission.cli.objects.queue_server import GPU, QueueServer

Said = tuple[int, str, str]
Asking = Callable[..., Awaitable[Said]]


@pytest.fixture
async def server() -> AsyncIterator[QueueServer]:
    server = QueueServer()
    await server.start()
    try:
        await server.add("root")
        await server.add("lab", deserved={GPU: "128"}, guarantee={"resource": {GPU: "16"}})
        await server.add("vision", parent="lab", deserved={GPU: 64}, guarantee={"resource": {GPU: 8}})
        await server.add("language", parent="lab", deserved={GPU: "32"}, capability={GPU: "40"})
        await server.add("other", weight=2)
        yield server
    finally:
        await server.stop()


@pytest.fixture
def ask(
    server: QueueServer, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Asking:
    """What changes of quota would do to work is not asked: test_quota_trial.py is about that."""
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path)))
    for module in (quota_set, loans):
        monkeypatch.setattr(module, "tell_trial", lambda *_: None)

    async def asked(*words: str) -> Said:
        code = await asyncio.to_thread(finish, kubectl_muster, "kubectl muster", words)
        out, err = capfd.readouterr()
        return code, out, err

    return asked
