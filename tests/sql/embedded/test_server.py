"""An embedded Postgres starts anywhere, keeps its data, and is never left running."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
from sqlalchemy.engine import make_url

from queues.sql.embedded import programs as postgres_programs
from queues.sql.embedded.programs import PostgresNotFound, Runner, UnsafeFolder, find, own_folder, reachable
from queues.sql.embedded.server import (
    LONGEST_SOCKET_PATH,
    EmbeddedPostgres,
    PostgresDidNotStart,
    PostgresDirectoryInUse,
)
from tests.fakes.postgres_crash import crash, recover
from tests.waiting import alive, until

START = """
    import os, sys, time
    from pathlib import Path
    from queues.sql.embedded.server import EmbeddedPostgres
    server = EmbeddedPostgres()
    server.start(Path(sys.argv[1]), durable=False)
    print(server.pid, os.getuid(), flush=True)
    time.sleep(600)
"""


async def ask(dsn: str, *statements: str) -> list[object]:
    """Run statements on a server; the first column of the last one's rows."""
    url = make_url(dsn)
    connection = await asyncpg.connect(user=url.username, database=url.database, host=url.query["host"])
    try:
        for statement in statements[:-1]:
            await connection.execute(statement)
        return [row[0] for row in await connection.fetch(statements[-1])]
    finally:
        await connection.close()


def home_of(dsn: str) -> Path:
    """The folder of a server's socket."""
    return Path(str(make_url(dsn).query["host"]))


def permissions(path: Path) -> int:
    return path.stat().st_mode & 0o777


def owner(pid: int | None) -> int:
    return Path(f"/proc/{pid}").stat().st_uid


def there(path: Path) -> bool:
    return path.exists()


@pytest.fixture
def server() -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres()
    yield server
    server.stop(discard=True)


async def test_data_stays_from_start_to_start(server: EmbeddedPostgres, tmp_path: Path) -> None:
    dsn = server.start(tmp_path)
    await ask(dsn, "CREATE TABLE kept AS SELECT 7 AS n", "SELECT 1")
    server.stop()
    assert server.pid is None
    dsn = server.start(tmp_path)
    assert await ask(dsn, "SELECT n FROM kept") == [7]


async def test_a_crash_loses_nothing_that_was_committed(server: EmbeddedPostgres, tmp_path: Path) -> None:
    dsn = server.start(tmp_path)
    await ask(dsn, "CREATE TABLE kept AS SELECT 7 AS n", "SELECT 1")
    crash(server)
    with pytest.raises(OSError, match=r"refused|No such file"):
        await ask(dsn, "SELECT 1")
    assert recover(server) == dsn
    assert await ask(dsn, "SELECT n FROM kept") == [7]


async def test_only_throwaway_data_is_not_synced(server: EmbeddedPostgres, tmp_path: Path) -> None:
    dsn = server.start(tmp_path)
    assert await ask(dsn, "SHOW fsync") == ["on"]
    server.stop()
    dsn = server.start(tmp_path, durable=False)
    assert await ask(dsn, "SHOW fsync") == ["off"]


async def test_no_port_is_opened(server: EmbeddedPostgres, tmp_path: Path) -> None:
    dsn = server.start(tmp_path, durable=False)
    assert await ask(dsn, "SHOW listen_addresses") == [""]
    assert permissions(home_of(dsn) / ".s.PGSQL.5432") == 0o700


async def test_a_long_path_gets_a_short_socket(server: EmbeddedPostgres, tmp_path: Path) -> None:
    dsn = server.start(tmp_path / ("long" * 30), durable=False)
    assert await ask(dsn, "SELECT 1") == [1]
    home = home_of(dsn)
    assert len(str(home / ".s.PGSQL.5432")) <= LONGEST_SOCKET_PATH
    server.stop(discard=True)
    assert not there(home)


