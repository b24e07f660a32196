"""Commands and options that were taken out: whoever calls one reads in one sentence what to use instead."""

from collections.abc import Callable
from typing import Any, Final

import click

#: Commands by how they were called, and what to use instead.
REMOVED_COMMANDS: Final = {
    "muster backup": "pg_dump writes backups, and the chart's CronJob runs it (value `backup.enabled`): see Backup and"
    " restore in docs/how-to/operate.md",
    "muster restore": "pg_restore restores what pg_dump wrote, and `muster migrate` brings it to this version: see"
    " Restore in docs/how-to/operate.md",
    "muster simulate": "recorded traces are played in a checkout of the sources: `python -m tests.bench.simulate`, see"
    " docs/reference/benchmarks.md",
    "muster failed-turns": "a turn that could not be decided is a file in failedTurnsDir, and the log line `failed"
    " turn kept` has the command that copies it",
    "muster pause": "`kubectl muster queue pause QUEUE` stops the admissions of a queue, and of all where"
    " QUEUE is root",
    "muster resume": "`kubectl muster queue resume QUEUE` starts them again",
    "kubectl muster queue list": "`kubectl muster queues` shows the tree of queues",
    "kubectl muster queue get": "`kubectl muster queues QUEUE` shows a queue and those below it",
    "kubectl muster job view": "`kubectl muster explain NAME` shows everything about a workload",
    "kubectl muster jobflow": "`kubectl get jobflows` and `kubectl describe jobflow NAME` show a flow with what each"
    " of its Jobs waits for, `kubectl muster jobs` its Jobs, and `kubectl delete jobflow NAME` removes it",
    "kubectl muster top": "`kubectl muster queues -w` and `kubectl muster pending -A -w` show the same as it changes,"
    " and `kubectl muster page` in a browser",
    "kubectl muster quota move": "`kubectl muster quota set FROM --deserved gpu=24`, then the same for TO, moves it"
    " for good, and `kubectl muster quota lend` until a time",
    "kubectl muster quota diff": "`kubectl muster quota history QUEUE --since TIME` shows each change, and `kubectl"
    " muster quota show QUEUE --at TIME` what it had",
}


def removed_option(name: str, instead: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """An option that was taken out, with or without a value. ``instead``: what to use, as the end of a sentence."""

    def refuse(context: click.Context, _: click.Parameter, value: object) -> None:
        if value is not None:
            raise click.UsageError(f"{name} was removed: {instead}.", context)

    return click.option(
        name, is_flag=False, flag_value="", hidden=True, expose_value=False, is_eager=True, callback=refuse
    )
