"""Checks of leadership by the rows of lease and fence, and by who wrote what."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from tests.chaos.checker.breach import Breach
from tests.chaos.checker.ledger import Transaction, moments
from tests.chaos.checker.recording import CLOCKS_DIFFER, Recording
from tests.chaos.history import RowChange

_OF_LEADERSHIP: Final = ("leases", "fences")
#: Tables with rows that say in which term they were written.
_STAMPED: Final = ("postings", "decisions", "admissions")


def each_term_has_one_leader(recording: Recording) -> Iterator[Breach]:
    """Terms grow by one; a lease is taken only after its end, and renewed only by its holder before its end."""
    winners: dict[int, str] = {}
    for transaction in recording.transactions:
        for change in transaction.of("leases"):
            if change.after is not None:
                winner = winners.setdefault(change.after["term"], change.writer)
                yield from _wrong_lease(change, winner)


def _wrong_lease(change: RowChange, winner: str) -> Iterator[Breach]:
    before, after = change.before, change.after
    if after is None:
        yield Breach(what="the lease is deleted", row=change.number)
        return
    if before is None:
        return
    if change.writer != winner:
        yield Breach(what=f"{change.writer} renewed term {after['term']} of {winner}", row=change.number)
    left = _seconds(before["expires"]) - (change.at + change.ahead)
    if after["term"] == before["term"]:
        if after["holder"] != before["holder"]:
            what = f"term {after['term']} went from {before['holder']} to {after['holder']}"
            yield Breach(what=what, row=change.number)
        elif left < -CLOCKS_DIFFER:
            what = f"{after['holder']} renewed term {after['term']} {-left:.1f} s after its end"
            yield Breach(what=what, row=change.number)
    elif after["term"] != before["term"] + 1:
        yield Breach(what=f"term {before['term']} is followed by {after['term']}", row=change.number)
    elif left > CLOCKS_DIFFER:
        what = f"{after['holder']} took the lease {left:.1f} s before the end of term {before['term']}"
        yield Breach(what=what, row=change.number)


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def only_the_leader_writes(recording: Recording) -> Iterator[Breach]:
    """The replica that writes has won the term of the fence; rows have its number, and its sequence grows by one."""
    winners: dict[int, str] = {}
    for transaction, tables in moments(recording.transactions):
        for change in transaction.of("leases"):
            if change.after is not None and (
                change.before is None or change.before["term"] != change.after["term"]
            ):
                winners[change.after["term"]] = change.writer
        yield from _fence_goes_back(transaction)
        if all(change.table in _OF_LEADERSHIP for change in transaction.changes):
            continue
        fence = next(iter(tables.of("fences").values()), None)
        if fence is None:
            yield Breach(what=f"{transaction.writer} writes before there is a leader", row=transaction.number)
            continue
        term = fence["term"]
        if (winner := winners.get(term)) != transaction.writer:
            what = f"{transaction.writer} writes in term {term} of {winner}"
            yield Breach(what=what, row=transaction.number)
        yield from _wrong_stamps(transaction, term, fence["ledger_seq"])


def _fence_goes_back(transaction: Transaction) -> Iterator[Breach]:
    for change in transaction.of("fences"):
        before, after = change.before, change.after
        if before is None or after is None:
            continue
        if after["term"] < before["term"] or not 0 <= after["ledger_seq"] - before["ledger_seq"] <= 1:
            what = f"the fence went from {dict(before)} to {dict(after)}"
            yield Breach(what=what, row=change.number)


def _wrong_stamps(transaction: Transaction, term: int, seq: int) -> Iterator[Breach]:
    advanced = transaction.touches("fences")
    for table in _STAMPED:
        for row in transaction.inserted(table):
            if row["term"] != term or row.get("ledger_seq", seq) != seq or not advanced:
                what = f"{table} of term {row['term']}, number {row.get('ledger_seq')}; fence: {term}, {seq}"
                yield Breach(what=what + ("" if advanced else ", not advanced"), row=transaction.number)
