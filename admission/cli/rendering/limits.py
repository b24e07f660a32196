"""Limits of the queues above a workload as a table, for ``kubectl muster explain``."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, Final

from admission.cli.output import Output
from admission.cli.rendering.fitting import TableColumn, fits, item_table
from admission.cli.rendering.table import short_resource
from queues.read_api.bodies import AccountBody, ExplanationBody, QueueBody

#: Columns of a row, each with how it gives way.
_COLUMNS: Final[Sequence[Mapping[str, Any]]] = (
    {"name": "QUEUE", "least": 8},
    {"name": "RESOURCE", "least": 6},
    {"name": "FLAVOR", "least": 6, "goes": 3},
    {"name": "USED", "right": True},
    {"name": "KEPT", "right": True, "goes": 1},
    {"name": "ASKED", "right": True},
    {"name": "DESERVED", "right": True, "goes": 2},
    {"name": "CAPABILITY", "right": True},
    {"name": "OVER-BY", "right": True},
    {"name": "STATE"},
)

Row = tuple[str | None, ...]


def limits_text(one: ExplanationBody, output: Output) -> str:
    """Limits of the queues from its own to root, for the resources that it requests; "": it does not wait.

    Where a line has no room, columns without anything go first, and
    states of queues are below.
    """
    rows = _rows(one, output.is_wide)
    if not rows:
        return ""
    text = _table(rows, range(len(_COLUMNS)), replace(output, width=None))
    if fits(text, output.room):
        return text
    short = [(row[0], short_resource(row[1]), *row[2:-1]) for row in rows if row[1] is not None]
    filled = [index for index in range(len(_COLUMNS) - 1) if any(row[index] is not None for row in short)]
    states = dict.fromkeys(f"queue {row[0]} is {row[-1]}\n" for row in rows if row[-1] is not None)
    return (_table(short, filled, output) if short else "") + "".join(states)


def _table(rows: Sequence[Row], shown: Iterable[int], output: Output) -> str:
    columns = [TableColumn[Row](cell=itemgetter(index), **_COLUMNS[index]) for index in shown]
    return item_table(columns, rows, output)


def _rows(one: ExplanationBody, wide: bool) -> list[Row]:
    if one.state != "pending":
        return []
    rows: list[Row] = []
    asks: dict[tuple[str, str], int] = {}
    for queue in one.path:
        state = _queue_state(queue)
        for line in queue.accounts:
            resource = line.resource
            if resource not in one.asks:
                continue
            account = (line.flavor, resource)
            asked = asks.get(account, _units(resource, one.asks[resource]))
            asks[account] = _asked_above(line, asked)
            if wide or line.capability is not None or line.deserved is not None:
                rows.append((queue.name, *_limit_cells(line, asked), state))
        if state and not any(row[0] == queue.name for row in rows):
            rows.append((queue.name, *[None] * 8, state))
    return rows


def _queue_state(queue: QueueBody) -> str | None:
    """The state of a queue, with its message. None if it is open."""
    state: str = queue.state
    if state == "open":
        return None
    return f"{state}: {queue.message}" if queue.message else state


def _limit_cells(line: AccountBody, asked: int) -> tuple[str | None, ...]:
    """Cells from RESOURCE to OVER-BY. Amounts kept for idle guarantees count as used against the capability."""
    resource = line.resource
    charged = _units(resource, line.counted)
    kept = charged - _units(resource, line.used)
    over = 0 if line.capability is None else charged + asked - _units(resource, line.capability)
    return (
        resource,
        line.flavor or None,
        line.used,
        _quantity(resource, kept) if kept > 0 else None,
        _quantity(resource, asked),
        line.deserved,
        line.capability,
        _quantity(resource, over) if over > 0 else None,
    )


def _asked_above(line: AccountBody, asked: int) -> int:
    """Units that a queue asks its parent for: less than it is asked for itself while guarantee is left."""
    guarantee, charged = (_units(line.resource, text) for text in (line.guarantee, line.counted))
    return max(charged + asked, guarantee) - max(charged, guarantee)


def _units(resource: str, text: str) -> int:
    from queues.resources import amount

    return amount(resource, text)


def _quantity(resource: str, units: int) -> str:
    from queues.resources import show

    return show(resource, units)
