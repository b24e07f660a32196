"""A replica serves whatever is down, and leads when it can."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp
import pytest
import pytest_asyncio
from sqlalchemy import URL, make_url, text

from admission import controller
from admission.controller import Controller
from admission.kube.webhook.validity import Validity
from admission.settings import Settings
from deploy.local.processes import free_port
from queues.sql.database import Database
from queues.sql.revisions import known_revisions
from tests.fakes.fake_api_server import FakeApiServer
from tests.waiting import LIMIT, eventually

#: The page that says what ``/readyz`` checks.
HTTP = Path(__file__).parents[3] / "docs/reference/http.md"


@pytest_asyncio.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer() as fake:
        yield fake


class NoProcess:
    """In place of the processes beside the leader: the fake API server has no certificates for them."""

    def __init__(self, order: object) -> None:
        self._order = order
        self.open = asyncio.Event()
        self.certificates: dict[str, Validity] = {}

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def problem(self) -> str | None:
        return None


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "ServingProcess", NoProcess)


async def connect_to(target: URL) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if target.host is None:
        return await asyncio.open_unix_connection(f"{target.query['host']}/.s.PGSQL.5432")
    return await asyncio.open_connection(target.host, target.port or 5432)


async def relay(target: URL, folder: str) -> asyncio.Server:
    """Postgres is there from now on, at a socket in this folder."""

    async def hand_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
        writer.close()

    async def on_connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await connect_to(target)
        await asyncio.gather(hand_on(reader, there_writer), hand_on(there_reader, writer))

    return await asyncio.start_unix_server(on_connect, f"{folder}/.s.PGSQL.5432")


@asynccontextmanager
async def running(
    server: FakeApiServer, folder: Path, dsn: str
) -> AsyncIterator[tuple[str, asyncio.Task[int]]]:
    """A replica; gives its address."""
    port = free_port()
    settings = Settings.model_validate(
        {
            "kubeconfig": server.kubeconfig(folder),
            "dsn": dsn,
            "http_listen": f"127.0.0.1:{port}",
            "failed_turns_dir": folder,
        }
    )
    task = asyncio.create_task(Controller(settings).run())
    try:
        yield f"http://127.0.0.1:{port}", task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await task


async def answer(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as found:
        return found.status, await found.text()


async def answers_with(status: int, url: str, body: str = "") -> str:
    """The answer, as soon as it has that status and this in its body."""
    async with asyncio.timeout(LIMIT):
        while True:
            with suppress(aiohttp.ClientConnectionError):
                found, text = await answer(url)
                if found == status and body in text:
                    return text
            await asyncio.sleep(0.02)


async def test_a_replica_that_starts_without_postgres_serves_and_leads_when_it_is_there(
    server: FakeApiServer, tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "LONGEST_PAUSE", 0.5)
    target = make_url(database)
    with TemporaryDirectory() as here:
        away = URL.create(
            "postgresql", target.username, target.password, database=target.database, query={"host": here}
        )
        dsn = away.render_as_string(hide_password=False)
        async with running(server, tmp_path, dsn) as (address, task):
            assert "true" in await answers_with(200, f"{address}/healthz")
            status, body = await answer(f"{address}/readyz")
            assert (status, "Postgres cannot do this now" in body) == (503, True)
            told = {check["name"] for check in json.loads(body)["checks"]}
            assert {"postgres", "decision"} <= told
            about = next(line for line in HTTP.read_text().split("\n\n") if "names its checks" in line)
            assert told <= set(re.findall(r"`(\w+)`", about))
            assert "muster_leader 0" in (await answer(f"{address}/metrics"))[1]
            assert not task.done()
            postgres = await relay(target, here)
            await answers_with(200, f"{address}/metrics", "muster_leader 1")
        postgres.close()


async def test_a_schema_that_only_a_newer_version_knows_is_waited_out(
    server: FakeApiServer,
    tmp_path: Path,
    database: str,
    muster: Database,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No end, which would be a start and an end again: one line in the log, not ready, and on as soon as it can."""
    monkeypatch.setattr(controller, "LONGEST_PAUSE", 0.1)
    monkeypatch.setattr(controller, "FIRST_PAUSE", 0.05)
    known = known_revisions()[-1].number
    await _set_revision(muster, "9999")
    async with running(server, tmp_path, database) as (address, task):
        await answers_with(503, f"{address}/readyz", "revision 9999")
        await eventually(lambda: _attempts(caplog) > 0, "a line that it waits")
        assert not task.done()
        await _set_revision(muster, known)
        await answers_with(200, f"{address}/metrics", "muster_leader 1")
        assert _attempts(caplog) == 1


async def test_a_cluster_that_drops_fields_of_queues_is_not_led(
    server: FakeApiServer, tmp_path: Path, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As with Volcano's definitions: who may use a queue would not count."""
    kinds = [{"group": "scheduling.volcano.sh", "version": "v1beta1", "kind": "Queue"}]
    spec = {"properties": {"weight": {"type": "integer"}}}
    schema = {"properties": {"spec": spec}, "x-kubernetes-group-version-kind": kinds}
    described = {"metadata": {"name": "v1beta1"}, "components": {"schemas": {"Queue": schema}}}
    place = "/openapi/v3/apis/scheduling.volcano.sh"
    await server.put(place, described)
    async with running(server, tmp_path, database) as (address, _):

        def told() -> list[str]:
            return [one.__dict__["why"] for one in caplog.records if one.message == "cannot run for leader"]

        await eventually(lambda: told() != [], "a line that says why")
        assert "drops spec." in told()[0]
        assert "muster_leader 0" in (await answer(f"{address}/metrics"))[1]
        await server.remove(place, "v1beta1")
        await answers_with(200, f"{address}/metrics", "muster_leader 1")


def _attempts(caplog: pytest.LogCaptureFixture) -> int:
    return sum(each.message == "waiting for a schema that this version knows" for each in caplog.records)


async def _set_revision(database: Database, revision: str) -> None:
    async with database.transaction() as tx:
        await tx.execute(text("UPDATE alembic_version SET version_num = :to"), {"to": revision})
