"""``kubectl muster quota set``: change limits of a queue, after showing what changes."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final

import click

from admission.cli.access.queue_objects import (
    PATIENCE,
    QueueObject,
    change_queue,
    checked_reason,
    read_queue,
)
from admission.cli.access.requests import Route, ask
from admission.cli.command_line import confirm
from admission.cli.names import full_resource, names_are_usage
from admission.cli.options import AMOUNTS, QUEUE, Command, changed_amounts, cluster
from admission.cli.options import dry_run as dry_run_option
from admission.cli.output import Output
from admission.cli.plugin.comparison import effects_text, trial_of_write
from admission.cli.rendering.quota import changes_table
from admission.cli.rendering.terminal import Cell, columns_of, moment, say, stated_seconds
from admission.cli.times import LastingTime
from queues.api.names import ROOT_QUEUE
from queues.api.quota.access_limits import (
    BUDGET_HOURS,
    PER_USER,
    WHEN_SPENT,
    AccessChanges,
    access_limits_of,
    access_patch,
    budget_of,
    field_of,
)
from queues.api.quota.quota_document import (
    LIMITS,
    ROOT_HAS_NO_LIMITS,
    Changes,
    QuotaField,
    limit_asked,
    patch_for,
    quota_of,
    shown_amount,
    with_whole_names,
)
from queues.errors import MusterError
from queues.read_api.bodies import WorkloadList
from queues.text_format import counted, listed, span

#: What removes a limit.
_NONE: Final = "none"
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
    for name, text in (
        ("--budget", "Hours that it may use in a month: gpu=1000."),
        ("--max-per-user", "What one user may use at a time: gpu=8."),
    ):
        command = click.option(name, metavar=AMOUNTS, help=text)(command)
    when = click.Choice(["report", "hold"])
    return click.option("--when-spent", type=when, help="Of its budget: hold admits nothing more then.")(
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
    for option, limit in (("max_per_user", field_of(PER_USER)), ("budget", BUDGET_HOURS)):
        shown = f"--{option.replace('_', '-')}"
        for name, quantity in changed_amounts(shown, given.get(option)):
            resource = full_resource(shown, name)
            if (field := f"{limit}[{resource}]") in found:
                raise click.UsageError(f"{shown}: found {resource} twice, expected it once.")
            found[field] = shown_amount(resource, quantity) if quantity else None
    if (when := given.get("when_spent")) is not None:
        found[WHEN_SPENT] = when
    return found


def changed_access(queue: QueueObject, asked: AccessChanges) -> dict[str, str | int | None]:
    """Those that the queue does not state already."""
    stated = _stated(queue)
    return {field: value for field, value in asked.items() if not _same(stated.get(field), value)}


def _stated(queue: QueueObject) -> dict[str, str]:
    return access_limits_of(queue.spec) | budget_of(queue.spec)


def _same(stated: str | None, wanted: str | int | None) -> bool:
    """Whether two values mean the same: ``240m`` and ``4h`` do."""
    if stated is None or wanted is None:
        return stated is wanted
    seconds = stated_seconds(stated)
    return stated == str(wanted) or (seconds is not None and seconds == stated_seconds(wanted))


def access_rows(queue: QueueObject, changes: AccessChanges) -> list[list[str | int | None]]:
    """Cells of the table of changes: queue, field, before, an arrow, after."""
    stated = _stated(queue)
    return [[queue.name, field, stated.get(field), "→", value] for field, value in changes.items()]


# -- what is shown before -------------------------------------------------------------------------------------


def tell_access(route: Route, queue: QueueObject, changes: AccessChanges) -> None:
    """Print which work would be ended."""
    longest = stated_seconds(changes.get(field_of("maxRunTime")))
    if not longest:
        return
    asked = {"queue": queue.name, "state": "admitted", "limit": str(_PAGE)}
    try:
        ended = _ended(ask(route.within(PATIENCE), "workloads", WorkloadList, asked), longest)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """How a change of limits is made."""

    #: "": of the plain limits.
    flavor: str
    #: As given. None for no reason.
    reason: str | None
    #: server, client or none.
    dry_run: str
    #: The user need not be asked.
    yes: bool
    #: The leader is asked what becomes of work.
    trial: bool = True

    @property
    def checks_first(self) -> bool:
        """Whether the API server checks the change first. If it would refuse it, nothing else is shown or asked."""
        return self.dry_run == "server" or (self.dry_run == "none" and (self.trial or not self.yes))


def writing(command: Command) -> Command:
    """Add the options of commands that change limits; the command gets ``how``, a Writing."""

    @wraps(command)
    def with_writing(
        flavor: str, reason: str | None, dry_run: str, yes: bool, no_trial: bool, **given: Any
    ) -> Any:
        how = Writing(flavor=flavor, reason=reason, dry_run=dry_run, yes=yes, trial=not no_trial)
        return command(how=how, **given)

    with_options: Command = with_writing
    for option in (
        click.option("--yes", is_flag=True, help="Do not ask."),
        click.option("--no-trial", is_flag=True, help="Do not tell what becomes of work."),
        dry_run_option("Change", "client"),
        click.option("--reason", metavar="TEXT", help="Why, for `kubectl muster quota history`."),
        click.option(
            "--flavor", default="", metavar="FLAVOR", help="The limits of this flavor [the plain ones]."
        ),
    ):
        with_options = option(with_options)
    return with_options


@click.command("set", short_help="Change quota of a queue, and limits of its users, gangs and run times.")
@click.argument("queue", type=QUEUE)
@click.option("--deserved", metavar=AMOUNTS, help="Its own share: gpu=32,cpu=128.")
@click.option("--guarantee", metavar=AMOUNTS, help="What is never lent.")
@click.option("--capability", metavar=AMOUNTS, help="What is never exceeded.")
@access_options
@writing
@cluster
def set_(queue: str, how: Writing, route: Route, **limits: Any) -> None:
    """Change limits of QUEUE, after showing what changes, and for which work. Resources that are not named keep theirs.

    NAME= (also NAME=- and NAME-) removes the limit of a resource. Running work goes on, whatever is lowered, but for
    --max-run-time, which ends what has run for longer. Asks first; without a terminal it needs --yes.
    """
    changes, access = _asked(how.flavor, limits), asked_access(limits)
    if not changes and not access:
        raise click.UsageError(
            "Nothing to change: expected --deserved, --guarantee, --capability, --budget or a --max option."
        )
    if queue == ROOT_QUEUE and changes:
        raise click.ClickException(ROOT_HAS_NO_LIMITS)
    why, object_ = checked_reason(how.reason), read_queue(route, queue)
    stated = quota_of(object_.spec)
    with names_are_usage():
        named = with_whole_names(object_.spec, changes)
    changes = {field: text for field, text in named.items() if stated.get(field) != text}
    access = changed_access(object_, access)
    if not changes and not access:
        say(f"queue {queue} has these limits already; nothing was changed")
        return
    patch = patch_for(object_.spec, changes) | access_patch(object_.spec, access)
    if WHEN_SPENT in access and patch["budget"] is None:
        raise click.UsageError("--when-spent is of a budget: expected --budget gpu=HOURS as well.")
    if how.checks_first:
        change_queue(route, object_, patch, reason=why, dry_run=True)
    _tell(object_, changes, access_rows(object_, access))
    tell_access(route, object_, access)
    # What is allowed to users (--max-…) is no quota: it counts at their next submission, and nothing is tried.
    quota = {field: part for field, part in patch.items() if field != "access"}
    is_tried = quota and queue != ROOT_QUEUE and how.trial
    found = trial_of_write(route, queue, quota, is_checked=how.checks_first) if is_tried else None
    if found is not None:
        click.echo(effects_text(found, Output(width=columns_of(sys.stdout))), nl=False)
    if how.dry_run != "none":
        say(f"queue {queue} would be changed ({how.dry_run} dry run)")
        return
    confirm(f"Change queue {queue}?", yes=how.yes)
    change_queue(route, object_, patch, reason=why)
    say(f"queue {queue} changed")


# -- what was asked for ---------------------------------------------------------------------------------------


def _asked(flavor: str, limits: Mapping[str, str | None]) -> dict[QuotaField, str | None]:
    """The limits to set, in their usual form; the value None removes a limit. Raises UsageError."""
    found: dict[QuotaField, str | None] = {}
    for limit in LIMITS:
        for name, quantity in changed_amounts(f"--{limit}", limits.get(limit)):
            with names_are_usage():
                field, amount_ = limit_asked(f"--{limit}", QuotaField(flavor, limit, name), quantity)
            if field in found:
                raise click.UsageError(f"--{limit}: found {field.resource} twice, expected it once.")
            found[field] = amount_
    return found


# -- what is shown before -------------------------------------------------------------------------------------


def _tell(queue: QueueObject, changes: Changes, more: Sequence[list[Cell]]) -> None:
    stated = quota_of(queue.spec)
    rows: list[list[Cell]] = [
        [queue.name, str(field), stated.get(field), "→", text] for field, text in changes.items()
    ]
    click.echo(changes_table([*rows, *more], width=columns_of(sys.stdout)), nl=False)
