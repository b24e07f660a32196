"""Limits of the queues above a workload as a table, for ``kubectl muster explain``."""

from typing import Final

from admission.cli.output import Output
from admission.cli.rendering.fitting import Narrowing, fits, fitted_table
from admission.cli.rendering.table import short_resource, table
from admission.read_api.bodies import AccountBody, ExplanationBody, QueueBody

_COLUMNS: Final = (
    *("QUEUE", "RESOURCE", "FLAVOR", "USED", "KEPT", "ASKED", "DESERVED", "CAPABILITY", "OVER-BY", "STATE"),
)
_NUMBERS: Final = "USED KEPT ASKED DESERVED CAPABILITY OVER-BY"
_NARROW: Final = Narrowing(
    names={"QUEUE": 8, "RESOURCE": 6, "FLAVOR": 6}, left_out=("KEPT", "DESERVED", "FLAVOR")
)

Row = tuple[str | None, ...]


def limits_text(one: ExplanationBody, output: Output) -> str:
    """Limits of the queues from its own to root, for the resources that it requests; "": it does not wait.

    Where a line has no room, columns without anything go first, and
    states of queues are below.
    """
    rows, headers, width = _rows(one, output.is_wide), output.headers, output.room
    if not rows:
        return ""
    text = table(_COLUMNS, rows, headers=headers, right=_NUMBERS)
    if fits(text, width):
        return text
    kept = [row for row in rows if row[1] is not None]
    short = [(row[0], short_resource(str(row[1])), *row[2:-1]) for row in kept]
    filled = [index for index, _ in enumerate(_COLUMNS[:-1]) if any(row[index] is not None for row in short)]
    columns = [_COLUMNS[index] for index in filled]
    cells = [[row[index] for index in filled] for row in short]
    text = (
        fitted_table(columns, cells, _NARROW, width=width, headers=headers, right=_NUMBERS) if cells else ""
    )
    states = dict.fromkeys(f"queue {row[0]} is {row[-1]}\n" for row in rows if row[-1] is not None)
    return text + "".join(states)


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
