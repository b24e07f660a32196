"""Options that several commands share, spelled as kubectl spells them."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, Final, TypeVar

import click
from click.shell_completion import CompletionItem

from admission.cli.access.requests import Route, ask

Command = Callable[..., Any]
T = TypeVar("T")

#: Lines that a terminal can hold; --limit shows more.
USUAL_LIMIT: Final = 500
#: A shell waits for this: no candidates are better than a long wait.
_SHELL_SECONDS: Final = 2.0
#: How amounts of resources are written on a command line.
AMOUNTS: Final = "NAME=AMOUNT[,…]"

_ROUTE = (
    click.option(
        "--server", metavar="URL", help="Ask this replica of Muster, past the API server [MUSTER_SERVER]."
    ),
    click.option(
        "--server-ca", metavar="FILE", help="Authorities of its certificate, as PEM [MUSTER_SERVER_CA]."
    ),
    click.option("--token-file", metavar="FILE", help="Token to ask it with [MUSTER_TOKEN]."),
    click.option("--kubeconfig", metavar="FILE", help="Kubeconfig to use [KUBECONFIG, ~/.kube/config]."),
    click.option("--context", metavar="NAME", help="Context of the kubeconfig."),
    click.option(
        "--timeout", type=click.FloatRange(min=0.1), metavar="SECONDS", help="How long to wait [15]."
    ),
)
_CLUSTER_NAMES = ("kubeconfig", "context", "timeout")
_ROUTE_NAMES = ("server", "server_ca", "token_file", "kubeconfig", "context", "timeout")


def route(command: Command) -> Command:
    """Add the options that find the read API; the command gets ``route``. Of repeated options the last one counts."""
    return route_before(_with_route(command, route_from))


def cluster(command: Command) -> Command:
    """Add the options that find the API server, for commands that ask it first; the command gets ``route``."""

    def route_of(chosen: Mapping[str, Any]) -> Route:
        return Route(**{name: chosen[name] for name in _CLUSTER_NAMES if name in chosen})

    return _with_options(_with_route(command, route_of), _ROUTE[3:])


def _with_route(command: Command, route_of: Callable[[Mapping[str, Any]], Route]) -> Command:
    """A command that gets a route, of the options before and after its name."""

    @click.pass_context
    @wraps(command)
    def with_route(context: click.Context, /, **given: Any) -> Any:
        options = {name: given.pop(name) for name in _ROUTE_NAMES if name in given}
        named = {name: value for name, value in options.items() if value is not None}
        return command(route=route_of({**(context.find_object(dict) or {}), **named}), **given)

    return with_route


def route_from(chosen: Mapping[str, Any]) -> Route:
    """The route of these flags. MUSTER_SERVER counts if no flag names a cluster."""
    named = chosen.keys() & {"server", "kubeconfig", "context"}
    given = {} if named else {"server": os.environ.get("MUSTER_SERVER") or None}
    authorities = os.environ.get("MUSTER_SERVER_CA") or None
    return Route(**{"server_ca": authorities, **given, **chosen})


def route_before(command: Command) -> Command:
    """Add the options of ``route`` before the command's name; the group gets them as keyword arguments."""
    return _with_options(command, _ROUTE)


def _with_options(command: Command, options: Sequence[Callable[[Command], Command]]) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


