"""Laws of the ledger's arithmetic, against books kept the plain way: recomputed from every open seat, each time."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from queues.admissions import Seat
from queues.quota.accounts import Account
from queues.quota.posting import (
    Books,
    Move,
    NodeAccount,
    NodeBalance,
    Posting,
    QueueAccount,
    QueueBalance,
    balance_all,
)
from queues.quota.queue import ROOT
from queues.resources import Resources
from queues.workload import NO_FLAVOR, FlavorName, NodeName, QueueName
from tests.laws.worlds.settings import in_worlds

RESOURCES = ("cpu", "nvidia.com/gpu")
FLAVORS = (NO_FLAVOR, FlavorName("h100"))
ACCOUNTS = tuple(Account(flavor, resource) for flavor in FLAVORS for resource in RESOURCES)


@dataclass
class Plain:
    """What balances mean: sums over open seats, nothing remembered."""

    parents: Mapping[QueueName, QueueName | None]
    guarantees: Mapping[QueueAccount, int]
    ceilings: Mapping[QueueAccount, int]
    limits: Mapping[NodeAccount, int]
    held: list[tuple[QueueName, Seat]] = field(default_factory=list)

    def own(self, queue: QueueName, account: Account) -> int:
        return sum(
            seat.takes.get(account.resource)
            for where, seat in self.held
            if where == queue and account.flavor in {NO_FLAVOR, seat.flavor}
        )

    def used(self, queue: QueueName, account: Account) -> int:
        below = sum(self.used(child, account) for child, parent in self.parents.items() if parent == queue)
        return self.own(queue, account) + below

    def counted(self, queue: QueueName, account: Account) -> int:
        children = (child for child, parent in self.parents.items() if parent == queue)
        return self.own(queue, account) + sum(
            max(self.counted(child, account), self.guarantees.get(QueueAccount(child, *account), 0))
            for child in children
        )

    def on(self, node: NodeAccount) -> int:
        return sum(seat.takes.get(node.resource) for _, seat in self.held if seat.node == node.node)

    def every(self) -> dict[QueueAccount, Move]:
        found = {
            QueueAccount(queue, *account): Move(
                self.own(queue, account), self.used(queue, account), self.counted(queue, account)
            )
            for queue in self.parents
            for account in ACCOUNTS
        }
        return {account: move for account, move in found.items() if move != Move()}

    def would_hold(self, queue: QueueName, seats: tuple[Seat, ...]) -> bool:
        """Whether no limit that something grows against is passed with these seats as well."""
        more = Plain(self.parents, self.guarantees, self.ceilings, self.limits, [*self.held])
        more.held += [(queue, seat) for seat in seats]
        queues_hold = all(
            more.counted(account.queue, Account(account.flavor, account.resource)) <= ceiling
            or more.counted(account.queue, Account(account.flavor, account.resource))
            == self.counted(account.queue, Account(account.flavor, account.resource))
            for account, ceiling in self.ceilings.items()
        )
        nodes_hold = all(
            more.on(node) <= limit or more.on(node) == self.on(node) for node, limit in self.limits.items()
        )
        return queues_hold and nodes_hold


@st.composite
def plain_books(draw: st.DrawFn) -> Plain:
    names = [ROOT, *(QueueName(f"q{index}") for index in range(draw(st.integers(1, 6))))]
    parents: dict[QueueName, QueueName | None] = {ROOT: None}
    for index, name in enumerate(names[1:], start=1):
        parents[name] = names[draw(st.integers(0, index - 1))]
    accounts = [QueueAccount(name, *account) for name in names for account in ACCOUNTS]
    amounts = st.dictionaries(st.sampled_from(accounts), st.integers(0, 12), max_size=8)
    guarantees = {account: units for account, units in draw(amounts).items() if account.queue != ROOT}
    limits = {
        NodeAccount(NodeName(node), resource): draw(st.integers(0, 20))
        for node in ("n1", "n2")
        for resource in RESOURCES
    }
    return Plain(parents, guarantees, draw(amounts), limits)


seats = st.builds(
    Seat,
    pod_set=st.just("worker"),
    ordinal=st.just(0),
    node=st.sampled_from([NodeName("n1"), NodeName("n2")]),
    flavor=st.sampled_from(FLAVORS),
    takes=st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 4)).map(Resources),
)
gangs = st.lists(seats, min_size=1, max_size=4).map(tuple)


def books_of(plain: Plain) -> Books:
    stored = plain.every()
    return Books(
        counts_in=plain.parents,
        queues={
            account: QueueBalance(
                own=move.own,
                used=move.used,
                counted=move.counted,
                guarantee=plain.guarantees.get(account, 0),
                ceiling=plain.ceilings.get(account),
            )
            for queue in plain.parents
            for account in (QueueAccount(queue, *each) for each in ACCOUNTS)
            for move in (stored.get(account, Move()),)
        },
        nodes={node: NodeBalance(used=plain.on(node), limit=limit) for node, limit in plain.limits.items()},
    )


def balances(books: Books) -> dict[QueueAccount, Move]:
    found = {
        account: Move(balance.own, balance.used, balance.counted) for account, balance in books.queues.items()
    }
    return {account: move for account, move in found.items() if move != Move()}


@in_worlds(150)
@given(data=st.data(), plain=plain_books())
def test_balances_are_the_sums_over_open_seats_and_no_limit_is_passed(
    data: st.DataObject, plain: Plain
) -> None:
    queues = st.sampled_from([name for name in plain.parents if name != ROOT])
    books = books_of(plain)
    idle = balances(books)
    for _ in range(data.draw(st.integers(1, 8), label="steps")):
        if plain.held and data.draw(st.booleans(), label="free"):
            queue, seat = plain.held.pop(data.draw(st.integers(0, len(plain.held) - 1), label="which"))
            books.post(Posting.of(queue, [seat], sign=-1))
        else:
            queue, gang = data.draw(queues, label="queue"), data.draw(gangs, label="gang")
            holds = plain.would_hold(queue, gang)
            rejection = books.try_post(Posting.of(queue, gang))
            assert holds == (rejection is None)
            if holds:
                plain.held += [(queue, seat) for seat in gang]
            elif data.draw(st.booleans(), label="adopt"):
                books.post(Posting.of(queue, gang))
                plain.held += [(queue, seat) for seat in gang]
        assert plain.every() == balances(books)
        assert {node: plain.on(node) for node in plain.limits} == {
            node: balance.used for node, balance in books.nodes.items()
        }
    while plain.held:
        queue, seat = plain.held.pop()
        books.post(Posting.of(queue, [seat], sign=-1))
    assert idle == balances(books)
    assert all(balance.used == 0 for balance in books.nodes.values())


@in_worlds(100)
@given(plain=plain_books(), data=st.data())
def test_balances_from_scratch_are_the_balances_kept_step_by_step(plain: Plain, data: st.DataObject) -> None:
    queues = st.sampled_from([name for name in plain.parents if name != ROOT])
    plain.held = data.draw(st.lists(st.tuples(queues, seats), max_size=8))
    own = {
        QueueAccount(queue, *account): plain.own(queue, account)
        for queue in plain.parents
        for account in ACCOUNTS
    }
    assert plain.every() == balance_all(plain.parents, own, plain.guarantees)


@in_worlds(50)
@given(plain=plain_books(), gang=gangs)
def test_what_moves_is_what_changed(plain: Plain, gang: tuple[Seat, ...]) -> None:
    books = books_of(plain)
    before = balances(books)
    queue = next(name for name in plain.parents if name != ROOT)
    books.post(Posting.of(queue, gang))
    after = balances(books)
    for account, move in books.queue_moves.items():
        assert after.get(account, Move()) == before.get(account, Move()).and_then(move)
    assert {account for account in after if after[account] != before.get(account)} <= books.queue_moves.keys()
