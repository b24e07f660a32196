"""Options of ``quota set`` for limits of users, gangs and run times (``spec.access``), and what they change."""

from collections.abc import Mapping
from typing import Any, Final

import click

from admission.cli.access.objects import ClusterRoute
from admission.cli.access.queue_objects import PATIENCE, QueueObject
from admission.cli.access.read_api import Route, ask
from admission.cli.options import AMOUNTS, Command
from admission.cli.rendering.sentences import say
from admission.cli.rendering.table import moment, stated_seconds
from admission.cli.resource_names import full_resource
from admission.cli.times import LastingTime
from admission.read_api.bodies import WorkloadList
from queues.api.quota.access_limits import PER_USER, AccessChanges, access_limits_of, field_of
from queues.api.quota.quota_document import shown_amount
from queues.errors import MusterError
from queues.text_format import counted, listed, span

#: What removes a limit.
_NONE: Final = "none"
_REMOVED: Final = ("", "-")
#: Options by the field of ``spec.access`` that they set.
_OPTIONS: Final = {
    "max_run_time": "maxRunTime",
    "max_gang": "maxGang",
    "max_pending": "maxPending",
    "max_pending_per_user": "maxPendingPerUser",
}
#: Lines of one answer of the read API.
_PAGE: Final = 1000


class _OrNone(click.ParamType[Any]):
    """A value of another type, or ``none``."""

    def __init__(self, inner: click.ParamType[Any]) -> None:
        self._inner = inner
        self.name = inner.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return _NONE if value == _NONE else self._inner.convert(value, param, ctx)


def access_options(command: Command) -> Command:
    """Add the options; the command gets them by the names of ``asked_access``."""
    for name, kind, metavar, text in reversed(
        (
            ("--max-run-time", LastingTime(), "DURATION", "How long work may run; then it is ended: 4h."),
            ("--max-gang", click.IntRange(1, 1_000_000), "PODS", "Most pods of one gang."),
            (
                "--max-pending",
                click.IntRange(0, 10_000_000),
                "NUMBER",
                "Workloads that are considered at a time; more wait.",
            ),
            ("--max-pending-per-user", click.IntRange(0, 10_000_000), "NUMBER", "The same, of one user."),
        )
    ):
        command = click.option(name, type=_OrNone(kind), metavar=metavar, help=f"{text} none: no limit.")(
            command
        )
    return click.option("--max-per-user", metavar=AMOUNTS, help="What one user may use at a time: gpu=8.")(
        command
    )


def asked_access(given: Mapping[str, Any]) -> dict[str, str | int | None]:
    """The limits to set, by field; the value None removes a limit. Raises UsageError."""
    found: dict[str, str | int | None] = {}
    for option, limit in _OPTIONS.items():
        value = given.get(option)
        if value is not None:
            usual = span(int(value.removesuffix("s"))) if limit == "maxRunTime" and value != _NONE else value
            found[field_of(limit)] = None if value == _NONE else usual
    text = given.get("max_per_user")
    for part in text.split(",") if text is not None else ():
        name, sign, quantity = part.strip().partition("=")
        if not sign or not name or quantity.startswith("+"):
            raise click.UsageError(
                f"--max-per-user: found {part!r}, expected {AMOUNTS}: gpu=8,cpu=128; gpu= removes the limit."
            )
        resource = full_resource("--max-per-user", name)
        field = field_of(PER_USER, resource)
        if field in found:
            raise click.UsageError(f"--max-per-user: found {resource} twice, expected it once.")
        found[field] = None if quantity in _REMOVED else shown_amount(resource, quantity)
    return found


def changed_access(queue: QueueObject, asked: AccessChanges) -> dict[str, str | int | None]:
    """Those that the queue does not state already."""
    stated = access_limits_of(queue.spec)
    return {field: value for field, value in asked.items() if not _same(stated.get(field), value)}


def _same(stated: str | None, wanted: str | int | None) -> bool:
    """Whether two values mean the same: ``240m`` and ``4h`` do."""
    if stated is None or wanted is None:
        return stated is wanted
    seconds = stated_seconds(stated)
    return stated == str(wanted) or (seconds is not None and seconds == stated_seconds(wanted))


def access_rows(queue: QueueObject, changes: AccessChanges) -> list[list[str | int | None]]:
    """Cells of the table of changes: queue, field, before, an arrow, after."""
    stated = access_limits_of(queue.spec)
    return [[queue.name, field, stated.get(field), "→", value] for field, value in changes.items()]


# -- what is shown before -------------------------------------------------------------------------------------


def tell_access(route: ClusterRoute, queue: QueueObject, changes: AccessChanges) -> None:
    """Print which work would be ended."""
    longest = stated_seconds(changes.get(field_of("maxRunTime")))
    if not longest:
        return
    read = Route(kubeconfig=route.kubeconfig, context=route.context, timeout=min(route.timeout, PATIENCE))
    asked = {"queue": queue.name, "state": "admitted", "limit": str(_PAGE)}
    try:
        ended = _ended(ask(read, "workloads", WorkloadList, asked), longest)
    except MusterError as error:
        ended = f"What this does to running work is not known: {error}"
    if ended:
        say(ended)


def _ended(body: WorkloadList, longest: int) -> str:
    """The workloads that have run for longer than the limit allows; "": none."""
    now = moment(body.now).timestamp()
    late = [
        f"{each.namespace}/{each.name}"
        for each in body.items
        if each.admitted and now - moment(each.admitted).timestamp() > longest
    ]
    if not late:
        return ""
    count = "at least " if body.total > len(body.items) else ""
    word = "has" if len(late) == 1 else "have"
    return (
        f"Warning: {count}{counted(len(late), 'running workload')} that you may see {word} run for longer, and "
        f"would be ended at once and not run again: {listed(late)}"
    )
