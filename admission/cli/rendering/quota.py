"""Quota of queues as tables: limits now or at a time, their history, and what differs between two times."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from admission.cli.rendering.table import NONE, Cell, moment, one_line, short_names, short_resource, table
from admission.cli.rendering.terminal.fitting import Narrowing, fitted_table, with_text_below
from admission.read_api.bodies import (
    AccessLimitsBody,
    AccountBody,
    FieldChangeBody,
    LimitBody,
    LoanBody,
    LoanInForceBody,
    QueueAtBody,
    QueueBody,
    QueueVersionBody,
)
from queues.text_format import span

_NUMBERS: Final = "GUARANTEE DESERVED CAPABILITY USED BEFORE AFTER"
#: What of a queue is compared between two times, besides its limits.
_OF_QUEUE: Final = "queue"
_NOTHING: Final = LimitBody(flavor="", resource="", guarantee=None, deserved=None, capability=None)
_NARROW: Final = Narrowing(names={"QUEUE": 12, "RESOURCE": 12, "FLAVOR": 6})
_NARROW_LOANS: Final = Narrowing(names={"FROM": 8, "TO": 8, "RESOURCE": 8}, rest="REASON", least_rest=12)
_NARROW_DIFFERENCES: Final = Narrowing(names={"QUEUE": 12, "FIELD": 24, "BEFORE": 8, "AFTER": 8})
_NARROW_HISTORY: Final = Narrowing(names={"BY": 8, "CHANGE": 18, "BEFORE": 8, "AFTER": 8})


class QuotaDifference(FieldChangeBody, frozen=True, kw_only=True):
    """A limit, or a queue, that differs between two times."""

    queue: str


def lines_of(queue: QueueBody | QueueAtBody) -> tuple[AccountBody, ...] | tuple[LimitBody, ...]:
    """What a queue has of each resource: with its use now, or only the limits of an earlier time."""
    return queue.accounts if isinstance(queue, QueueBody) else queue.limits


def limits_table(
    queues: Iterable[QueueBody | QueueAtBody],
    *,
    resource: str | None,
    used: bool,
    headers: bool,
    width: int | None = None,
) -> str:
    """One line per queue, flavor and resource. ``used``: with a column for what is used now."""
    columns = [
        "QUEUE",
        "FLAVOR",
        "RESOURCE",
        "GUARANTEE",
        "DESERVED",
        "CAPABILITY",
        *(["USED"] if used else []),
    ]
    rows: list[list[Cell]] = []
    for queue in queues:
        chosen = [line for line in lines_of(queue) if resource in (None, line.resource)]
        for line in chosen or (_NOTHING,):
            stated = [_unless_zero(line.guarantee), line.deserved, line.capability]
            rows.append(
                [
                    queue.name,
                    line.flavor or None,
                    line.resource or None,
                    *stated,
                    *([line.used if isinstance(line, AccountBody) else None] if used else []),
                ]
            )
    if width is not None and max(map(len, table(columns, rows).splitlines())) > width:
        index = columns.index("RESOURCE")
        rows = [[*row[:index], short_names(str(row[index] or NONE)), *row[index + 1 :]] for row in rows]
    return fitted_table(columns, rows, _NARROW, width=width, headers=headers, right=_NUMBERS)


def access_table(
    queues: Iterable[QueueBody | QueueAtBody], *, headers: bool, width: int | None = None
) -> str:
    """One line per queue that limits users, gangs or run times; "": none does."""
    rows: list[list[Cell]] = [
        [
            queue.name,
            None if (seconds := stated.max_run_time_seconds) is None else span(seconds),
            stated.max_gang,
            _pending_limit(stated),
            ", ".join(f"{text} {short_resource(name)}" for name, text in stated.max_per_user.items()) or None,
        ]
        for queue in queues
        if (stated := queue.access_limits) is not None
    ]
    columns = ["QUEUE", "MAX-RUN-TIME", "MAX-GANG", "MAX-PENDING", "MAX-PER-USER"]
    if not rows:
        return ""
    narrow, right = Narrowing(names={"QUEUE": 12}, rest="MAX-PER-USER"), "MAX-RUN-TIME MAX-GANG"
    return fitted_table(columns, rows, narrow, width=width, headers=headers, right=right)


def _pending_limit(stated: AccessLimitsBody) -> str | None:
    """``100, 5 of a user``. None for no limit."""
    limit, of_user = stated.max_pending, stated.max_pending_per_user
    parts = [*([] if limit is None else [str(limit)]), *([] if of_user is None else [f"{of_user} of a user"])]
    return ", ".join(parts) or None


def loans_table(
    queues: Iterable[QueueBody], *, resource: str | None, headers: bool, width: int | None = None
) -> str:
    """One line per loan in which one of the queues takes part; "": there is none."""
    loans = loans_of_queues(queues, resource)
    in_part = any(loan.counts != loan.amount for loan in loans)
    rows: list[list[Cell]] = [
        [
            loan.from_,
            loan.to,
            account_text(loan),
            loan.amount,
            *([loan.counts] if in_part else []),
            loan.until,
            loan.reason or None,
        ]
        for loan in loans
    ]
    columns = ["FROM", "TO", "RESOURCE", "LENT", *(["COUNTS"] if in_part else []), "UNTIL", "REASON"]
    if not rows:
        return ""
    return fitted_table(columns, rows, _NARROW_LOANS, width=width, headers=headers, right="LENT COUNTS")


def loan_problems(queues: Iterable[QueueBody]) -> list[str]:
    """Why loans do not count in full, a sentence each."""
    return [
        f"Of the {loan.amount} {account_text(loan)} for {loan.to} {loan.counts} counts: {loan.problem}."
        for loan in loans_of_queues(queues, None)
        if loan.problem
    ]


def without_loans(queues: Iterable[QueueBody], resource: str | None) -> str:
    """What queues with loans state that they deserve, which is what `quota set` changes; "": none has any."""
    told = []
    for queue in queues:
        for line in queue.accounts:
            account = (line.flavor, line.resource)
            loans = [loan for loan in queue.loans if (loan.flavor, loan.resource) == account]
            if loans and line.deserved is not None and resource in (None, line.resource):
                told.append(f"queue {queue.name} {_stated_amount(queue.name, line, line.deserved, loans)}")
    return f"Without loans these deserve: {', '.join(told)}.\n" if told else ""


def _stated_amount(name: str, line: AccountBody, deserved: str, loans: Iterable[LoanInForceBody]) -> str:
    """The deserved amount of a line before loans were reckoned in, with its resource."""
    from queues.resources import amount, show

    units = amount(line.resource, deserved)
    for loan in loans:
        units += amount(line.resource, loan.counts) * (1 if loan.from_ == name else -1)
    return f"{show(line.resource, units)} {account_text(line)}"


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
        loans = () if version.after is None else version.after.loans
        ended = [loan for loan in loans if at < moment(loan.until) <= newer]
        ended.sort(key=lambda loan: loan.until, reverse=True)
        found += [*ended, version]
        newer = at
    return found


def changes_table(rows: Sequence[Sequence[Cell]], *, width: int | None) -> str:
    """What a command is about to change: the queue, the field, its value before, an arrow, and its value after."""
    return _of_fields(["QUEUE", "FIELD", "BEFORE", "", "AFTER"], rows, headers=True, width=width)


def _of_fields(
    columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, headers: bool, width: int | None
) -> str:
    """A table with fields in its second column: without room, resources in them have their short names."""
    text = table(columns, rows, headers=headers, right=_NUMBERS)
    if width is None or max(map(len, text.splitlines()), default=0) <= width:
        return text
    short = [[row[0], short_names(str(row[1])), *row[2:]] for row in rows]
    return fitted_table(columns, short, _NARROW_DIFFERENCES, width=width, headers=headers, right=_NUMBERS)


def history_table(
    versions: Iterable[QueueVersionBody | LoanBody], *, headers: bool, width: int | None = None
) -> str:
    """One line per field that was changed, with author and reason in the first of each version.

    On a terminal of ``width`` characters (None if there is no terminal) without room for reasons these are below.
    """
    columns = ["AT", "BY", "CHANGE", "BEFORE", "AFTER", "REASON"]
    rows: list[list[Cell]] = []
    for version in versions:
        if isinstance(version, LoanBody):
            what = f"loan to {version.to} ended"
            rows.append(
                [
                    version.until,
                    None,
                    what,
                    f"{version.amount} {account_text(version)}",
                    None,
                    "its time was over",
                ]
            )
            continue
        lines = _changes(version)
        for index, (field, before, after) in enumerate(lines):
            first = index == 0
            rows.append(
                [
                    version.at if first else "",
                    (version.by or None) if first else "",
                    field,
                    value_words(before),
                    value_words(after),
                    (version.reason or None) if first else "",
                ]
            )
    text = table(columns, rows, headers=headers)
    if width is None or max(map(len, text.splitlines()), default=0) <= width:
        return text
    fields = [[_minute(row[0]), row[1], short_names(str(row[2])), *row[3:-1]] for row in rows]
    columns = ["AT(UTC)", *columns[1:-1]]
    shown = fitted_table(columns, fields, _NARROW_HISTORY, width=width, headers=headers).splitlines()
    head = shown[: len(shown) - len(rows)]
    told = (
        with_text_below(line, f"({row[-1]})" if row[-1] else "", width)
        for line, row in zip(shown[len(head) :], rows, strict=True)
    )
    return "".join((*(f"{line}\n" for line in head), *told))


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


def differences(before: Sequence[QueueAtBody], after: Sequence[QueueAtBody]) -> list[QuotaDifference]:
    """What differs between the queues of two times: limits field by field, and queues that came or went."""
    old = {queue.name: _stated(queue) for queue in before}
    new = {queue.name: _stated(queue) for queue in after}
    found: list[QuotaDifference] = []
    for name in dict.fromkeys([*old, *new]):
        was, now = old.get(name), new.get(name)
        if was is None or now is None:
            found.append(
                QuotaDifference(
                    queue=name,
                    field=_OF_QUEUE,
                    before=None if was is None else "present",
                    after=None if now is None else "present",
                )
            )
        was, now = was or {}, now or {}
        found += [
            QuotaDifference(queue=name, field=field, before=was.get(field), after=now.get(field))
            for field in dict.fromkeys([*was, *now])
            if was.get(field) != now.get(field)
        ]
    return found


def differences_table(found: Iterable[QuotaDifference], *, headers: bool, width: int | None = None) -> str:
    """One line per field."""
    columns = ["QUEUE", "FIELD", "BEFORE", "AFTER"]
    rows = [[each.queue, each.field, each.before, each.after] for each in found]
    return _of_fields(columns, rows, headers=headers, width=width)


def _stated(queue: QueueAtBody) -> dict[str, str]:
    """What a queue states, by field."""
    return {
        f"{_place(line.flavor)}{name}[{line.resource}]": text
        for line in queue.limits
        for name, text in (
            ("guarantee", line.guarantee),
            ("deserved", line.deserved),
            ("capability", line.capability),
        )
        if text is not None
    }


def _place(flavor: str) -> str:
    return f"flavors[{flavor}]." if flavor else ""


def _unless_zero(text: str | None) -> str | None:
    return None if text in (None, "0") else text