def test_a_directory_serves_one_server(
    server: EmbeddedPostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queues.sql.embedded.server.PREDECESSOR", 0.1)
    server.start(tmp_path, durable=False)
    with pytest.raises(PostgresDirectoryInUse):
        EmbeddedPostgres().start(tmp_path)
    assert server.pid is not None


def test_a_server_that_cannot_start_shows_its_log(server: EmbeddedPostgres, tmp_path: Path) -> None:
    broken = EmbeddedPostgres({"shared_buffers": "nonsense"})
    with pytest.raises(PostgresDidNotStart, match="nonsense"):
        broken.start(tmp_path, durable=False)
    server.start(tmp_path, durable=False)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_its_parent_and_the_next_start_is_clean(
    server: EmbeddedPostgres, tmp_path: Path, number: signal.Signals
) -> None:
    code = textwrap.dedent(START)
    with subprocess.Popen(
        [sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        postmaster = int(parent.stdout.readline().split()[0])
        parent.send_signal(number)
    until(lambda: not alive(postmaster), "Postgres to end")
    server.start(tmp_path, durable=False)
    assert "not properly shut down" not in (tmp_path / "postgres.log").read_text()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can enter, unlike pytest's own."""
    folder = Path("/tmp") / f"muster-test-{os.getpid()}"
    folder.mkdir(mode=0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="every other test here runs as a plain user already")
def test_it_runs_for_a_plain_user(open_folder: Path) -> None:
    runner = Runner.choose()
    assert runner is not None
    programs = reachable(find(), runner)
    package = shutil.copytree("queues", open_folder / "code" / "queues")
    state = open_folder / "state"
    state.mkdir()
    os.chown(state, runner.uid, runner.gid)
    python = next((path for path in (sys.executable, "/usr/bin/python3") if _usable(path, runner)), None)
    if python is None:
        pytest.skip("no Python that another user can run")
    env = {"PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1", "MUSTER_PG_BIN": str(programs)}
    argv = [python, "-c", textwrap.dedent(START), state]
    with subprocess.Popen(
        argv, env=env, stdout=subprocess.PIPE, text=True, cwd="/", **runner.identity
    ) as parent:
        assert parent.stdout is not None
        postmaster, uid = map(int, parent.stdout.readline().split())
        assert uid == runner.uid
        assert owner(postmaster) == runner.uid
        parent.kill()
    until(lambda: not alive(postmaster), "Postgres to end")


def _usable(python: str, runner: Runner) -> bool:
    try:
        argv = [python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
        return subprocess.run(argv, cwd="/", check=False, **runner.identity).returncode == 0
    except PermissionError:
        return False


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has to hand Postgres to somebody else")


@as_root
async def test_root_keeps_its_closed_folders_closed(server: EmbeddedPostgres, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    dsn = server.start(closed / "state", durable=False)
    assert await ask(dsn, "SELECT 1") == [1]
    assert owner(server.pid) != 0
    assert permissions(closed) == 0o700
    home = home_of(dsn)
    assert closed not in home.parents
    server.stop(discard=True)
    assert not there(home)


@as_root
def test_data_whose_directory_is_gone_is_removed(server: EmbeddedPostgres, tmp_path: Path) -> None:
    for name in ("gone", "next"):
        (tmp_path / name).mkdir(mode=0o700)
    gone = EmbeddedPostgres()
    home = home_of(gone.start(tmp_path / "gone", durable=False))
    gone.stop()
    assert there(home)
    shutil.rmtree(tmp_path / "gone")
    server.start(tmp_path / "next", durable=False)
    assert not there(home)


@as_root
def test_programs_out_of_reach_are_copied(
    server: EmbeddedPostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    installation = find().parent
    copy = closed / installation.parent.name / installation.name
    shutil.copytree(installation, copy, symlinks=True)
    libraries = installation.parent.with_suffix(".libs")
    if libraries.is_dir():
        shutil.copytree(libraries, closed / libraries.name, symlinks=True)
    elsewhere = Path("/tmp") / f"muster-test-{os.getpid()}"
    elsewhere.mkdir(mode=0o711)
    monkeypatch.setattr(postgres_programs, "ELSEWHERE", elsewhere)
    monkeypatch.setenv("MUSTER_PG_BIN", str(copy / "bin"))
    try:
        server.start(tmp_path / "state", durable=False)
        assert server.pid is not None
        program = Path(f"/proc/{server.pid}/exe").readlink()
        assert elsewhere in program.parents
        server.stop(discard=True)
    finally:
        shutil.rmtree(elsewhere)


def test_missing_programs_say_where_they_were_sought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_PG_BIN", str(tmp_path))
    with pytest.raises(PostgresNotFound, match=f"MUSTER_PG_BIN .{tmp_path}"):
        find()


def test_data_wants_the_version_that_made_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_PG_BIN", str(find()))
    with pytest.raises(PostgresNotFound, match="of version 9, which made the data"):
        find("9")


def test_a_folder_of_somebody_else_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "muster-postgres"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(UnsafeFolder):
        own_folder(folder)
