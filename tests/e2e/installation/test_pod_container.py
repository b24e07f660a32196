"""Containers of the tests: they end when they are told to, and never outlive the test that started them."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.installation.support.deployed import NEEDS_PODS
from tests.e2e.installation.support.pod_container import (
    IMAGE_ENVIRONMENT,
    IMAGE_USER,
    Container,
    ContainerSpec,
)
from tests.e2e.installation.support.pod_network import PodNetwork
from tests.waiting import alive, until

pytestmark = NEEDS_PODS
#: Says that it runs, and as who; ends by SIGTERM as it is asked to.
PROGRAM = """
import os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print("pid", os.getpid(), "user", os.getuid(), flush=True)
try:
    open("/etc/written", "w")
except OSError as error:
    print(error.strerror, flush=True)
while True:
    signal.pause()
"""


@pytest.fixture
def container(tmp_path: Path) -> Iterator[Container]:
    """One that waits for its end."""
    with PodNetwork({}).up() as network:
        spec = ContainerSpec(
            command=["python", "-I", "-c", PROGRAM],
            environment=IMAGE_ENVIRONMENT,
            network=network.add_pod().namespace,
            mounts=(),
            user=IMAGE_USER,
            group=IMAGE_USER,
            read_only=True,
        )
        started = Container.start(spec, tmp_path / "container")
        until(lambda: "Read-only" in started.log.read_text(), "the program to run")
        yield started
        started.kill()


def test_it_is_the_first_process_of_its_own_as_the_user_that_was_asked_for(container: Container) -> None:
    assert container.log.read_text().splitlines() == [
        f"pid 1 user {IMAGE_USER}",
        "Read-only file system",
    ]


def test_a_command_runs_beside_its_first_process_as_its_user(container: Container) -> None:
    assert container.entered
    asked = "import os, sys; os.write(1, b'%d %d ' % (os.getuid(), os.getppid()) + sys.stdin.buffer.read())"
    command = container.inside("python", "-I", "-c", asked)
    done = subprocess.run(
        command, input=b"\0\r\n\xff", capture_output=True, env=IMAGE_ENVIRONMENT, check=True
    )
    assert done.stdout == b"%d 0 \0\r\n\xff" % IMAGE_USER


def test_it_is_told_to_end_and_its_exit_code_is_known(container: Container) -> None:
    assert container.stop(30) == 7


def test_it_ends_when_it_is_killed_or_its_test_is(container: Container) -> None:
    first = container.first_process
    assert first is not None
    os.kill(container.pid, signal.SIGKILL)
    until(lambda: not alive(first), "the container to end")
