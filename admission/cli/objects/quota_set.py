"""``kubectl muster quota set`` and ``move``: change limits of queues, after showing what changes."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click

from admission.cli.access.objects import ClusterRoute
from admission.cli.access.queue_objects import (
    QueueObject,
    change_queue,
    checked_reason,
    queues_above,
    queues_in_use,
    read_queue,
    read_queues,
)
from admission.cli.access.quota_move import QuotaMove
from admission.cli.confirmation import confirm
from admission.cli.failures import CommandFailed
from admission.cli.objects.access_limits import (
    access_options,
    access_rows,
    asked_access,
    changed_access,
    tell_access,
)
from admission.cli.objects.quota_effects import Shown, accounts_of, deserved_changes, tell_effects
from admission.cli.objects.quota_trial import tell_trial
from admission.cli.options import AMOUNTS, Command, cluster
from admission.cli.rendering.quota import changes_table
from admission.cli.rendering.table import Cell
from admission.cli.rendering.terminal.sentences import columns_of, say
from admission.cli.resource_names import full_resource, warn_of_unknown
from admission.read_api.bodies import AccountBody
from queues.api.names import ROOT_QUEUE
from queues.api.quota.access_limits import access_patch
from queues.api.quota.quota_changes import (
    ROOT_HAS_NO_LIMITS,
    Changes,
    limit_asked,
    moved,
    remainders,
    with_whole_names,
)
from queues.api.quota.quota_document import LIMITS, QuotaField, Spec, merged, patch_for, quota_of
from queues.api.resource_names import NoSuchResource
from queues.errors import InvalidQuantity
from queues.resources import GPU, amount

Known = Mapping[str, QueueObject]


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
        click.option(
            "--dry-run",
            type=click.Choice(["server", "client", "none"]),
            default="none",
            show_default=True,
            help="Change nothing; server: have the API server check it.",
        ),
        click.option("--reason", metavar="TEXT", help="Why, for `kubectl muster quota history`."),
        click.option(
            "--flavor", default="", metavar="FLAVOR", help="The limits of this flavor [the plain ones]."
        ),
    ):
        with_options = option(with_options)
    return with_options


@click.command("set", short_help="Change quota of a queue, and limits of its users, gangs and run times.")
@click.argument("queue")
@click.option("--deserved", metavar=AMOUNTS, help="Its own share: gpu=32,cpu=128.")
@click.option("--guarantee", metavar=AMOUNTS, help="What is never lent.")
@click.option("--capability", metavar=AMOUNTS, help="What is never exceeded.")
@access_options
@writing
@cluster
def set_(queue: str, how: Writing, cluster: ClusterRoute, **limits: Any) -> None:
    """Change limits of QUEUE, after showing what changes, and for which work. Resources that are not named keep theirs.

    NAME= (also NAME=- and NAME-) removes the limit of a resource. Running work goes on, whatever is lowered, but for
    --max-run-time, which ends what has run for longer. Asks first; without a terminal it needs --yes.
    """
    changes, access = _asked(how.flavor, limits), asked_access(limits)
    if not changes and not access:
        raise click.UsageError(
            "Nothing to change: expected --deserved, --guarantee, --capability or a --max option."
        )
    if queue == ROOT_QUEUE and changes:
        raise click.ClickException(ROOT_HAS_NO_LIMITS)
    why, object_ = checked_reason(how.reason), read_queue(cluster, queue)
    known = read_queues(cluster)
    stated = quota_of(object_.spec)
    changes = {
        field: text
        for field, text in _with_whole_names(object_.spec, changes).items()
        if stated.get(field) != text
    }
    access = changed_access(object_, access)
    if not changes and not access:
        say(f"queue {queue} has these limits already; nothing was changed")
        return
    patch = patch_for(object_.spec, changes) | access_patch(access)
    check(object_, patch, known)
    if how.checks_first:
        change_queue(cluster, object_, patch, reason=why, dry_run=True)
    _tell([(object_, changes)], access_rows(object_, access))
    shown = queues_in_use(cluster)
    warn_of_unknown(shown, (field.resource for field, text in changes.items() if text is not None))
    _tell_rest(shown, object_, changes, known)
    tell_effects(shown, deserved_changes(queue, object_.spec, changes))
    tell_access(cluster, object_, access, known)
    _tell_loans(known, [_patched(object_, patch)])
    # What is allowed to users (--max-…) is no quota: it counts at their next submission, and nothing is tried.
    tell_trial(cluster, [(queue, patch_for(object_.spec, changes))], bool(changes) and how.trial)
    if how.dry_run != "none":
        say(f"queue {queue} would be changed ({how.dry_run} dry run)")
        return
    confirm(f"Change queue {queue}?", yes=how.yes)
    change_queue(cluster, object_, patch, reason=why)
    say(f"queue {queue} changed")


@click.command(short_help="Move a deserved amount from one queue to another.")
@click.argument("giver", metavar="FROM")
@click.argument("taker", metavar="TO")
@click.argument("amount_", metavar="AMOUNT")
@click.option("--resource", default=GPU, show_default=True, metavar="NAME", help="What is moved.")
@writing
@cluster
def move(giver: str, taker: str, amount_: str, resource: str, how: Writing, cluster: ClusterRoute) -> None:
    """Lower what FROM deserves by AMOUNT, and raise what TO deserves by it.

    A guarantee of FROM above its new deserved amount is lowered with it; a capability of TO below its own is raised.
    FROM is written first; if the API server refuses TO then, FROM gets back what it had. Asks
    first; without a terminal it needs --yes.
    """
    resource = full_resource("--resource", resource)
    units, why = units_of(resource, amount_), checked_reason(how.reason)
    if giver == taker:
        raise click.UsageError("FROM and TO are the same queue.")
    one, other = read_queue(cluster, giver), read_queue(cluster, taker)
    check_places(cluster, one, other)
    field = QuotaField(how.flavor, "deserved", resource)
    lowering, raising = moved(one.spec, other.spec, field, units, names=(giver, taker))
    known = read_queues(cluster)
    then = None if known is None else {**known, giver: _after(one, lowering)}
    check(one, patch_for(one.spec, lowering), known)
    check(other, patch_for(other.spec, raising), then)
    sent = QuotaMove(cluster, (one, lowering), (other, raising), why)
    if how.checks_first:
        sent.try_out()
    _tell([(one, lowering), (other, raising)])
    shown = queues_in_use(cluster)
    if one.parent != other.parent:  # else together they have what they had
        _tell_rest(shown, one, lowering, known)
        _tell_rest(shown, other, raising, then)
    tell_effects(
        shown,
        [*deserved_changes(giver, one.spec, lowering), *deserved_changes(taker, other.spec, raising)],
    )
    _tell_loans(known, [_after(one, lowering), _after(other, raising)])
    writes = [
        (each.name, patch_for(each.spec, fields)) for each, fields in ((one, lowering), (other, raising))
    ]
    tell_trial(cluster, writes, how.trial)
    if how.dry_run != "none":
        say(f"{amount_} {resource} would be moved from {giver} to {taker} ({how.dry_run} dry run)")
        return
    confirm(f"Move {amount_} {resource} from {giver} to {taker}?", yes=how.yes)
    if not how.checks_first:
        sent.try_out()
    sent.carry_out()
    say(f"{amount_} {resource} moved from queue {giver} to queue {taker}")


# -- what was asked for ---------------------------------------------------------------------------------------


def _asked(flavor: str, limits: Mapping[str, str | None]) -> dict[QuotaField, str | None]:
    """The limits to set, in their usual form; the value None removes a limit. Raises UsageError."""
    found: dict[QuotaField, str | None] = {}
    for limit in LIMITS:
        text = limits.get(limit)
        for part in text.split(",") if text is not None else ():
            name, sign, quantity = part.strip().partition("=")
            if not sign and name.endswith("-"):  # as kubectl removes labels
                name, quantity = name[:-1], "-"
            elif not sign or quantity.startswith("+"):
                name = ""
            if not name:
                raise click.UsageError(
                    f"--{limit}: found {part!r}, expected {AMOUNTS}: gpu=32,cpu=128; gpu= removes the limit."
                )
            field, amount_ = _limit_asked(f"--{limit}", QuotaField(flavor, limit, name), quantity)
            if field in found:
                raise click.UsageError(f"--{limit}: found {field.resource} twice, expected it once.")
            found[field] = amount_
    return found


def _limit_asked(option: str, field: QuotaField, quantity: str) -> tuple[QuotaField, str | None]:
    try:
        return limit_asked(option, field, quantity)
    except NoSuchResource as error:
        raise click.UsageError(str(error)) from error


def _with_whole_names(spec: Spec, changes: Changes) -> Changes:
    try:
        return with_whole_names(spec, changes)
    except NoSuchResource as error:
        raise click.UsageError(str(error)) from error


def units_of(resource: str, text: str) -> int:
    """An AMOUNT above 0, in units of the resource, by its whole name. Raises UsageError."""
    try:
        units = amount(resource, text)
    except InvalidQuantity as error:
        raise click.UsageError(f"AMOUNT: {error}") from error
    if units <= 0 or text.startswith("+"):
        raise click.UsageError(f"AMOUNT: found {text!r}, expected an amount above 0, such as 16.")
    return units


def check_places(route: ClusterRoute, one: QueueObject, other: QueueObject) -> None:
    """Raises CommandFailed: one queue is above the other."""
    for below, above in ((one, other), (other, one)):
        if any(each.name == above.name for each in queues_above(route, below)):
            raise CommandFailed(
                tried="",
                found=f"Queue {above.name} is above {below.name}, and what it deserves contains what that deserves",
                hint=f"Change {below.name} alone: `kubectl muster quota set {below.name} --deserved …`.",
            )


# -- what is shown before -------------------------------------------------------------------------------------


def _tell(changes: Sequence[tuple[QueueObject, Changes]], more: Sequence[list[Cell]] = ()) -> None:
    rows: list[list[Cell]] = []
    for queue, fields in changes:
        stated = quota_of(queue.spec)
        rows += [[queue.name, str(field), stated.get(field), "→", text] for field, text in fields.items()]
    rows += more
    click.echo(changes_table(rows, width=columns_of(sys.stdout)), nl=False)


def _tell_rest(shown: Shown, queue: QueueObject, changes: Changes, known: Known | None) -> None:
    """What is left of the parent's amounts, and whether more is used than a new capability: as far as it is known."""
    if known is None:
        say("What is left of the parent's amounts is not told: you may not list queues.", err=True)
    else:
        root = {
            (line.flavor, line.resource): amount(line.resource, line.capability)
            for line in accounts_of(shown, ROOT_QUEUE)
            if line.capability is not None
        }
        specs = {name: each.spec for name, each in known.items()} | {queue.name: queue.spec}
        for each in remainders(queue.name, changes, specs, root_has=root):
            say(str(each))
    _tell_overuse(queue.name, changes, accounts_of(shown, queue.name))


