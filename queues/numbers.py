"""The numbers that a queue states, by account, and whether they agree with each other and with its children's."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from queues.account import Account
from queues.errors import GuaranteesExceedParent, LimitsOutOfOrder, MusterError
from queues.queue import ROOT, Queue
from queues.resources import NOTHING, Resources
from queues.workload import NO_FLAVOR, FlavorName


@dataclass(slots=True)
class Numbers:
    """A queue's own numbers by account, the sums over its flavors included."""

    guarantee: dict[Account, int] = field(default_factory=dict)
    deserved: dict[Account, int] = field(default_factory=dict)
    capability: dict[Account, int] = field(default_factory=dict)


def numbers_of(queue: Queue) -> Numbers:
    """What a queue states. Over all flavors it keeps at least what it keeps in them."""
    numbers = Numbers()
    over_all: dict[str, dict[str, int]] = {"guarantee": {}, "deserved": {}}
    for flavor, limits in ((NO_FLAVOR, queue.limits), *queue.flavors.items()):
        for kind in ("guarantee", "deserved", "capability"):
            book: dict[Account, int] = getattr(numbers, kind)
            amounts: Mapping[str, int] = getattr(limits, kind)
            for resource, units in amounts.items():
                book[Account(flavor, resource)] = units
                if flavor != NO_FLAVOR and kind in over_all:
                    over_all[kind][resource] = over_all[kind].get(resource, 0) + units
    for resource, units in over_all["guarantee"].items():
        plain = Account(NO_FLAVOR, resource)
        numbers.guarantee[plain] = max(units, numbers.guarantee.get(plain, 0))
    for resource, units in over_all["deserved"].items():
        numbers.deserved.setdefault(Account(NO_FLAVOR, resource), units)
    return numbers


def misordered(queue: Queue, numbers: Numbers) -> list[MusterError]:
    """Where guarantee ≤ deserved ≤ capability does not hold."""
    wrong: list[MusterError] = []
    for account in sorted({*numbers.guarantee, *numbers.deserved, *numbers.capability}):
        known = [numbers.guarantee.get(account, 0)]
        known += [book[account] for book in (numbers.deserved, numbers.capability) if account in book]
        if known != sorted(known):
            wrong.append(
                LimitsOutOfOrder(
                    queue=queue.name,
                    resource=str(account),
                    guarantee=account.show(known[0]),
                    deserved=account.show(numbers.deserved.get(account)),
                    capability=account.show(numbers.capability.get(account)),
                )
            )
    return wrong


def guaranteed(
    queue: Queue, numbers: Numbers, children: Mapping[Account, int]
) -> tuple[dict[Account, int], dict[Account, MusterError]]:
    """What counts as guaranteed, and where the children are guaranteed more than the queue may have."""
    if queue.name == ROOT:  # nobody stands above root to keep anything from
        return {}, {}
    guarantee = dict(numbers.guarantee)
    excess: dict[Account, MusterError] = {}
    for account, units in sorted(children.items()):
        own = numbers.guarantee.get(account, numbers.capability.get(account))
        if own is None or units <= own:
            guarantee[account] = max(guarantee.get(account, 0), units)
        else:
            excess[account] = GuaranteesExceedParent(
                queue=queue.name, children=account.show(units), resource=str(account), own=account.show(own)
            )
    return guarantee, excess


def ceiling_of(
    own: Mapping[Account, int], capacity: Resources | None, flavors: Mapping[FlavorName, Resources]
) -> dict[Account, int]:
    """What bounds root: its own capability, and what nodes can allocate (None: not known)."""
    ceiling = dict(own)
    for flavor, amounts in ((NO_FLAVOR, capacity or NOTHING), *flavors.items()):
        for resource, units in amounts.items():
            account = Account(flavor, resource)
            ceiling[account] = min(units, ceiling.get(account, units))
    return ceiling