class _Named(click.ParamType[str]):
    """The name of something that Muster knows: a shell offers those there are."""

    def __init__(self, name: str, candidates: Callable[[click.Context], Iterator[tuple[str, str]]]) -> None:
        """``candidates``: names with descriptions, by the options that are on the line so far."""
        self.name = name
        self._candidates = candidates

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The names that begin so."""
        return [
            CompletionItem(name, help=text)
            for name, text in self._candidates(ctx)
            if name.startswith(incomplete)
        ]


def _route_for_shell(context: click.Context) -> Route:
    chosen: dict[str, Any] = {}
    for params in (each.params for each in (context, context.find_root())):
        chosen = {name: params[name] for name in _ROUTE_NAMES if params.get(name) is not None} | chosen
    return route_from({**chosen, "timeout": _SHELL_SECONDS})


def _ask_for_shell(context: click.Context, path: str, form: type[T], query: Mapping[str, str | None]) -> T:
    return ask(_route_for_shell(context), path, form, query)


def _queues(context: click.Context) -> Iterator[tuple[str, str]]:
    from queues.read_api.bodies import QueueList

    for one in _ask_for_shell(context, "queues", QueueList, {}).items:
        yield one.name, f"{one.state}, {one.pending} waiting, {one.admitted} running"


def _workloads(context: click.Context) -> Iterator[tuple[str, str]]:
    from queues.read_api.bodies import WorkloadList

    query = {"namespace": context.params.get("namespace"), "limit": "200"}
    for one in _ask_for_shell(context, "workloads", WorkloadList, query).items:
        yield f"{one.kind}/{one.name}", f"queue {one.queue}, {one.reason.code if one.reason else one.state}"


def _namespaces(context: click.Context) -> Iterator[tuple[str, str]]:
    from queues.read_api.bodies import WorkloadList

    found = _ask_for_shell(context, "workloads", WorkloadList, {"limit": "1000"}).items
    yield from ((name, "") for name in {one.namespace for one in found})


def _users(context: click.Context) -> Iterator[tuple[str, str]]:
    from queues.read_api.bodies import UserList

    for one in _ask_for_shell(context, "users", UserList, {"limit": "200"}).items:
        if one.user:
            yield one.user, f"{one.pending} waiting, {one.admitted} running"


def _priority_classes(context: click.Context) -> Iterator[tuple[str, str]]:
    from admission.cli.access.objects import listed
    from queues.api.api_resources import PRIORITY_CLASSES

    for one in listed(_route_for_shell(context), PRIORITY_CLASSES, dict) or ():
        yield one["metadata"]["name"], f"priority {one['value']}"


QUEUE: Final = _Named("queue", _queues)
WORKLOAD: Final = _Named("workload", _workloads)
USER: Final = _Named("user", _users)
PRIORITY_CLASS: Final = _Named("class", _priority_classes)
_NAMESPACE: Final = _Named("namespace", _namespaces)


def of_queue(command: Command) -> Command:
    """Add ``-q``: only a queue and what is below it."""
    return click.option("-q", "--queue", type=QUEUE, help="Only this queue and what is below it.")(command)


def of_user(command: Command) -> Command:
    """Add ``--user`` and ``--mine``: only what one user created; the command gets both as the read API takes them."""

    @click.option("--user", type=USER, help="Only what this user created.")
    @click.option("--mine", is_flag=True, help="Only what you created, in all namespaces without -n.")
    @wraps(command)
    def of_one(*, user: str | None, mine: bool, **given: Any) -> Any:
        if user and mine:
            raise click.UsageError("--user and --mine exclude each other.")
        return command(user=user, mine="true" if mine else None, **given)

    return of_one


def of_whom(query: Mapping[str, str | None]) -> str:
    """`` of ada``, `` of yours``: the part of a sentence for the options of ``of_user``; "": of all users."""
    return f" of {query['user']}" if query["user"] else " of yours" if query["mine"] else ""


def namespace(command: Command) -> Command:
    """Add ``-n``."""
    return click.option(
        "-n",
        "--namespace",
        type=_NAMESPACE,
        metavar="NAME",
        help="Namespace [that of the kubeconfig's context, or default].",
    )(command)


def namespaces(command: Command) -> Command:
    """Add ``-n`` and ``-A``; see ``chosen_namespace``."""
    return namespace(click.option("-A", "--all-namespaces", is_flag=True, help="All namespaces.")(command))


def chosen_namespace(
    given: str | None, all_namespaces: bool, route: Route, *, mine: bool = False
) -> str | None:
    """The namespace that a command is about, None for all. ``mine``: what a user created is in any of them, unless one
    was named. Raises UsageError: both were asked for."""
    if given and all_namespaces:
        raise click.UsageError("-n and -A exclude each other.")
    return None if all_namespaces or (mine and not given) else route.namespace(given)


def dry_run(verb: str, *more: str) -> Callable[[Command], Command]:
    """Add ``--dry-run`` with the words server, none and ``more``. ``verb``: what is not done then."""
    return click.option(
        "--dry-run",
        type=click.Choice(["server", *more, "none"]),
        default="none",
        show_default=True,
        help=f"{verb} nothing; server: have the API server check it.",
    )


def most_lines(noun: str) -> Callable[[Command], Command]:
    """Add ``--limit``. ``noun``: what the lines are about."""
    return click.option(
        "--limit",
        type=click.IntRange(1, 1_000_000),
        default=USUAL_LIMIT,
        show_default=True,
        help=f"Most {noun} to show.",
    )


def changed_amounts(option: str, text: str | None) -> Iterator[tuple[str, str]]:
    """Names of resources with the amounts that they get; "" removes one, as in ``gpu=`` and ``gpu-``. Raises
    UsageError: not written so."""
    for part in text.split(",") if text is not None else ():
        name, sign, amount = part.strip().partition("=")
        if not sign and name.endswith("-"):  # as kubectl removes labels
            name, sign = name[:-1], "="
        if not (sign and name) or amount.startswith("+"):
            raise click.UsageError(
                f"{option}: found {part!r}, expected {AMOUNTS}: gpu=32,cpu=128; gpu= removes the limit."
            )
        yield name, "" if amount == "-" else amount


def price(command: Command) -> Command:
    """Add the option; the command gets ``prices``, as ``prices_of`` takes them."""
    text = "Prices of an hour, for the sheet of a month: gpu=2.50."
    return click.option("--price", "prices", metavar=AMOUNTS, help=text)(command)


def prices_of(text: str | None) -> dict[str, float]:
    """Prices of an hour by resource. Raises UsageError."""
    try:
        return {name: float(price) for name, price in amounts("--price", text).items()}
    except ValueError as error:
        raise click.UsageError(f"--price: found {text!r}, expected numbers: gpu=2.50,cpu=0.04.") from error


def amounts(option: str, text: str | None) -> dict[str, str]:
    """Amounts of resources by whole name. Raises UsageError: not written as ``AMOUNTS``, or a resource twice."""
    from admission.cli.names import full_resource

    found: dict[str, str] = {}
    for part in (text or "").split(",") if text is not None else ():
        name, _, amount = part.strip().partition("=")
        if not name or not amount:
            raise click.UsageError(f"{option}: found {part!r}, expected {AMOUNTS}: gpu=32,cpu=128.")
        resource = full_resource(option, name)
        if resource in found:
            raise click.UsageError(f"{option}: found {resource} twice, expected it once.")
        found[resource] = amount
    return found