def _tell_overuse(name: str, changes: Changes, accounts: Iterable[AccountBody]) -> None:
    used = {(line.flavor, line.resource): line.used for line in accounts}
    for field, text in changes.items():
        now = used.get((field.flavor, field.resource))
        if field.limit != "capability" or text is None or now is None or not _exceeds(field, now, text):
            continue
        goes_on = "that goes on, and nothing is admitted until it uses less"
        say(f"queue {name} uses {now} {field.resource} now, more than {text}: {goes_on}")


def _exceeds(field: QuotaField, used: str, limit: str) -> bool:
    try:
        return amount(field.resource, used) > amount(field.resource, limit)
    except InvalidQuantity:
        return False


def _tell_loans(known: Known | None, changed: Sequence[QueueObject]) -> None:
    """Print loans that count for more or less then. Without loans there is nothing to compute."""
    if known is not None and any(each.spec.get("loans") for each in known.values()):
        from admission.cli.objects.loans import tell_loans

        tell_loans(known, {each.name: each for each in changed})


def _after(queue: QueueObject, changes: Changes) -> QueueObject:
    return _patched(queue, patch_for(queue.spec, changes))


def _patched(queue: QueueObject, patch: Spec) -> QueueObject:
    return QueueObject(document=merged(queue.document, {"spec": patch}))


def check(queue: QueueObject, patch: Spec, known: Known | None) -> None:
    """Refuse what the admission webhook refuses, in its words, and print what it warns of. Raises CommandFailed.

    The webhook may be down, and a dry run of the client does not ask it. ``patch``: of the spec. ``known``: if None,
    the tree is not checked.
    """
    from queues.api.types.queue import QueueDocument
    from queues.api.validation.quota_change_rules import refusal_of, violations_of_change
    from queues.errors import InvalidDocument

    domain = {}
    for name, each in (known or {}).items():
        try:
            domain[name] = QueueDocument.read(each.document).to_domain()
        except InvalidDocument:  # another queue's fault
            continue
    found = violations_of_change(queue.document, patch, None if known is None else domain)
    if refusal := refusal_of(found):
        raise CommandFailed(tried=f"Change of queue {queue.name}", found=refusal)
    for warning in found:
        if warning.tolerable:
            say(f"Warning: {warning.message}", err=True)
