"""A turn that was decided again, as text: what was decided and why, what waited, and whether it was the same then."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from admission.cli.look_back.kept_turn import TurnRead, clock
from admission.cli.rendering.table import Cell, one_line, printable, table
from queues.text_format import counted, short_duration

if TYPE_CHECKING:
    from admission.replay.look_back import DecidedAgain
    from queues.admissions import Admission
    from queues.plan import Admit, Reason
    from queues.workload import Workload

#: Lines of a table, and differences, that are shown without ``--all``.
_SHOWN: Final = 20
#: Columns that a message may fill.
_WIDTH: Final = 76


def replayed_text(
    again: "DecidedAgain", read: TurnRead, at: datetime, configuration: str, *, everything: bool
) -> str:
    """The whole answer. ``configuration``: fingerprint of this engine."""
    decided, waited = list(_decisions(again)), _by_reason(again)
    count = sum(len(found) for _, found in waited)
    lines = [
        *about_turn(again, read, at, configuration),
        f"Decided: {len(decided) or 'nothing'}",
        *_indented(_table(decided, everything)),
        f"Waited: {count or 'nobody'}",
        *_indented(_cut([line for part in waited for line in _reason_lines(*part, everything)], everything)),
        *_compared(again, everything),
    ]
    return "".join(f"{line}\n" for line in lines)


def about_turn(again: "DecidedAgain", read: TurnRead, at: datetime, configuration: str) -> list[str]:
    """Which turn it is, how large, and what it can not tell."""
    snapshot, turn = again.saved.snapshot, read.turn
    before = short_duration(int((at - turn.decided_at).total_seconds()))
    lines = [
        f"Turn of {clock(turn.decided_at)}, {before} before {clock(at)} (term {turn.term})",
        f"  {counted(len(snapshot.pending), 'workload')} waiting, "
        f"{counted(len(snapshot.admissions), 'admission')}, {counted(len(snapshot.nodes), 'node')}",
    ]
    if read.later:
        lines.append(f"  {counted(read.later, 'decision')} of later turns until {clock(at)}: not in it")
    if turn.configuration != configuration:
        lines.append(f"  decided then by configuration {turn.configuration}, and now by {configuration}")
    return lines


def _decisions(again: "DecidedAgain") -> Iterator[tuple[Cell, ...]]:
    admissions, plan = again.saved.snapshot.admissions, again.plan
    refused = {each.workload: each.rule for each in again.refused}
    for evict in plan.evicts:
        evicted = admissions[evict.admission]
        yield _row("evict", evicted, len(evicted.holding()), str(evict.code))
    for free in plan.frees:
        yield _row("free", admissions[free.admission], len(free.seats), "ended")
    for adopt in plan.adopts:
        yield _row("adopt", adopt.admit, len(adopt.pods), "running")
    for admit in plan.admits:
        code = refused.get(admit.workload)
        why = f"refused by the ledger: {code}" if code else "elastic" if admit.elastic else "gang"
        yield _row("admit", admit, len(admit.seats), why)


def _row(what: str, of: "Admit | Admission", pods: int, why: str) -> tuple[Cell, ...]:
    return what, f"{of.workload.kind}/{of.name}", of.namespace, of.queue, pods, why


def _table(rows: Sequence[tuple[Cell, ...]], everything: bool) -> list[str]:
    columns = ["WHAT", "WORKLOAD", "NAMESPACE", "QUEUE", "PODS", "WHY"]
    return _cut(table(columns, rows, right="PODS").splitlines(), everything, 1) if rows else []


def _by_reason(again: "DecidedAgain") -> "list[tuple[str, list[tuple[Workload, Reason]]]]":
    """What waited, by the code of its reason, the most frequent first; in it the one that came first, first."""
    found: defaultdict[str, list[tuple[Workload, Reason]]] = defaultdict(list)
    pending = again.saved.snapshot.pending
    for key, reason in again.plan.reasons.items():
        if (workload := pending.get(key)) is not None:
            found[str(reason.code)].append((workload, reason))
    for each in found.values():
        each.sort(key=lambda one: (one[0].arrival, one[0].key))
    return sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))


def _reason_lines(title: str, found: "Sequence[tuple[Workload, Reason]]", everything: bool) -> Iterator[str]:
    yield f"{title}: {len(found)}"
    for workload, reason in found if everything else found[:1]:
        name = f"{workload.kind}/{workload.name} (namespace {workload.namespace}, queue {workload.queue})"
        yield f"  {printable(name)}"
        yield f"    {_within(printable(one_line(reason.message)), everything)}"


def _within(text: str, everything: bool) -> str:
    return text if everything or len(text) <= _WIDTH - 4 else text[: _WIDTH - 5] + "…"


def _compared(again: "DecidedAgain", everything: bool) -> Iterator[str]:
    count = len(again.differences)
    then = "the same plan as then" if not count else f"another plan than then, {counted(count, 'difference')}"
    yield f"Decided again: {then}"
    yield from _indented(_cut(list(again.differences), everything))
    if again.log_differences:
        yield f"Decision log: {counted(len(again.log_differences), 'difference')}"
        yield from _indented(_cut(list(again.log_differences), everything))
    else:
        yield f"Decision log: the same ({counted(again.logged, 'decision')})"


def _cut(lines: Sequence[str], everything: bool, headers: int = 0) -> list[str]:
    shown = list(lines if everything else lines[: _SHOWN + headers])
    more = len(lines) - len(shown)
    return [*shown, f"and {more} more; --all shows them"] if more else shown


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]
