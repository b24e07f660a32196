"""The plugin, and a replica of Muster that it asks."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.fake_api_server import FakeApiServer
from tests.fakes.fake_reader import FakeReader
from tests.fakes.plugin import Asking, Plugin


@pytest.fixture
def plugin(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Plugin:
    return Plugin(capfd, monkeypatch, tmp_path)


@pytest.fixture
def reader() -> FakeReader:
    return FakeReader()


@pytest.fixture
async def ask(plugin: Plugin, reader: FakeReader) -> AsyncIterator[Asking]:
    async with plugin.served(reader) as ask:
        yield ask


@pytest.fixture
async def api_server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer() as server:
        yield server
