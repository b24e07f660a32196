"""Upgrade and downgrade as the how-to describes them, between two schema versions, while gangs come and go."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

import pytest

from deploy.local.stack import Replica
from tests.cluster_faults import leads, readiness
from tests.e2e.support.api_paths import path
from tests.e2e.support.crash_harness import (
    SHORT,
    CrashHarness,
    balances_are_sums_of_open_seats,
    each_pod_once,
    log_of,
    nodes_never_above,
)
from tests.e2e.support.manifests import volcano_job
from tests.e2e.support.sandbox import Sandbox
from tests.e2e.upgrades.next_version import BEFORE, POST, PRE, NextVersion
from tests.waiting import until

#: Pods of a gang, and seconds between two of them.
PODS: Final = 2
EVERY: Final = 1.0
WAITING: Final = "waiting for a schema that this version knows"


@pytest.fixture(scope="module")
def following(tmp_path_factory: pytest.TempPathFactory) -> NextVersion:
    return NextVersion.written_into(tmp_path_factory.mktemp("next-version"))


class GangStream:
    """A gang a second from another thread, until the block ends; then all of them have run to their end."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._created: dict[str, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send, name="gangs")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        if error is None:
            names = list(self._created)
            self._sandbox.wait(lambda: all(map(self._is_over, names)), f"{len(names)} gangs to end")

    def _send(self) -> None:
        with self._sandbox.stack.cluster.client() as api:
            while not self._stop.wait(EVERY):
                name = f"gang{len(self._created)}"
                job = volcano_job(self._sandbox, name, PODS, annotations=SHORT)
                self._created[name] = time.monotonic()
                api.create(path("Job", self._sandbox.name), job)

    def _is_over(self, name: str) -> bool:
        return self._sandbox.phase("Job", name) == "Completed"

    def wait_for_more(self, number: int = 3) -> None:
        """Until so many gangs that are created from now on are bound."""
        first = len(self._created)
        wanted = [f"gang{index}" for index in range(first, first + number)]
        until(lambda: set(wanted) <= self._bound().keys(), f"{wanted} to be bound")

    def _bound(self) -> dict[str, float]:
        """When the last pod of a gang was bound, of those of which all are."""
        times: dict[str, dict[str, float]] = {}
        for moment in self._sandbox.history.of(self._sandbox.name):
            gang = moment.name.partition("/")[2].partition("-")[0]
            if moment.node:
                times.setdefault(gang, {}).setdefault(moment.name, moment.at)
        return {gang: max(of.values()) for gang, of in times.items() if len(of) == PODS}

    def prove(self) -> float:
        """Nothing lost, nothing doubled. The longest wait of a gang, in seconds."""
        sandbox = self._sandbox
        moments = sandbox.history.of(sandbox.name)
        each_pod_once(moments, dict.fromkeys(self._created, PODS))
        nodes_never_above(moments, 8)
        for name in self._created:
            decided = Counter(kind for kind, _, _ in sandbox.ledger.decisions(sandbox.name, name))
            assert (decided["admit"], decided["evict"]) == (1, 0), (name, decided)
        sandbox.wait_free()
        balances_are_sums_of_open_seats(sandbox.ledger)
        waited = {name: at - self._created[name] for name, at in self._bound().items()}
        assert waited.keys() == self._created.keys()
        return max(waited.values())


def test_replicas_are_replaced_one_by_one_while_gangs_are_admitted(
    harness: CrashHarness, following: NextVersion, capsys: pytest.CaptureFixture[str]
) -> None:
    stack = harness.stack
    old, second = _old_replicas(harness, following)
    with harness.sandbox("upgrade") as sandbox:
        with GangStream(sandbox) as gangs:
            gangs.wait_for_more()
            told = following.muster(stack, "migrate").stdout
            assert told.splitlines()[0] == f"The schema is at {PRE}."
            assert "`muster migrate --finish` brings it to 9999" in told

            # The old version goes on to admit, and does not run what would break it.
            gangs.wait_for_more()
            until(lambda: leads(old) or leads(second), "a replica of the old version to lead")
            refused = following.muster(stack, "migrate", "--finish", check=False)
            assert refused.returncode == 1
            assert f"'muster {BEFORE}'" in refused.stderr
            assert "Replace or stop these replicas" in refused.stderr
            assert len(refused.stderr.splitlines()) == 1
            assert _revision(harness) == PRE

            late = _waits(harness)
            harness.forget(late)

            new = harness.start(tree=following.tree)
            harness.forget(second)
            harness.forget(old)
            harness.leads(new)
            gangs.wait_for_more()

            told = following.muster(stack, "migrate", "--finish").stdout
            assert told == f"The schema is at {POST}.\n"
            gangs.wait_for_more()
        longest = gangs.prove()
        filled = harness.ledger.ask("SELECT count(*) FROM workloads WHERE of_next_version = 'filled'")
        assert filled[0][0] > 0, "no workload was stored after the last migration"
    with capsys.disabled():
        print(f"\nupgrade: the longest wait of a gang was {longest:.1f} s")


def test_the_way_back_loses_nothing_either(
    harness: CrashHarness, following: NextVersion, capsys: pytest.CaptureFixture[str]
) -> None:
    harness.leave()
    following.muster(harness.stack, "migrate", "--finish")
    new = harness.start(tree=following.tree)
    harness.leads(new)
    with harness.sandbox("downgrade") as sandbox:
        with GangStream(sandbox) as gangs:
            gangs.wait_for_more()
            late = _waits(harness)
            harness.forget(new)
            assert following.muster(harness.stack, "migrate", "--to", BEFORE).stdout == (
                f"The schema is at {BEFORE}.\n"
            )
            # The replica that has waited for its schema begins by itself.
            harness.leads(late)
            gangs.wait_for_more()
        longest = gangs.prove()
    with capsys.disabled():
        print(f"\ndowngrade: the longest wait of a gang was {longest:.1f} s")


def _old_replicas(harness: CrashHarness, following: NextVersion) -> tuple[Replica, Replica]:
    """Two replicas of these sources on their own schema; the first one leads."""
    harness.leave()
    if _revision(harness) not in ("", BEFORE):
        following.muster(harness.stack, "migrate", "--to", BEFORE)
    first = harness.start()
    harness.leads(first)
    return first, harness.start()


def _revision(harness: CrashHarness) -> str:
    """Of the schema; "": there is none yet."""
    if harness.ledger.ask("SELECT to_regclass('alembic_version')::text") == [(None,)]:
        return ""
    return str(harness.ledger.ask("SELECT version_num FROM alembic_version")[0][0])


def _waits(harness: CrashHarness) -> Replica:
    """A replica of the old version that starts beside a schema that is too new: it says so once, and stays."""
    late = harness.start(wait=False)
    said: Callable[[], str] = lambda: late.log.read_text(errors="replace")  # noqa: E731
    until(lambda: WAITING in said(), f"{late.name} to say that it waits\n{log_of(late)}")
    until(lambda: "does not know" in readiness(late), f"{late.name} to say so at /readyz")
    assert late.process.running
    assert not leads(late)
    assert said().count(WAITING) == 1
    return late
