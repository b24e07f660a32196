"""Checks of the ledger by its rows alone, after every transaction."""

from collections import Counter
from collections.abc import Iterator, Mapping

from tests.chaos.checker.breach import Breach
from tests.chaos.checker.ledger import Admission, Seat, Tables, Transaction, moments
from tests.chaos.checker.recording import Recording

#: Queue, flavor ("": over all), resource.
Account = tuple[str, str, str]
_ROOT = "root"


def balances_are_what_admissions_hold(recording: Recording) -> Iterator[Breach]:
    """At every moment the balances of queues and nodes are the sums of what admissions hold that are not closed."""
    for transaction, tables in moments(recording.transactions):
        if not transaction.touches("admissions", "queue_balances", "node_balances", "queues", "queue_limits"):
            continue
        own: Counter[Account] = Counter()
        on_nodes: Counter[tuple[str, str]] = Counter()
        for admission in tables.admissions():
            for seat in admission.held():
                own.update(_charged(admission.row["queue"], seat))
                on_nodes.update({(seat.node, resource): units for resource, units in seat.takes.items()})
        stored = {key: row["used"] for key, row in tables.of("node_balances").items() if row["used"]}
        yield from _differences("node", on_nodes, stored, transaction)
        for column, right in _balances(tables, own).items():
            found = {key: row[column] for key, row in tables.of("queue_balances").items() if row[column]}
            yield from _differences(f"{column} of queue", right, found, transaction)


def _charged(queue: str, seat: Seat) -> Counter[Account]:
    charged: Counter[Account] = Counter()
    for resource, units in seat.takes.items():
        if "#" not in resource:  # single devices count on nodes only
            for flavor in {"", seat.flavor}:
                charged[queue, flavor, resource] += units
    return charged


def _balances(tables: Tables, own: Mapping[Account, int]) -> dict[str, Mapping[Account, int]]:
    """Own, used and counted of every queue, from what each has of its own."""
    parents = {row["name"]: row["counts_in"] for row in tables.of("queues").values()}
    keeps = {key: row["keeps"] for key, row in tables.of("queue_limits").items() if row["keeps"]}
    used, counted = Counter[Account](), Counter[Account]()
    named = {*parents, *(queue for queue, _, _ in (*own, *keeps)), _ROOT}
    kinds = {(flavor, resource) for _, flavor, resource in (*own, *keeps)}
    for queue in sorted(named, key=lambda name: -len(_path(name, parents))):
        for kind in kinds:
            here = (queue, *kind)
            used[here] += own.get(here, 0)
            counted[here] += own.get(here, 0)
            if queue != _ROOT:
                above = (_above(queue, parents), *kind)
                used[above] += used[here]
                counted[above] += max(counted[here], keeps.get(here, 0))
    return {"own": own, "used": used, "counted": counted}


def _above(queue: str, parents: Mapping[str, str | None]) -> str:
    return parents.get(queue) or _ROOT


def _path(queue: str, parents: Mapping[str, str | None]) -> list[str]:
    path = [queue]
    while path[-1] != _ROOT:
        path.append(_above(path[-1], parents))
    return path


def _differences(
    what: str, right: Mapping[tuple[str, ...], int], stored: Mapping[tuple[str, ...], int], at: Transaction
) -> Iterator[Breach]:
    for key in sorted({*right, *stored}):
        if right.get(key, 0) != stored.get(key, 0):
            name = "/".join(part for part in key if part)
            yield Breach(
                what=f"{what} {name} is {stored.get(key, 0)}, admissions hold {right.get(key, 0)}",
                row=at.number,
            )


def postings_are_what_admissions_gain_and_lose(recording: Recording) -> Iterator[Breach]:
    """Each seat is posted once when it is given, and once when it is given back, in the same transaction."""
    for transaction in recording.transactions:
        moved: Counter[tuple[str, int, str, str, str]] = Counter()
        for change in transaction.of("admissions"):
            before = Admission(change.before) if change.before else None
            after = Admission(change.after) if change.after else None
            if after is None:
                continue
            seats = after.seats()
            if before is None:
                kind = "adopt" if after.is_adopted else "admit"
                _note(moved, kind, after, seats)
            given_back = [seats[index] for index in after.ended - (before.ended if before else frozenset())]
            _note(moved, "free", after, given_back)
        posted: Counter[tuple[str, int, str, str, str]] = Counter()
        for row in transaction.inserted("postings"):
            queue = row["credit"] if row["kind"] == "free" else row["debit"]
            for flavor, resource, units in zip(row["flavors"], row["resources"], row["amounts"], strict=True):
                key = (row["kind"], row["admission"], queue.removeprefix("queue/"), flavor, resource)
                posted[key] += units
        for key in sorted({*moved, *posted}):
            if moved[key] != posted[key]:
                kind, id_, queue, flavor, resource = key
                yield Breach(
                    what=f"{kind} of admission {id_}: posted {posted[key]} {flavor}{resource} to {queue},"
                    f" moved {moved[key]}",
                    row=transaction.number,
                )


