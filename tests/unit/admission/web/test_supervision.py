"""The processes beside the leader come back when they end, and go with the one that started them."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from subprocess import DEVNULL, PIPE

import msgspec

from admission.kube.webhook.validity import Validity
from admission.web.supervision import ServingOrder, ServingProcess, certificates_line
from tests.waiting import LIMIT, alive, in_background, until

ORDER = ServingOrder(role="read", dsn="postgresql://secret", settings={}, channel="/nowhere")
#: Serves until its input ends; its pid, and the order that it got, are in the file.
SERVES = """
import os, pathlib, sys
order = sys.stdin.readline()
print("open", flush=True)
file = pathlib.Path(sys.argv[1])
file.write_text(file.read_text() + f"{os.getpid()} {order}" if file.exists() else f"{os.getpid()} {order}")
sys.stdin.read()
"""


def process(file: Path) -> ServingProcess:
    return ServingProcess(ORDER, [sys.executable, "-c", SERVES, str(file)])


def pids(file: Path) -> list[int]:
    return [int(line.split()[0]) for line in file.read_text().splitlines()] if file.exists() else []


async def becomes(number: int, file: Path) -> None:
    async with asyncio.timeout(LIMIT):
        while len(pids(file)) < number:  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.01)


async def test_a_process_that_ends_is_started_again_and_ends_with_its_supervisor(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    serving = process(file)
    assert await serving.problem() == "the read process is still starting"
    async with in_background(serving.run()):
        await becomes(1, file)
        await asyncio.wait_for(serving.open.wait(), LIMIT)
        assert await serving.problem() is None

        os.kill(pids(file)[0], 9)
        await becomes(2, file)
        await asyncio.wait_for(serving.open.wait(), LIMIT)

    assert "postgresql://secret" in file.read_text()
    assert [alive(pid) for pid in pids(file)] == [False, False]
    assert not serving.open.is_set()


async def test_a_process_tells_when_its_certificates_are_valid(tmp_path: Path) -> None:
    serves = Validity(begins=1_790_000_000, ends=1_800_000_000)
    signs = Validity(begins=1_780_000_000, ends=1_900_000_000)
    line = certificates_line(serves, signs).decode()
    program = f"import sys; print({line!r}, end='', flush=True); print('open', flush=True); sys.stdin.read()"
    serving = ServingProcess(ORDER, [sys.executable, "-c", program])
    assert serving.certificates == {}
    async with in_background(serving.run()):
        await asyncio.wait_for(serving.open.wait(), LIMIT)
    assert serving.certificates == {"serving": serves, "authority": signs}


STARTS = """
import asyncio, sys
from admission.web.supervision import ServingOrder, ServingProcess
order = ServingOrder(role="read", dsn="", settings={}, channel="")
asyncio.run(ServingProcess(order, [sys.executable, "-c", sys.argv[1], sys.argv[2]]).run())
"""


def test_a_process_ends_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    parent = subprocess.Popen([sys.executable, "-c", STARTS, SERVES, str(file)])
    try:
        until(lambda: len(pids(file)) == 1, "the process to start")
    finally:
        parent.kill()
        parent.wait()

    until(lambda: not alive(pids(file)[0]), "the process to end")


# ── the process itself ──────────────────────────────────────────────────────────────────────────────────────


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
