"""The rows of a run, transaction by transaction, and admissions as plain values. Shares no code with the ledger."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.chaos.history import RowChange

Row = Mapping[str, Any]
Key = tuple[Any, ...]

#: Columns that tell the rows of a table apart; of other tables: ``kind`` and ``uid``.
KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "leases": ("name",),
    "fences": ("name",),
    "admissions": ("id",),
    "queue_balances": ("queue", "flavor", "resource"),
    "node_balances": ("node", "resource"),
    "postings": ("id",),
    "decisions": ("id",),
    "queues": ("name",),
    "queue_limits": ("queue", "flavor", "resource"),
    "nodes": ("name",),
    "node_limits": ("node", "resource"),
    "capacity": ("flavor", "resource"),
    "outcomes": ("pod_uid",),
    "recreations": ("pod_uid",),
}
_OWNER: Final = ("kind", "uid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """One place of an admission."""

    pod_set: str
    ordinal: int
    node: str
    flavor: str
    takes: Mapping[str, int]

    @property
    def place(self) -> tuple[str, int]:
        """Pod set and ordinal."""
        return self.pod_set, self.ordinal


@dataclass(frozen=True, slots=True)
class Admission:
    """One row of ``admissions``."""

    row: Row

    @property
    def id(self) -> int:
        """Its number."""
        return int(self.row["id"])

    @property
    def owner(self) -> tuple[str, str]:
        """Kind and uid of the workload."""
        return self.row["kind"], self.row["uid"]

    @property
    def state(self) -> str:
        """``open``, ``evicting`` or ``closed``."""
        return str(self.row["state"])

    @property
    def is_adopted(self) -> bool:
        """Whether it was made for pods that ran already."""
        return bool(self.row["adopted_pods"])

    @property
    def ended(self) -> frozenset[int]:
        """Indices of seats that were given back."""
        return frozenset(self.row["ended"])

    def seats(self) -> list[Seat]:
        """All its seats."""
        row = self.row
        return [
            Seat(pod_set=pod_set, ordinal=ordinal, node=node, flavor=flavor, takes=row["shapes"][shape])
            for pod_set, ordinal, node, flavor, shape in zip(
                row["pod_sets"], row["ordinals"], row["nodes"], row["flavors"], row["shape_of"], strict=True
            )
        ]

    def held(self) -> list[Seat]:
        """Seats that hold something: those that were not given back, as long as it is not closed."""
        if self.state == "closed":
            return []
        ended = self.ended
        return [seat for index, seat in enumerate(self.seats()) if index not in ended]

    def __str__(self) -> str:
        row = self.row
        return f"admission {self.id} of {row['kind']} {row['namespace']}/{row['name']}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """The row changes of one committed transaction."""

    changes: tuple[RowChange, ...]

    @property
    def number(self) -> int:
        """Of its last change."""
        return self.changes[-1].number

    @property
    def at(self) -> float:
        """Seconds since the epoch, of its last change."""
        return self.changes[-1].at

    @property
    def writer(self) -> str:
        """The session's role."""
        return self.changes[0].writer

    def of(self, *tables: str) -> Iterator[RowChange]:
        """The changes of these tables."""
        return (change for change in self.changes if change.table in tables)

    def inserted(self, table: str) -> list[Row]:
        """New rows of a table."""
        return [change.after for change in self.of(table) if change.before is None and change.after]

    def touches(self, *tables: str) -> bool:
        """Whether any of these tables changed."""
        return any(True for _ in self.of(*tables))


def transactions_of(rows: Iterable[RowChange]) -> tuple[Transaction, ...]:
    """By their last changes: of transactions that lock the same row, that is the order of their commits."""
    found: dict[int, list[RowChange]] = {}
    for row in rows:
        found.setdefault(row.transaction, []).append(row)
    whole = [
        Transaction(changes=tuple(sorted(changes, key=lambda change: change.number)))
        for changes in found.values()
    ]
    return tuple(sorted(whole, key=lambda each: each.number))


@dataclass(slots=True)
class Tables:
    """All rows as they are at one moment."""

    rows: dict[str, dict[Key, Row]] = field(default_factory=dict)

    def apply(self, transaction: Transaction) -> None:
        """Go on to the moment after a transaction."""
        for change in transaction.changes:
            table = self.rows.setdefault(change.table, {})
            if change.before is not None:
                table.pop(key_of(change.table, change.before), None)
            if change.after is not None:
                table[key_of(change.table, change.after)] = change.after

    def of(self, table: str) -> Mapping[Key, Row]:
        """The rows of a table, by what tells them apart."""
        return self.rows.get(table, {})

    def admissions(self) -> Iterator[Admission]:
        """Every admission, closed ones among them."""
        return (Admission(row) for row in self.of("admissions").values())


def key_of(table: str, row: Row) -> Key:
    """What tells a row from the others of its table."""
    return tuple(row[column] for column in KEYS.get(table, _OWNER))


def moments(transactions: Iterable[Transaction]) -> Iterator[tuple[Transaction, Tables]]:
    """Each transaction with the tables as they are after it; always the same object, so look at once."""
    tables = Tables()
    for transaction in transactions:
        tables.apply(transaction)
        yield transaction, tables
