"""``make demo``, the tutorial that follows it, and what is left of it when it is killed: nothing."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from deploy.local.processes import StateDirectory
from tests.console_sessions import Exchange, exchanges
from tests.waiting import LIMIT, until

ROOT = Path(__file__).parents[3]
TUTORIAL = list(exchanges(ROOT / "docs/tutorial/first-gang.md"))


@dataclass(slots=True)
class Demo:
    """A demo in a process of its own, with temporary files of its own."""

    process: "subprocess.Popen[str]"
    temporary: Path
    lines: list[str] = field(default_factory=list)
    _reader: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as output:
            for line in output:
                self.lines.append(line.rstrip("\n"))

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        self.process.wait(LIMIT)
        self._reader.join(LIMIT)
        shutil.rmtree(self.temporary, ignore_errors=True)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def wait_for(self, text: str) -> None:
        until(
            lambda: text in self.text or self.process.poll() is not None,
            f"{text!r} in\n{self.text}",
        )
        assert text in self.text, self.text

    def environment(self) -> dict[str, str]:
        """With what the demo says one should export."""
        exported = dict(re.findall(r"^export (\w+)=(.*)$", self.text, re.MULTILINE))
        exported["PATH"] = exported["PATH"].replace("$PATH", os.environ["PATH"])
        return {**os.environ, **exported}

    def processes(self) -> list[str]:
        """Whatever lives in its temporary folder or knows about it."""
        return [
            f"{entry.name}: {command}"
            for entry in Path("/proc").iterdir()
            if entry.name.isdigit() and int(entry.name) != os.getpid()
            for command in [_knows(entry, str(self.temporary))]
            if command is not None
        ]

    def wait_gone(self) -> None:
        until(lambda: not self.processes(), "every process of the demo to end")


def _knows(process: Path, folder: str) -> str | None:
    """The command line of a live process, if its arguments, environment or directory name a folder."""
    try:
        if process.joinpath("stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return None
        command = process.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        told = command + process.joinpath("environ").read_bytes().decode(errors="replace")
        told += os.readlink(process / "cwd")
    except OSError:
        return None
    return command if folder in told else None


Start = Callable[..., Demo]


@pytest.fixture(scope="module")
def start_demo(kubernetes_binaries: dict[str, Path]) -> Iterator[Start]:
    started: list[Demo] = []

    def start(*, wrapper: tuple[str, ...] = (), **environment: str) -> Demo:
        # Short, because sockets live in it; others may pass through, because Postgres must not be root.
        temporary = Path(tempfile.mkdtemp(prefix="md-", dir="/tmp"))
        temporary.chmod(0o711)
        process = subprocess.Popen(
            [*wrapper, sys.executable, "-m", "deploy.demo"],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(temporary), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(Demo(process, temporary))
        return started[-1]

    yield start
    for demo in started:
        demo.close()


@pytest.fixture(scope="module")
def kept_demo(start_demo: Start) -> Demo:
    """``make demo KEEP=1``, when it has printed what to try."""
    demo = start_demo(KEEP="1")
    demo.wait_for(TUTORIAL[0].expected[-2])
    demo.wait_for("kubectl delete vcjob one-rack -n vision")
    return demo


def test_the_demo_shows_what_the_tutorial_says(kept_demo: Demo) -> None:
    assert TUTORIAL[0].command == "make demo KEEP=1"
    assert TUTORIAL[0].matches(kept_demo.text), kept_demo.text


def test_the_demo_goes_on_without_its_leader(kept_demo: Demo) -> None:
    assert re.search(r"The second one took over: \d+ s later the small pod", kept_demo.text), kept_demo.text


def test_the_demo_gets_back_what_was_lent_and_no_more(kept_demo: Demo) -> None:
    night = kept_demo.text.partition("22:00  Robotics")[2].partition("has ended")[0]
    assert "vcjob/night-batch runs with 6 of 7 pods" in night, kept_demo.text
    assert "job/evaluation runs with 1 of 1 pods" in night, kept_demo.text


def test_the_demo_has_a_page_to_look_at(kept_demo: Demo) -> None:
    found = re.search(r"^http://127\.0\.0\.1:\d+/\?secret=\S+$", kept_demo.text, re.M)
    assert found, kept_demo.text
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with opener.open(found.group(), timeout=LIMIT) as page:
        assert "robotics-main" in page.read().decode()


def test_the_demo_shows_a_job_that_leaves_a_node_whose_gpu_fails(kept_demo: Demo) -> None:
    assert re.search(r"GPU 0 of \S+ fails \(XID 79\) under job/tune\.", kept_demo.text, re.M), kept_demo.text


def run(exchange: Exchange, environment: dict[str, str]) -> str:
    done = subprocess.run(
        ["bash", "-c", exchange.command],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    return done.stdout


def test_every_command_of_the_tutorial_prints_what_it_says(kept_demo: Demo) -> None:
    environment = kept_demo.environment()
    for exchange in TUTORIAL[1:]:
        printed = run(exchange, environment)
        if re.match(r"kubectl (get|muster) ", exchange.command):
            # A reader takes longer than a test to get here.
            answers = [printed]

            def says_so(exchange: Exchange = exchange, answers: list[str] = answers) -> bool:
                if exchange.matches(answers[-1]):
                    return True
                answers.append(run(exchange, environment))
                return False

            try:
                until(says_so, f"$ {exchange.command}")
            except AssertionError as error:
                expected = "\n".join(exchange.expected)
                raise AssertionError(f"{error}\nto print\n{expected}\ninstead of\n{answers[-1]}") from None
        else:
            assert exchange.matches(printed), f"$ {exchange.command}\n{printed}"


def test_interrupted_after_its_end_the_demo_stops_in_order(kept_demo: Demo) -> None:
    kept_demo.process.send_signal(signal.SIGINT)
    assert kept_demo.process.wait(LIMIT) == 0, kept_demo.text
    assert kept_demo.processes() == []
    assert [path.name for path in kept_demo.temporary.rglob("*") if path.name == "etcd"] == []


@pytest.mark.long
def test_a_demo_whose_make_is_killed_leaves_no_process(start_demo: Start) -> None:
    # A shell in make's place. It must not replace itself by its only command.
    demo = start_demo(wrapper=("bash", "-c", '"$@"; exit $?', "make"), MAKELEVEL="1")
    # Then it has a child without a supervisor: the command itself.
    demo.wait_for("`muster install`")
    demo.process.kill()
    demo.wait_gone()


@pytest.mark.long
def test_a_demo_that_is_killed_leaves_no_process_and_the_next_start_removes_its_files(
    start_demo: Start,
) -> None:
    demo = start_demo()
    demo.wait_for("09:00  Language brings a gang of 4 × 8 GPUs.")
    assert len(demo.processes()) > 10
    demo.process.kill()
    demo.wait_gone()
    runs = demo.temporary / f"muster-{os.getuid()}"
    assert [run for run in runs.iterdir() if run.is_dir()], "the killed one had no time to clean up"
    StateDirectory.fresh(runs).close()
    assert [run for run in runs.iterdir() if run.is_dir()] == []
