"""Quota of queues as tables: limits, and their history."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from admission.cli.output import Output
from admission.cli.rendering.terminal import (
    Cell,
    TableColumn,
    fits,
    item_table,
    moment,
    one_line,
    short_names,
    short_resource,
    with_texts,
)
from queues.read_api.bodies import (
    AccessLimitsBody,
    AccountBody,
    BudgetBody,
    BudgetLineBody,
    LoanBody,
    LoanInForceBody,
    QueueBody,
    QueuePolicyBody,
    QueueVersionBody,
)
from queues.text_format import counted, span


def limits_table(queues: Iterable[QueueBody], output: Output, *, resource: str | None) -> str:
    """One line per queue, flavor and resource."""
    lines: list[tuple[str, AccountBody | None]] = []
    for queue in queues:
        shown = [line for line in queue.accounts if resource in (None, line.resource)]
        lines += [(queue.name, line) for line in shown] or [(queue.name, None)]

    def columns(short: bool) -> list[TableColumn[tuple[str, AccountBody | None]]]:
        def of_line(cell: Callable[[AccountBody], Cell]) -> Callable[[tuple[str, AccountBody | None]], Cell]:
            return lambda row: None if row[1] is None else cell(row[1])

        def resource_of(line: AccountBody) -> str:
            return short_resource(line.resource) if short else line.resource

        return [
            TableColumn("QUEUE", lambda row: row[0], least=12),
            TableColumn("FLAVOR", of_line(lambda line: line.flavor or None), least=6),
            TableColumn("RESOURCE", of_line(resource_of), least=12),
            TableColumn("GUARANTEE", of_line(lambda line: unless_zero(line.guarantee)), right=True),
            TableColumn("DESERVED", of_line(lambda line: line.deserved), right=True),
            TableColumn("CAPABILITY", of_line(lambda line: line.capability), right=True),
            TableColumn("USED", of_line(lambda line: line.used), right=True),
        ]

    text = item_table(columns(short=False), lines, replace(output, width=None))
    return text if fits(text, output.room) else item_table(columns(short=True), lines, output)


def access_table(queues: Iterable[QueueBody], output: Output) -> str:
    """One line per queue that limits users, gangs or run times; "": none does."""
    stated = [(queue.name, queue.access_limits) for queue in queues if queue.access_limits is not None]
    columns: list[TableColumn[tuple[str, AccessLimitsBody]]] = [
        TableColumn("QUEUE", lambda row: row[0], least=12),
        TableColumn("MAX-RUN-TIME", lambda row: _run_time(row[1]), right=True),
        TableColumn("MAX-GANG", lambda row: row[1].max_gang, right=True),
        TableColumn("MAX-PENDING", lambda row: _pending_limit(row[1])),
        TableColumn("MAX-PER-USER", lambda row: _per_user(row[1]), least_rest=16),
    ]
    return item_table(columns, stated, output) if stated else ""


def budgets_table(queues: Iterable[QueueBody], output: Output, *, resource: str | None) -> str:
    """One line per resource of a budget; "": no queue has one."""
    lines = [
        (queue.name, queue.budget, line)
        for queue in queues
        if queue.budget is not None
        for line in queue.budget.resources
        if resource in (None, line.resource)
    ]
    columns: list[TableColumn[tuple[str, BudgetBody, BudgetLineBody]]] = [
        TableColumn("QUEUE", lambda row: row[0], least=12),
        TableColumn("BUDGET-OF", lambda row: short_resource(row[2].resource), least=8),
        TableColumn("HOURS", lambda row: row[2].hours, right=True),
        TableColumn("USED", lambda row: row[2].used, right=True),
        TableColumn("PERCENT", lambda row: row[2].percent, right=True),
        TableColumn("UNTIL", lambda row: row[1].ends),
        TableColumn("WHEN-SPENT", lambda row: row[1].when_spent),
    ]
    return item_table(columns, lines, output) if lines else ""


def _run_time(stated: AccessLimitsBody) -> str | None:
    return None if stated.max_run_time_seconds is None else span(stated.max_run_time_seconds)


def _per_user(stated: AccessLimitsBody) -> str | None:
    return ", ".join(f"{text} {short_resource(name)}" for name, text in stated.max_per_user.items()) or None


def _pending_limit(stated: AccessLimitsBody) -> str | None:
    """``100, 5 of a user``. None for no limit."""
    limit, of_user = stated.max_pending, stated.max_pending_per_user
    parts = [*([] if limit is None else [str(limit)]), *([] if of_user is None else [f"{of_user} of a user"])]
    return ", ".join(parts) or None


def limit_facts(stated: AccessLimitsBody) -> list[tuple[str, Cell]]:
    """What a queue states of its users, gangs and run times: titles and texts. None where it states nothing."""
    return [
        ("Longest run", _run_time(stated)),
        ("Largest gang", None if stated.max_gang is None else counted(stated.max_gang, "pod")),
        ("May wait", _pending_limit(stated)),
        ("Each user", _per_user(stated)),
    ]


def policy_facts(policy: QueuePolicyBody) -> list[tuple[str, Cell]]:
    """How a queue is served: titles and texts."""
    often, long = policy.max_evictions, policy.min_run_time_seconds
    return [
        ("Order", policy.order),
        ("Takes back", _WHOSE.get(policy.reclaim, policy.reclaim)),
        ("Evicts its own", _WHOSE.get(policy.within_queue, policy.within_queue)),
        (
            "Place is cleared",
            policy.clear_after_seconds and f"after {span(policy.clear_after_seconds)} of waiting",
        ),
        ("Protected", f"in its first {span(long)}" if long else None),
        ("Evicted at most", None if often is None else counted(often, "time")),
        ("Administrators", ", ".join(policy.admins) or None),
    ]


#: Whose work a queue evicts, by value of a policy.
_WHOSE = {
    "any": "what others borrow of its share (any)",
    "lower-priority": "work of lower priority (lower-priority)",
    "lower-or-newer-equal": "work of lower priority, and newer work of the same (lower-or-newer-equal)",
    "never": "nothing (never)",
}


def loans_table(queues: Iterable[QueueBody], output: Output, *, resource: str | None) -> str:
    """One line per loan in which one of the queues takes part; "": there is none."""
    loans = loans_of_queues(queues, resource)
    in_part = any(loan.counts != loan.amount for loan in loans)
    columns: list[TableColumn[LoanInForceBody]] = [
        TableColumn("FROM", lambda loan: loan.from_, least=8),
        TableColumn("TO", lambda loan: loan.to, least=8),
        TableColumn("RESOURCE", account_text, least=8),
        TableColumn("LENT", lambda loan: loan.amount, right=True),
        *([TableColumn[LoanInForceBody]("COUNTS", lambda loan: loan.counts, right=True)] if in_part else []),
        TableColumn("UNTIL", lambda loan: loan.until),
        TableColumn("REASON", lambda loan: loan.reason or None, least_rest=12),
    ]
    return item_table(columns, loans, output) if loans else ""


def loan_problems(queues: Iterable[QueueBody]) -> list[str]:
    """Why loans do not count in full, a sentence each."""
    return [
        f"Of the {loan.amount} {account_text(loan)} for {loan.to} {loan.counts} counts: {loan.problem}."
        for loan in loans_of_queues(queues, None)
        if loan.problem
    ]


def loans_of_queues(queues: Iterable[QueueBody], resource: str | None) -> list[LoanInForceBody]:
    """The loans of queues, each once: the queue that lends and the one that gets it both have it."""
    found: list[LoanInForceBody] = []
    for queue in queues:
        found += (each for each in queue.loans if each not in found and resource in (None, each.resource))
    return found


def account_text(loan: LoanBody | AccountBody) -> str:
    """``nvidia.com/gpu of flavor h100``: what a loan counts."""
    return f"{loan.resource} of flavor {loan.flavor}" if loan.flavor else str(loan.resource)


def ended_by_themselves(versions: Sequence[QueueVersionBody], now: str) -> list[QueueVersionBody | LoanBody]:
    """The versions, the newest first, and between them loans that ended by themselves. ``now``: of the answer."""
    found: list[QueueVersionBody | LoanBody] = []
    newer = moment(now)
    for version in versions:
        at = moment(version.at)
        ended = [loan for loan in version.loans if at < moment(loan.until) <= newer]
        ended.sort(key=lambda loan: loan.until, reverse=True)
        found += [*ended, version]
        newer = at
    return found


def changes_table(rows: Sequence[Sequence[Cell]], *, width: int | None) -> str:
    """What a command is about to change: the queue, the field, its value before, an arrow, and its value after."""

    def columns(*, short: bool) -> list[TableColumn[Sequence[Cell]]]:
        return [
            TableColumn("QUEUE", lambda row: row[0], least=12),
            TableColumn("FIELD", lambda row: short_names(str(row[1])) if short else row[1], least=24),
            TableColumn("BEFORE", lambda row: row[2], least=8, right=True),
            TableColumn("", lambda row: row[3]),
            TableColumn("AFTER", lambda row: row[4], least=8, right=True),
        ]

    text = item_table(columns(short=False), rows, Output())
    return text if fits(text, width) else item_table(columns(short=True), rows, Output(width=width))


def history_table(versions: Mapping[str, Sequence[QueueVersionBody | LoanBody]], output: Output) -> str:
    """One line per field that was changed, with author and reason in the first of each version, the newest first.

    ``versions``: by queue; a single one is not named. On a terminal without room for reasons these are below.
    """
    found = [
        (version, queue, moment(version.until if isinstance(version, LoanBody) else version.at))
        for queue, of_queue in versions.items()
        for version in of_queue
    ]
    rows: list[list[Cell]] = []
    for version, queue, _ in sorted(found, key=lambda entry: entry[2], reverse=True):
        if isinstance(version, LoanBody):
            was = f"{version.amount} {account_text(version)}"
            ended = f"loan to {version.to} ended"
            rows.append([version.until, None, ended, was, None, "its time was over", queue])
            continue
        first: list[Cell] = [version.at, version.by or None, version.reason or None, queue]
        for field, before, after in _changes(version):
            at, by, reason, name = first
            rows.append([at, by, field, value_words(before), value_words(after), reason, name])
            first = ["", "", "", ""]

    def columns(*, short: bool) -> list[TableColumn[Sequence[Cell]]]:
        return [
            TableColumn("AT(UTC)" if short else "AT", lambda row: _minute(row[0]) if short else row[0]),
            *(
                [TableColumn[Sequence[Cell]]("QUEUE", lambda row: row[6], least=8)]
                if len(versions) > 1
                else []
            ),
            TableColumn("BY", lambda row: row[1], least=8),
            TableColumn("CHANGE", lambda row: short_names(str(row[2])) if short else row[2], least=18),
            TableColumn("BEFORE", lambda row: row[3], least=8),
            TableColumn("AFTER", lambda row: row[4], least=8),
            *([] if short else [TableColumn[Sequence[Cell]]("REASON", lambda row: row[5])]),
        ]

    text = item_table(columns(short=False), rows, replace(output, width=None))
    if fits(text, output.room):
        return text
    reasons = [f"({row[5]})" if row[5] else "" for row in rows]
    return with_texts(item_table(columns(short=True), rows, output), reasons, output.room)


def value_words(text: str | None) -> str | None:
    """A value of a field in words. A list or an object, which the read API has as JSON and may have cut, is
    ``Group team-a-admins, User bob``."""
    if text is None or text[:1] not in ("[", "{"):
        return text
    import json

    try:
        return _words(json.loads(text))
    except ValueError:  # it was cut
        plain = re.sub(r'[\[\]{}"]', " ", re.sub(r'":\s*', " ", text))
        return one_line(plain).replace(" ,", ",")


def _words(value: object) -> str:
    if isinstance(value, Mapping):
        name = [value[key] for key in ("kind", "name") if isinstance(value.get(key), str)]
        rest = {key: each for key, each in value.items() if key not in ("kind", "name", "apiGroup")}
        told = [" ".join(name)] if name else []
        return " ".join([*told, *(f"{key} {_words(each)}" for key, each in rest.items())])
    if isinstance(value, list):
        return ", ".join(map(_words, value)) or "none"
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _minute(time: Cell) -> str:
    """``2026-11-20 09:00``; "" stays so."""
    return str(time or "")[:16].replace("T", " ")


def _changes(version: QueueVersionBody) -> list[tuple[str, str | None, str | None]]:
    changes = [(each.field, each.before, each.after) for each in version.changes]
    if version.what in ("created", "removed"):
        return [(f"queue {version.what}", None, None), *changes]
    return changes or [("nothing of its spec", None, None)]


def unless_zero(text: str | None) -> str | None:
    """An amount. None for nothing, and where there is none."""
    return None if text in (None, "0") else text
