"""A Postgres of our own for demos, single hosts and tests: no installation, no port, never left running.

It listens on a unix socket in a directory that only its user can enter. It is stopped when this process ends,
however that happens (``guarded.py``). Postgres refuses to run as root; then an unprivileged user of the
system runs it, and where that user cannot reach the directory or the programs, they live in a folder of ours
under ``/var/tmp``. Nothing outside our own folders changes its permissions.
"""

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from queues.errors import DatabaseError
from queues.sql.embedded.programs import ELSEWHERE, Runner, find, own_folder, reachable
from queues.sql.embedded.supervised import ProcessDidNotStart, Program, SupervisedProcess, hold_lock

#: The database's superuser. There is no password: the socket's folder is the protection.
USER = "muster"
SOCKET = ".s.PGSQL.5432"
#: What sockaddr_un holds, without the final zero.
LONGEST_SOCKET_PATH = 107
#: In a folder elsewhere: the directory it serves.
OF = "of"
#: Seconds that a killed predecessor may need to shut its server down.
PREDECESSOR = 5.0
#: For data that may be lost with the host: several times faster to commit.
NOT_DURABLE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class PostgresDirectoryInUse(DatabaseError):
    """{directory} is in use by another running process. Stop that one, or name another directory."""


class PostgresDidNotStart(DatabaseError):
    """The embedded Postgres did not start: {reason}. The end of {log}: {end}"""


