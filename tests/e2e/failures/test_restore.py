"""With a backup that is older than the cluster, or with nothing, Muster takes the cluster as it is and stops no pod."""

import asyncio
from pathlib import Path

from queues.sql.database import raw_connection
from tests.backup_commands import back_up, backups, restore
from tests.e2e.support.crash_harness import CrashHarness, balances_are_sums_of_open_seats
from tests.e2e.support.gang_kinds import finish_all
from tests.e2e.support.manifests import batch_job, volcano_job
from tests.e2e.support.sandbox import GPU, Sandbox


def test_a_backup_from_before_is_brought_up_to_the_cluster(harness: CrashHarness, tmp_path: Path) -> None:
    stack = harness.stack
    harness.leave()
    harness.leads(harness.start())
    with harness.sandbox("hour-old") as sandbox:  # three nodes of 8 GPUs
        sandbox.add(volcano_job(sandbox, "ended", 4, 2), batch_job(sandbox, "running", 2, 4))
        sandbox.wait_running("ended", 4)
        sandbox.wait_running("running", 2)
        sandbox.add(volcano_job(sandbox, "waiting", 3, 4))
        sandbox.wait_reason("waiting", "NoFit")
        done = back_up(stack.dsn, tmp_path)
        assert done.returncode == 0, done.stderr
        (file,) = backups(tmp_path)

        # What the backup does not know of: one ends, one starts, one comes and starts.
        finish_all(sandbox, "ended")
        sandbox.wait_running("waiting", 3)
        sandbox.add(batch_job(sandbox, "later", 1, 4), volcano_job(sandbox, "still-waits", 2, 8))
        sandbox.wait_running("later", 1)
        sandbox.wait_reason("still-waits", "NoFit")
        pods = uids(sandbox)

        harness.leave()
        dsn = new_database(harness, "restored")
        done = restore(tmp_path / file, dsn)
        assert done.returncode == 0, done.stderr
        begin_with(harness, dsn, sandbox)
        # Exactly what runs is held: 2 x 4, 3 x 4 and 1 x 4 GPUs.
        sandbox.wait(lambda: gpus_held(sandbox) == 24, "the ledger to hold what runs")
        assert sandbox.wait_reason("still-waits", "NoFit")
        assert uids(sandbox) >= pods, "pods were stopped"
        assert len(sandbox.running("later")) == 1
        assert stack.muster("ledger", "verify", "--dsn", dsn).stdout.startswith("Every balance")
        balances_are_sums_of_open_seats(sandbox.ledger)
        # It goes on: the room of what ends is given to what waits.
        finish_all(sandbox, "waiting")
        finish_all(sandbox, "later")
        sandbox.wait_running("still-waits", 2)


def uids(sandbox: Sandbox) -> set[str]:
    """Pods that are there and stay."""
    return {pod["metadata"]["uid"] for pod in sandbox.pods() if not pod["metadata"].get("deletionTimestamp")}


def gpus_held(sandbox: Sandbox) -> int:
    """By the sandbox's queue."""
    [(units,)] = sandbox.ledger.ask(
        "SELECT coalesce(sum(own), 0)::bigint FROM queue_balances WHERE queue = $1 AND resource = $2",
        *(sandbox.queues[0], GPU),
    )
    return int(units) // 1000


def new_database(harness: CrashHarness, name: str) -> str:
    """A database next to the other one, at the same server; its DSN."""

    async def run() -> None:
        connection = await raw_connection(harness.stack.dsn)
        await connection.execute(f'CREATE DATABASE "{name}"')
        await connection.close()

    asyncio.run(run())
    return str(harness.stack.postgres.dsn(name))


def begin_with(harness: CrashHarness, dsn: str, sandbox: Sandbox) -> None:
    """As the how-to says: migrate, adopt the cluster, start. From now on the ledger asked is this one."""
    stack = harness.stack
    stack.muster("migrate", "--dsn", dsn)
    stack.muster("ledger", "adopt-cluster", "--kubeconfig", stack.cluster.kubeconfig, "--dsn", dsn)
    harness.leads(harness.start(MUSTER_DSN=dsn))
    harness.asks_ledger_of(dsn)
    sandbox.ledger = harness.ledger
