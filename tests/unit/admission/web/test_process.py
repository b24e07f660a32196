"""A process beside the leader ends without a word when the one that started it is gone, and says what it failed at."""

import os
import subprocess
import sys
from pathlib import Path
from subprocess import DEVNULL, PIPE

import msgspec

from admission.web.supervision import ServingOrder
from tests.waiting import LIMIT

COMMAND = [sys.executable, "-m", "admission.web.process"]


def order(role: str, folder: Path) -> bytes:
    """An order that cannot be carried out: there is no cluster."""
    settings: dict[str, object] = {"kubeconfig": str(folder / "missing")}
    found = ServingOrder(role=role, dsn="postgresql://nowhere", settings=settings, channel="/nowhere")
    return msgspec.json.encode(found) + b"\n"


def test_a_process_without_an_order_ends_in_silence() -> None:
    done = subprocess.run(COMMAND, input=b'{"role": "re', capture_output=True, check=False, timeout=LIMIT)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_process_that_fails_while_its_parent_is_there_says_so_and_ends_in_order(tmp_path: Path) -> None:
    with subprocess.Popen(COMMAND, stdin=PIPE, stdout=DEVNULL, stderr=PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(order("read", tmp_path))
        process.stdin.flush()
        told = process.stderr.read().decode()
    assert process.returncode == 1
    assert "read failed" in told
    assert "Fatal Python error" not in told


def test_the_read_api_stands_back_behind_the_leader_also_where_sessions_share_the_processor() -> None:
    script = (
        "import os; from admission.web.process import lower_priority; lower_priority(15); print(os.nice(0))"
    )
    session = Path("/proc/self/autogroup")
    if session.exists():
        script += f"; print(open({str(session)!r}).read())"
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, text=True, start_new_session=True
    ).stdout.split()
    assert told[0] == str(min(19, os.nice(0) + 15))
    assert not session.exists() or told[-1] == "15"