def _note(
    moved: "Counter[tuple[str, int, str, str, str]]", kind: str, admission: Admission, seats: list[Seat]
) -> None:
    for seat in seats:
        for resource, units in seat.takes.items():
            if "#" not in resource:
                moved[kind, admission.id, admission.row["queue"], seat.flavor, resource] += units


def limits_hold_at_every_moment(recording: Recording) -> Iterator[Breach]:
    """No gang is admitted above a limit of a queue on its path, or above what a node offers. Nothing is negative."""
    for transaction, tables in moments(recording.transactions):
        for change in transaction.of("queue_balances", "node_balances"):
            row = change.after or {}
            if any(row.get(column, 0) < 0 for column in ("own", "used", "counted")):
                yield Breach(what=f"negative balance: {dict(row)}", row=change.number)
        kinds = {row["kind"] for row in transaction.inserted("postings")}
        if "admit" not in kinds or "adopt" in kinds:
            continue  # what is adopted counts whatever the limits say
        yield from _queues_above(transaction, tables)
        yield from _nodes_above(transaction, tables)


def _queues_above(transaction: Transaction, tables: Tables) -> Iterator[Breach]:
    for change in transaction.of("queue_balances"):
        row = change.after
        if row is None or row["counted"] <= (change.before or {"counted": 0})["counted"]:
            continue
        key = (row["queue"], row["flavor"], row["resource"])
        ceiling = tables.of("queue_limits").get(key, {}).get("ceiling")
        if ceiling is not None and row["counted"] > ceiling:
            name = "/".join(part for part in key if part)
            yield Breach(
                what=f"queue {name} counts {row['counted']}, its limit is {ceiling}", row=change.number
            )


def _nodes_above(transaction: Transaction, tables: Tables) -> Iterator[Breach]:
    for row in transaction.inserted("admissions"):
        for seat in Admission(row).seats():
            node = tables.of("nodes").get((seat.node,))
            if node is None or not node["usable"]:
                yield Breach(what=f"{Admission(row)} has a seat on {seat.node}", row=transaction.number)
                continue
            for resource in seat.takes:
                key = (seat.node, resource)
                used = tables.of("node_balances").get(key, {}).get("used", 0)
                limit = tables.of("node_limits").get(key, {}).get("amount", 0)
                if used > limit:
                    what = f"node {seat.node} holds {used} {resource}, it offers {limit}"
                    yield Breach(what=what, row=transaction.number)


def no_seat_is_held_twice(recording: Recording) -> Iterator[Breach]:
    """Admissions of one workload that are not closed never have the same seat, and hold no second whole gang."""
    for transaction, tables in moments(recording.transactions):
        opened = {row["id"] for row in transaction.inserted("admissions")}
        if not opened:
            continue
        codes = {row["admission"]: row["code"] for row in transaction.inserted("decisions")}
        held: dict[tuple[str, str], list[Admission]] = {}
        for admission in tables.admissions():
            if admission.state != "closed":
                held.setdefault(admission.owner, []).append(admission)
        for admissions in held.values():
            # A pod that went where its seat was given back already is adopted: it has a number of its own making.
            asked = [each for each in admissions if not each.is_adopted]
            places = Counter(seat.place for admission in asked for seat in admission.held())
            for place, count in places.items():
                if count > 1:
                    yield Breach(what=f"seat {place} twice: {_names(admissions)}", row=transaction.number)
            # An elastic gang is admitted as its minimum and parts, in one transaction.
            whole = [each for each in admissions if each.id in opened and codes.get(each.id) == "gang"]
            before = [each for each in admissions if each.id not in opened]
            if whole and (before or len(whole) > 1):
                yield Breach(what=f"admitted again: {_names(admissions)}", row=transaction.number)


def _names(admissions: list[Admission]) -> str:
    return ", ".join(f"{each} ({each.state})" for each in admissions)


def admissions_only_go_forward(recording: Recording) -> Iterator[Breach]:
    """open → evicting → closed; seats are given back once, the last one closes; none vanishes."""
    order = ("open", "evicting", "closed")
    for transaction in recording.transactions:
        for change in transaction.of("admissions"):
            before = Admission(change.before) if change.before else None
            after = Admission(change.after) if change.after else None
            if before is not None and after is None:
                yield Breach(what=f"{before} vanished ({before.state})", row=change.number)
                continue
            assert after is not None
            if (len(after.ended) == len(after.seats())) != (after.state == "closed"):
                what = f"{after} is {after.state} with {len(after.ended)} of {len(after.seats())} seats given back"
                yield Breach(what=what, row=change.number)
            if before is None:
                continue
            if order.index(after.state) < order.index(before.state) or not before.ended <= after.ended:
                yield Breach(what=f"{after} was {before.state} and is {after.state}", row=change.number)
            if before.state == "closed" or before.seats() != after.seats():
                yield Breach(what=f"{after} changed after it was closed, or its seats did", row=change.number)