class EmbeddedPostgres:
    """One server on one directory. ``start`` gives its address, ``stop`` leaves the data for next time."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self._settings = dict(settings or {})
        self._server: SupervisedProcess | None = None
        self._lock: int | None = None
        self._socket: Path | None = None

    def start(self, directory: Path, *, durable: bool = True, patience: float = 30.0) -> str:
        """Start on a directory, made on first use. Returns the SQLAlchemy URL of database ``postgres``."""
        self._directory = directory.resolve()
        self._durable, self._patience = durable, patience
        self._directory.mkdir(parents=True, exist_ok=True)
        self._lock = hold_lock(self._directory / "lock", PREDECESSOR)
        if self._lock is None:
            raise PostgresDirectoryInUse(directory=self._directory)
        try:
            self._runner = Runner.choose()
            self._home = _home(self._directory, self._runner)
            self._programs = reachable(find(self._version()), self._runner)
            self._socket = self._socket_directory()
            if not (self._data / "PG_VERSION").exists():
                self._initialize()
            self._run()
        except BaseException:
            self.stop()
            raise
        return self.dsn()

    def dsn(self, database: str = "postgres") -> str:
        """The SQLAlchemy URL of a database of this server."""
        return f"postgresql+asyncpg://{USER}@/{database}?host={quote(str(self._socket))}"

    @property
    def pid(self) -> int | None:
        """Of the postmaster, while it runs."""
        return self._server.pid if self._server is not None and self._server.running else None

    def stop(self, *, discard: bool = False) -> None:
        """Stop the server (connections are closed, nothing is lost) and give the directory up."""
        if self._server is not None:
            self._server.stop()
            self._server = None
        if self._lock is None:
            return
        if self._socket is not None and self._socket != self._home:
            shutil.rmtree(self._socket, ignore_errors=True)
        if discard:
            shutil.rmtree(self._home.parent if self._home.parent != self._directory else self._home)
        os.close(self._lock)
        self._lock = None

    @property
    def _data(self) -> Path:
        return self._home / "data"

    @property
    def _log(self) -> Path:
        return self._directory / "postgres.log"

    def _version(self) -> str | None:
        """The major version of data that is there already."""
        file = self._data / "PG_VERSION"
        return file.read_text().strip() if file.exists() else None

    def _socket_directory(self) -> Path:
        if len(str(self._home / SOCKET)) <= LONGEST_SOCKET_PATH:
            return self._home
        short = Path(tempfile.mkdtemp(prefix="muster-pg-", dir="/tmp"))
        if self._runner is not None:
            os.chown(short, self._runner.uid, self._runner.gid)
        return short

    def _initialize(self) -> None:
        """Make the data directory under another name first: a half-made one is never mistaken for data."""
        draft = self._home / "data.new"
        shutil.rmtree(draft, ignore_errors=True)
        argv: list[str | Path] = [
            self._programs / "initdb",
            "-D",
            draft,
            "-U",
            USER,
            "--auth=trust",
            "-E",
            "UTF8",
            "--locale=C",
        ]
        if not self._durable:
            argv.append("--no-sync")
        identity = {} if self._runner is None else self._runner.identity
        done = subprocess.run(
            argv,
            cwd=self._home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            **identity,
        )
        if done.returncode != 0:
            raise PostgresDidNotStart(
                reason="initdb failed", log="its output", end=done.stderr.strip()[-1000:]
            )
        draft.rename(self._data)

    def _run(self) -> None:
        settings = {
            "listen_addresses": "",
            "unix_socket_permissions": "0700",
            "unix_socket_directories": str(self._socket),
            "logging_collector": "off",
            "log_timezone": "UTC",
            "timezone": "UTC",
            "max_connections": "200",
            **({} if self._durable else NOT_DURABLE),
            **self._settings,
        }
        argv: list[str | Path] = [self._programs / "postgres", "-D", self._data]
        for name, value in settings.items():
            argv += ["-c", f"{name}={value}"]
        program = Program(
            argv=argv,
            log=self._log,
            cwd=self._home,
            user=None if self._runner is None else (self._runner.uid, self._runner.gid),
            # Fast shutdown: Postgres ends the connections itself, and leaves nothing to recover.
            stop_signal=signal.SIGINT,
            orphan_signal=signal.SIGINT,
            grace=30.0,
            lock=self._lock,
        )
        deadline = time.monotonic() + self._patience
        try:
            while not self._comes_up(program, deadline):
                # The backends of a crashed server need a moment to notice; until then a new one refuses.
                time.sleep(0.1)
        except ProcessDidNotStart as error:
            raise self._failure(str(error)) from error

    def _comes_up(self, program: Program, deadline: float) -> bool:
        """Start the postmaster and wait until it takes connections; false if it is worth trying again."""
        self._server = server = SupervisedProcess.start(program)
        while not self._ready(server.pid):
            if time.monotonic() > deadline:
                raise self._failure(f"not ready within {self._patience:.0f} s")
            if server.wait(0.005):
                if "pre-existing shared memory block" in self._end_of_log() and time.monotonic() < deadline:
                    return False
                raise self._failure(f"it ended with status {server.returncode}")
        return True

    def _ready(self, pid: int) -> bool:
        """Line 1 of postmaster.pid is the process, line 8 its state."""
        with contextlib.suppress(FileNotFoundError):
            lines = (self._data / "postmaster.pid").read_text().splitlines()
            return len(lines) > 7 and lines[0] == str(pid) and lines[7].strip() == "ready"
        return False

    def _failure(self, reason: str) -> PostgresDidNotStart:
        return PostgresDidNotStart(reason=reason, log=self._log, end=self._end_of_log())

    def _end_of_log(self) -> str:
        with contextlib.suppress(FileNotFoundError):
            return self._log.read_text(errors="replace")[-1000:]
        return ""


def _home(directory: Path, runner: Runner | None) -> Path:
    """Where the data and the socket live: in the directory, if the user that runs Postgres can enter it."""
    base = directory
    if runner is not None and not runner.passes(directory):
        _sweep_elsewhere()
        digest = hashlib.sha256(os.fsencode(directory)).hexdigest()[:12]
        base = own_folder(ELSEWHERE / f"muster-postgres-{digest}")
        (base / OF).write_text(str(directory))
    home = base / "postgres"
    home.mkdir(mode=0o700, exist_ok=True)
    if runner is not None:
        os.chown(home, runner.uid, runner.gid)
    return home


def _sweep_elsewhere() -> None:
    """Remove data of directories that are gone."""
    for note in ELSEWHERE.glob(f"muster-postgres-*/{OF}"):
        if note.parent.stat().st_uid == os.geteuid() and not Path(note.read_text()).exists():
            shutil.rmtree(note.parent, ignore_errors=True)
