"""quota_tree.json: queues, cohorts and usage → what each queue may still use and could ever use."""

from typing import Any

from queues.quota import ROOT, Account, Limits, Queue, QueueTree
from queues.resources import Resources
from queues.usage import Usage
from queues.workload import FlavorName, QueueName

Case = dict[str, Any]


def difference(case: Case) -> str | None:
    """Where the case comes out otherwise than it wants; None: it does not."""
    tree = QueueTree.build(queues(case), None)
    if tree.problems:
        return f"problems: {tree.problems}"
    idle, busy = Usage(tree), Usage(tree)
    for queue, book in case["usage"].items():
        busy.add(named(queue), {_account(key): units for key, units in book.items()})
    found = {"potential": _amounts(case["potential"], idle), "available": _amounts(case["available"], busy)}
    wrong = {kind: amounts for kind, amounts in found.items() if amounts != case[kind]}
    return f"found {wrong}, expected { ({kind: case[kind] for kind in wrong}) }" if wrong else None


def _amounts(wanted: dict[str, dict[str, int]], usage: Usage) -> dict[str, dict[str, int]]:
    return {
        queue: {key: max(0, usage.available(named(queue), _account(key)) or 0) for key in book}
        for queue, book in wanted.items()
    }


def queues(case: Case) -> dict[QueueName, Queue]:
    """Cohorts bottom up, since an inner queue's numbers contain its children's."""
    members: dict[str, list[dict[str, Any]]] = {}
    for member in (*case["queues"], *case["cohorts"]):
        members.setdefault(member.get("parent", ""), []).append(member)
    cohorts = {cohort["name"]: cohort for cohort in case["cohorts"]}
    built: dict[QueueName, Queue] = {}

    def build(member: dict[str, Any]) -> dict[Account, tuple[int, int, int | None]]:
        """Numbers (guarantee, deserved, capability) by account, after those of all below."""
        below = (
            [build(child) for child in members.get(member["name"], ())] if member["name"] in cohorts else []
        )
        numbers: dict[Account, tuple[int, int, int | None]] = {}
        written = {_account(key): quota for key, quota in member["quotas"].items()}
        for account in {*written, *(account for each in below for account in each)}:
            quota = written.get(account, {})
            deserved = quota.get("nominal", 0) + sum(each.get(account, (0, 0, 0))[1] for each in below)
            guaranteed = sum(each.get(account, (0, 0, 0))[0] for each in below)
            if "lending_limit" in quota:
                guaranteed = max(guaranteed, deserved - quota["lending_limit"])
            capability = deserved + quota["borrowing_limit"] if "borrowing_limit" in quota else None
            if not member.get("parent"):
                capability = deserved  # there is nobody to borrow from
            numbers[account] = (guaranteed, deserved, capability)
        name = named(member["name"])
        parent = named(member["parent"]) if member.get("parent") else ROOT
        built[name] = Queue(name=name, parent=parent, flavors=_limits(numbers))
        return numbers

    for top in members.get("", ()):
        build(top)
    return built


def _limits(numbers: dict[Account, tuple[int, int, int | None]]) -> dict[FlavorName, Limits]:
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
    return QueueName(f"vector-{name}")  # a cohort may be called root


def _account(key: str) -> Account:
    flavor, _, resource = key.partition("/")
    return Account(FlavorName(flavor), resource)
