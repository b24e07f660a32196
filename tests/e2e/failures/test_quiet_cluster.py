"""Where nothing is wrong Muster says nothing."""

import re
import urllib.request
from typing import Final

from deploy.local.stack import Replica
from tests.e2e.support.crash_harness import LONG_LEASE, CrashHarness, wait_quiet
from tests.e2e.support.manifests import batch_job, volcano_job
from tests.waiting import LIMIT, until

IN_A_HURRY: Final = ("-m", "tests.e2e.support.muster_in_a_hurry")
#: Of a machine that is too busy with other tests.
OF_THE_MACHINE: Final = "event loop stood still"


def test_a_cluster_in_which_nothing_happens_logs_no_warning(harness: CrashHarness) -> None:
    """One gang runs and another waits, while each watch is opened again twice, by either side."""
    harness.leave()
    leader = harness.start(program=IN_A_HURRY, **LONG_LEASE)
    with harness.sandbox("quiet") as sandbox:
        sandbox.add(volcano_job(sandbox, "runs", 4))
        sandbox.wait_running("runs", 4)
        sandbox.add(batch_job(sandbox, "waits", 3, 8))
        sandbox.wait_reason("waits", "NoFit")
        wait_quiet(sandbox)
        read, opened = leader.log.stat().st_size, watches_opened(leader)
        until(lambda: watches_opened(leader) >= opened + 2 * kinds(leader), "all watches to be opened again")
        with leader.log.open("rb") as log:
            log.seek(read)
            lines = log.read().decode().splitlines()
        warned = [line for line in lines if re.search(r" (WARNING|ERROR|CRITICAL) ", line)]
        assert [line for line in warned if OF_THE_MACHINE not in line] == []


def watches_opened(replica: Replica) -> int:
    found = re.search(r'^muster_api_requests_total{code="200",verb="WATCH"} (\S+)$', metrics(replica), re.M)
    assert found is not None
    return int(float(found[1]))


def kinds(replica: Replica) -> int:
    """How many kinds of objects are watched."""
    return len(re.findall(r"^muster_informer_silent_seconds{", metrics(replica), re.M))


def metrics(replica: Replica) -> str:
    with urllib.request.urlopen(f"{replica.http}/metrics", timeout=LIMIT) as answer:
        text: str = answer.read().decode()
        return text
