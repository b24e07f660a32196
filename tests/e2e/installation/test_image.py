"""The image: built by a container engine on a base of Debian packages, it runs Muster's commands as its own user.

``MUSTER_TEST_IMAGE_BASE`` names another base, such as ``python:3.11-slim``, for a machine that can pull one.
"""

import asyncio
import os
import platform
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

import deploy
from queues.sql.database import raw_connection
from queues.sql.embedded.server import SOCKET, EmbeddedPostgres
from queues.sql.revisions import known_revisions
from tests.e2e.installation.support.pod_container import IMAGE_USER
from tests.e2e.installation.support.pod_network import Relays
from tests.fixtures_local import GivenServer

pytestmark = pytest.mark.containers
REPOSITORY = Path(deploy.__file__).parents[1]
ENGINES = ("docker", "podman", "buildah")
IMAGE = "localhost/muster-test:0"
BASE = "localhost/muster-test-base:0"
#: What Debian's Python needs to be a base.
PACKAGES = "python3,python3-venv,ca-certificates"
#: What Muster may add to its base, in bytes.
LARGEST = 300_000_000


@dataclass(frozen=True, slots=True)
class Image:
    """The image that was built."""

    engine: str

    def run(self, *command: str, given: str = "", **environment: str) -> "subprocess.CompletedProcess[str]":
        """Run a command in a container of it, which has this machine's network."""
        variables = [f"--env={name}={value}" for name, value in environment.items()]
        if self.engine != "buildah":
            words = [self.engine, "run", "--rm", "--interactive", "--network=host", *variables, IMAGE]
            return _run(*words, *command, given=given)
        name = _run("buildah", "from", "--pull-never", IMAGE).stdout.strip()
        try:
            return _run("buildah", "run", "--network=host", *variables, name, "--", *command, given=given)
        finally:
            _run("buildah", "rm", name)


def _run(*words: str, given: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(words, input=given, capture_output=True, text=True, cwd=REPOSITORY, check=False)


def _succeed(*words: str) -> None:
    done = _run(*words)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


@pytest.fixture(scope="module")
def engine() -> str:
    """The first container engine that answers."""
    for name in ENGINES:
        if shutil.which(name) and _run(name, "info").returncode == 0:
            return name
    pytest.skip(f"no container engine answers: start or install one of {', '.join(ENGINES)}")


@pytest.fixture(scope="module")
def base(engine: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of an image with Debian's Python, and with what pip is set to on this machine."""
    if given := os.environ.get("MUSTER_TEST_IMAGE_BASE"):
        return given
    if shutil.which("mmdebstrap") is None:
        pytest.skip("no base: install mmdebstrap, or name an image in MUSTER_TEST_IMAGE_BASE")
    folder = tmp_path_factory.mktemp("base")
    suite = platform.freedesktop_os_release()["VERSION_CODENAME"]
    sources = [*map(str, Path("/etc/apt/sources.list.d").glob("*.sources"))] or ["/etc/apt/sources.list"]
    options = ("--variant=minbase", f"--include={PACKAGES}")
    _succeed("mmdebstrap", *options, suite, str(folder / "root.tar"), *sources)
    for name in ("etc/pip.conf", "etc/ssl/certs/ca-certificates.crt"):
        if (file := Path("/", name)).exists():
            (folder / "pip" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, folder / "pip" / name)
    (folder / "Containerfile").write_text("FROM scratch\nADD root.tar /\nCOPY pip /\n")
    _succeed(engine, "build", "--file", str(folder / "Containerfile"), "--tag", BASE, str(folder))
    return BASE


@pytest.fixture(scope="module")
def image(engine: str, base: str) -> Image:
    """Built as ``make image`` builds it."""
    arguments = f"--build-arg BASE={base} --build-arg COMMIT=0123abcd"
    _succeed("make", "image", f"ENGINE={engine}", f"IMAGE={IMAGE}", f"ARGS={arguments}")
    return Image(engine)


@pytest.fixture
def dsn(postgres_server: EmbeddedPostgres | GivenServer) -> Iterator[str]:
    """An empty database, on an address that containers reach too."""
    name = f"image_{os.getpid()}"
    asyncio.run(_create_database(postgres_server.dsn(), name))
    url = make_url(postgres_server.dsn(name)).set(drivername="postgresql")
    relays = Relays()
    if folder := url.query.get("host"):
        listening = socket.create_server(("127.0.0.1", 0))
        relays.serve(listening, Path(str(folder)) / SOCKET)
        url = url.set(host="127.0.0.1", port=listening.getsockname()[1], query={})
    yield url.render_as_string(hide_password=False)
    relays.close()


async def _create_database(dsn: str, name: str) -> None:
    connection = await raw_connection(dsn)
    await connection.execute(f'CREATE DATABASE "{name}"')
    await connection.close()


def test_it_says_its_version_and_commit(image: Image) -> None:
    done = image.run("muster", "--version")
    assert done.returncode == 0, done.stderr
    assert "commit 0123abcd, fingerprint " in done.stdout


def test_it_checks_documents(image: Image) -> None:
    documents = (REPOSITORY / "deploy/examples/volcano-job.yaml").read_text()
    done = image.run("muster", "check", "-", given=documents)
    assert done.returncode == 0, done.stdout + done.stderr
    done = image.run("muster", "check", "-", given=documents.replace("minAvailable: ", "minAvailable: -"))
    assert done.returncode == 1, done.stdout + done.stderr


def test_it_brings_a_database_up_to_date(image: Image, dsn: str) -> None:
    for _ in range(2):
        done = image.run("muster", "migrate", MUSTER_DSN=dsn)
        assert done.returncode == 0, done.stdout + done.stderr
        assert known_revisions()[-1].number in done.stdout


@pytest.mark.parametrize("command", ["muster run", "muster agent", "kubectl-muster pending"])
def test_its_commands_find_all_that_they_need(image: Image, command: str) -> None:
    done = image.run(*command.split(), "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"Usage: {command.replace('-', ' ')}")


def test_every_module_can_be_imported_by_a_user_without_rights(image: Image) -> None:
    everything = (
        "import importlib, os, pathlib, pkgutil, ssl, sys, zoneinfo\n"
        "for top in ('admission', 'queues'):\n"
        "    for module in pkgutil.walk_packages(importlib.import_module(top).__path__, top + '.'):\n"
        "        if not module.name.endswith('__main__'):\n"
        "            importlib.import_module(module.name)\n"
        "zoneinfo.ZoneInfo('Europe/Berlin')\n"
        "size = sum(file.lstat().st_size for file in pathlib.Path(sys.prefix).rglob('*'))\n"
        "writable = os.access(sys.prefix, os.W_OK)\n"
        "print(os.getuid(), os.getgid(), writable, len(ssl.create_default_context().get_ca_certs()) > 100, size)\n"
    )
    done = image.run("python", "-I", "-c", everything)
    assert done.returncode == 0, done.stderr[-2000:]
    *found, size = done.stdout.split()
    assert found == [str(IMAGE_USER), str(IMAGE_USER), "False", "True"]
    assert int(size) < LARGEST
