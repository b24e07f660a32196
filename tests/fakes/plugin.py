"""``kubectl muster`` as a person runs it: what it prints, and the code with which it ends."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from admission.cli.command_line import finish
from admission.cli.kubectl_muster import kubectl_muster
from tests.fakes.fake_api_server import FakeApiServer
from tests.fakes.fake_reader import FakeReader, served


class Said(NamedTuple):
    """How a run ended, and what it printed."""

    code: int
    out: str
    err: str


Asking = Callable[..., Awaitable[Said]]


@dataclass(frozen=True)
class Plugin:
    """The plugin in this process, with the environment of one test."""

    capfd: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch
    folder: Path

    def asking(self, *before: str) -> Asking:
        """Runs a command; ``before`` stands in front of every line. One string is a line, several are its words."""

        async def asked(*words: str) -> Said:
            line = words[0].split() if len(words) == 1 else words
            code = await asyncio.to_thread(finish, kubectl_muster, "kubectl muster", (*before, *line))
            return Said(code, *self.capfd.readouterr())

        return asked

    def at(self, server: FakeApiServer, *before: str) -> Asking:
        """The same with the kubeconfig of an API server."""
        self.monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(self.folder)))
        return self.asking(*before)

    def put_kubectl(self) -> None:
        """A kubectl on PATH that prints what it is called with, and fails with 3."""
        kubectl = self.folder / "bin/kubectl"
        kubectl.parent.mkdir()
        kubectl.write_text('#!/bin/sh\necho "$@"\nexit 3\n')
        kubectl.chmod(0o755)
        self.monkeypatch.setenv("PATH", f"{kubectl.parent}:/bin:/usr/bin")

    @asynccontextmanager
    async def served(
        self, reader: FakeReader, *before: str, server: FakeApiServer | None = None, **more: Any
    ) -> AsyncIterator[Asking]:
        """The same with a replica of Muster to ask; of API servers only ``server`` can be asked."""
        config = server.kubeconfig(self.folder) if server is not None else "/nowhere/config"
        self.monkeypatch.setenv("KUBECONFIG", str(config))
        async with served(reader, **more) as url:
            self.monkeypatch.setenv("MUSTER_SERVER", url)
            yield self.asking(*before)
