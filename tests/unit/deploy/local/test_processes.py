"""Nothing that was started outlives the one who started it, and nothing it leaves on disk stays."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.local.processes import DirectoryInUse, StateDirectory, default_runs
from queues.sql.embedded.programs import UnsafeFolder
from queues.sql.embedded.supervised import ProcessDidNotStart, Program, SupervisedProcess
from tests.waiting import LIMIT, alive, until

SLEEPS = ["sleep", "600"]
DEAF = [
    sys.executable,
    "-c",
    "import signal,time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)",
]


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., SupervisedProcess]:
    def start(argv: list[str], **how: object) -> SupervisedProcess:
        return SupervisedProcess.start(Program(argv=argv, log=tmp_path / "log", cwd=tmp_path, **how))  # type: ignore[arg-type]

    return start


def parent(script: str, folder: Path) -> "subprocess.Popen[str]":
    """A process that runs a script in which ``start()`` gives the pid of a guarded child."""
    prelude = f"""
        import sys, threading, time
        from pathlib import Path
        from deploy.local.processes import StateDirectory, die_with_parent
        from queues.sql.embedded.supervised import SupervisedProcess, Program
        folder = Path({str(folder)!r})
        def start(lock=None, argv={SLEEPS!r}):
            child = SupervisedProcess.start(Program(argv=argv, log=folder / "log", cwd=folder, lock=lock, grace=60))
            print(child.pid, flush=True)
            return child
    """
    code = textwrap.dedent(prelude) + textwrap.dedent(script)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def said(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def end(process: "subprocess.Popen[str]", number: signal.Signals) -> None:
    process.send_signal(number)
    process.communicate()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_children_end_with_their_parent(tmp_path: Path, number: signal.Signals) -> None:
    process = parent("one = start()\ntwo = start()\ntime.sleep(600)", tmp_path)
    children = [int(said(process)), int(said(process))]
    assert all(alive(pid) for pid in children)
    end(process, number)
    until(lambda: not any(alive(pid) for pid in children), "the children to end")


def test_even_deaf_children_end_soon_after_their_parent(tmp_path: Path) -> None:
    process = parent(f"start(argv={DEAF!r})\ntime.sleep(600)", tmp_path)
    child = int(said(process))
    until(lambda: "deaf" in (tmp_path / "log").read_text(), "the child to close its ears")
    end(process, signal.SIGKILL)
    until(lambda: not alive(child), "the child to end")


def test_a_child_does_not_end_with_the_thread_that_started_it(
    start: Callable[..., SupervisedProcess],
) -> None:
    started: list[SupervisedProcess] = []
    thread = threading.Thread(target=lambda: started.append(start(SLEEPS)))
    thread.start()
    thread.join()
    assert not started[0].wait(0.2)
    started[0].stop()
    assert not alive(started[0].pid)


def test_a_child_ends_with_its_supervisor(tmp_path: Path) -> None:
    process = parent("one = start()\nprint(one._supervisor.pid, flush=True)\ntime.sleep(600)", tmp_path)
    child, supervisor = int(said(process)), int(said(process))
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: not alive(child), "the child to end")
    end(process, signal.SIGKILL)


def test_the_deaf_are_killed_after_their_grace(
    start: Callable[..., SupervisedProcess], tmp_path: Path
) -> None:
    child = start(DEAF, grace=0.1)
    until(lambda: "deaf" in (tmp_path / "log").read_text(), "the child to close its ears")
    child.stop()
    assert not alive(child.pid)
    assert child.returncode == 128 + signal.SIGKILL


def test_the_paused_can_be_stopped(start: Callable[..., SupervisedProcess]) -> None:
    child = start(SLEEPS)
    child.send(signal.SIGSTOP)
    child.stop()
    assert child.returncode == 128 + signal.SIGTERM


def test_stopping_twice_is_stopping_once(start: Callable[..., SupervisedProcess]) -> None:
    child = start(SLEEPS)
    child.kill9()
    child.stop()
    child.send(signal.SIGTERM)
    assert child.returncode == 128 + signal.SIGKILL


def test_an_exit_status_is_handed_on(start: Callable[..., SupervisedProcess]) -> None:
    child = start(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert child.wait(LIMIT)
    assert child.returncode == 3
    child.stop()


def test_what_cannot_be_started_says_so(start: Callable[..., SupervisedProcess]) -> None:
    with pytest.raises(ProcessDidNotStart, match="/no/such/program"):
        start(["/no/such/program"])


def test_a_program_ends_with_the_make_that_started_it(tmp_path: Path) -> None:
    inner = """
from deploy.local.processes import die_with_parent
import os, time
os.environ["MAKELEVEL"] = "1"
die_with_parent()
print(os.getpid(), flush=True)
time.sleep(600)
"""
    script = f"import subprocess; subprocess.run([sys.executable, '-c', {inner!r}])"
    process = parent(script, tmp_path)
    child = int(said(process))
    end(process, signal.SIGKILL)
    until(lambda: not alive(child), "the program to end")


def test_a_fresh_directory_goes_when_it_is_closed(tmp_path: Path) -> None:
    state = StateDirectory.fresh(tmp_path)
    (state.path / "file").write_text("x")
    state.close()
    state.close()
    assert not state.path.exists()


def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path: Path) -> None:
    script = """
        state = StateDirectory.fresh(folder)
        print(state.path, flush=True)
        start(state.lock)
        time.sleep(600)
    """
    process = parent(script, tmp_path)
    left, child = Path(said(process)), int(said(process))
    running = StateDirectory.fresh(tmp_path)
    assert left.exists(), "its owner lives"
    end(process, signal.SIGKILL)
    until(lambda: not alive(child), "the child to end")

    def swept() -> bool:
        StateDirectory.fresh(tmp_path).close()
        return not left.exists()

    until(swept, "the directory to be swept")
    assert running.path.exists()
    running.close()


def test_a_directory_has_one_owner_at_a_time(tmp_path: Path) -> None:
    first = StateDirectory.named(tmp_path / "state")
    with pytest.raises(DirectoryInUse, match="state"):
        StateDirectory.named(tmp_path / "state", patience=0)
    first.close()
    second = StateDirectory.named(tmp_path / "state", patience=0)
    second.close()
    assert second.path.exists()


def test_a_folder_that_others_can_write_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / f"muster-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(UnsafeFolder):
        default_runs()
