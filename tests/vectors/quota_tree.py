"""quota_tree.json: queues, cohorts and usage → what each queue may still use and could ever use."""

from typing import Any

from queues.quota.accounts import Account
from queues.quota.queue import ROOT, Limits, Queue
from queues.quota.tree import QueueTree
from queues.quota.usage import Usage
from queues.resources import Resources
from queues.workload import FlavorName, QueueName
from tests.builders.quota import available

Case = dict[str, Any]

#: Guarantee, deserved, capability (None: unset).
Numbers = tuple[int, int, int | None]


def difference(case: Case) -> str | None:
    """Where the case comes out otherwise than it wants; None: it does not."""
    tree = QueueTree.build(queues(case), None)
    if tree.problems:
        return f"problems: {tree.problems}"
    every = {each["name"]: cohort_named(each["name"]) for each in cohorts(case)}
    every |= {each["name"]: named(each["name"]) for each in case["queues"]}
    idle, busy = Usage(tree), Usage(tree)
    for queue, book in (case.get("usage") or {}).items():
        busy.add(every[queue], {_account(key): units for key, units in book.items()})
    wanted = {kind: case[kind] for kind in ("potential", "available") if kind in case}
    if not wanted:
        return "found neither available nor potential, expected what each queue may use"
    found = {
        kind: _amounts(books, every, idle if kind == "potential" else busy) for kind, books in wanted.items()
    }
    wrong = {
        kind: amounts
        for kind, amounts in found.items()
        if amounts != {queue: _shown(book) for queue, book in wanted[kind].items()}
    }
    return f"found {wrong}, expected { ({kind: wanted[kind] for kind in wrong}) }" if wrong else None


def _amounts(
    wanted: dict[str, dict[str, int]], every: dict[str, QueueName], usage: Usage
) -> dict[str, dict[str, int]]:
    return {
        queue: _shown({key: available(usage, every[queue], _account(key)) or 0 for key in book})
        for queue, book in wanted.items()
    }


def _shown(book: dict[str, int]) -> dict[str, int]:
    """Below zero counts as 0."""
    return {key: max(0, units) for key, units in book.items()}


def queues(case: Case) -> dict[QueueName, Queue]:
    """Cohorts bottom up, since an inner queue's numbers contain its children's."""
    inner = cohorts(case)
    members: dict[str, list[tuple[QueueName, dict[str, Any]]]] = {}
    for name, member in [(named(each["name"]), each) for each in case["queues"]] + [
        (cohort_named(each["name"]), each) for each in inner
    ]:
        members.setdefault(member.get("parent") or "", []).append((name, member))
    below = {cohort_named(each["name"]): members.get(each["name"], []) for each in inner}
    built: dict[QueueName, Queue] = {}

    def build(name: QueueName, member: dict[str, Any]) -> dict[Account, Numbers]:
        """Numbers by account, after those of all below."""
        children = [build(*child) for child in below.get(name, ())]
        quotas = {_account(key): quota for key, quota in (member.get("quotas") or {}).items()}
        numbers = {
            account: _numbers(
                quotas.get(account, {}),
                [each.get(account, (0, 0, None)) for each in children],
                top=not member.get("parent"),
            )
            for account in {*quotas, *(account for each in children for account in each)}
        }
        parent = cohort_named(member["parent"]) if member.get("parent") else ROOT
        built[name] = Queue(name=name, parent=parent, flavors=_limits(numbers))
        return numbers

    for top in members.get("", ()):
        build(*top)
    written = [member for each in members.values() for _, member in each]
    if len(built) < len(written):
        raise ValueError(f"{len(built)} of {len(written)} queues hang below a top, expected a tree of all")
    return built


def _numbers(quota: dict[str, int | None], children: list[Numbers], *, top: bool) -> Numbers:
    deserved = (quota.get("nominal") or 0) + sum(each[1] for each in children)
    guarantee = sum(each[0] for each in children)
    lending, borrowing = quota.get("lending_limit"), quota.get("borrowing_limit")
    if lending is not None:
        guarantee = max(guarantee, deserved - lending)
    if top:
        return guarantee, deserved, deserved  # there is nobody to borrow from
    return guarantee, deserved, None if borrowing is None else deserved + borrowing


def cohorts(case: Case) -> list[dict[str, Any]]:
    """Those listed, and those that are only named as somebody's parent."""
    listed: list[dict[str, Any]] = case.get("cohorts") or []
    parents = {each["parent"] for each in (*case["queues"], *listed) if each.get("parent")}
    return [*listed, *({"name": name} for name in sorted(parents - {each["name"] for each in listed}))]


def _limits(numbers: dict[Account, Numbers]) -> dict[FlavorName, Limits]:
    flavors = sorted({account.flavor for account in numbers})
    return {
        flavor: Limits(
            guarantee=Resources({a.resource: n[0] for a, n in numbers.items() if a.flavor == flavor}),
            deserved={a.resource: n[1] for a, n in numbers.items() if a.flavor == flavor},
            capability={
                a.resource: n[2] for a, n in numbers.items() if a.flavor == flavor and n[2] is not None
            },
        )
        for flavor in flavors
    }


def named(name: str) -> QueueName:
    return QueueName(f"vector-{name}")


def cohort_named(name: str) -> QueueName:
    """A cohort may be called root, or as one of its queues."""
    return QueueName(f"cohort-{name}")


def _account(key: str) -> Account:
    flavor, _, resource = key.partition("/")
    return Account(FlavorName(flavor), resource)
