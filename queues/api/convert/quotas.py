"""Kueue's quotas as limits of Queues.

Nominal quota → deserved; nominal quota + borrowing limit → capability; nominal quota − lending limit → guarantee. A
cohort is an inner queue, whose numbers contain those below it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from queues.api.convert.kueue_types import ResourceGroup
from queues.quota.accounts import Account
from queues.resources import amount, show
from queues.workload import NO_FLAVOR, FlavorName


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenQuota:
    """What a ClusterQueue or Cohort states of one account, in the units of ``queues.resources``."""

    nominal: int = 0
    #: None if it is not limited.
    borrowing: int | None = None
    #: None if it is not limited.
    lending: int | None = None

    def with_other(self, other: "WrittenQuota") -> "WrittenQuota":
        """Both as one, where Muster does not distinguish their flavors."""
        limited = self.borrowing is not None and other.borrowing is not None
        kept = self.lending is not None or other.lending is not None
        return WrittenQuota(
            nominal=self.nominal + other.nominal,
            borrowing=(self.borrowing or 0) + (other.borrowing or 0) if limited else None,
            lending=self._lent() + other._lent() if kept else None,
        )

    def _lent(self) -> int:
        return self.nominal if self.lending is None else min(self.lending, self.nominal)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountLimits:
    """Limits of a Queue in one account."""

    guarantee: int = 0
    deserved: int = 0
    #: None if only the queues above limit it.
    capability: int | None = None


def written_quotas(
    groups: Iterable[ResourceGroup], as_flavors: frozenset[str]
) -> dict[Account, WrittenQuota]:
    """The quotas of resource groups; flavors that are not ``as_flavors`` together. Raises InvalidQuantity."""
    found: dict[Account, WrittenQuota] = {}
    for group in groups:
        for flavor in group.flavors:
            name = FlavorName(flavor.name) if flavor.name in as_flavors else NO_FLAVOR
            for quota in flavor.resources:
                borrowing, lending = quota.borrowing_limit, quota.lending_limit
                written = WrittenQuota(
                    nominal=amount(quota.name, quota.nominal_quota),
                    borrowing=None if borrowing is None else amount(quota.name, borrowing),
                    lending=None if lending is None else amount(quota.name, lending),
                )
                account = Account(name, quota.name)
                found[account] = found[account].with_other(written) if account in found else written
    return found


def limits_of(
    own: Mapping[Account, WrittenQuota], children: Sequence[Mapping[Account, AccountLimits]], *, is_top: bool
) -> dict[Account, AccountLimits]:
    """Limits of a ClusterQueue (without children) or Cohort. ``is_top``: it has no cohort to borrow from."""
    accounts = {*own, *(account for child in children for account in child)}
    return {
        account: _limits(
            own.get(account, WrittenQuota()),
            [child[account] for child in children if account in child],
            is_top=is_top,
        )
        for account in sorted(accounts)
    }


def _limits(own: WrittenQuota, children: Sequence[AccountLimits], *, is_top: bool) -> AccountLimits:
    deserved = own.nominal + sum(child.deserved for child in children)
    guarantee = sum(child.guarantee for child in children)
    if own.lending is not None:
        guarantee = max(guarantee, deserved - own.lending)
    if is_top:
        return AccountLimits(guarantee=guarantee, deserved=deserved, capability=deserved)
    capability = None if own.borrowing is None else deserved + own.borrowing
    return AccountLimits(guarantee=guarantee, deserved=deserved, capability=capability)


def spec_of(
    limits: Mapping[Account, AccountLimits], flavors: Sequence[str], forbidden: Iterable[str]
) -> dict[str, Any]:
    """``guarantee``, ``deserved``, ``capability`` and ``flavors`` of a Queue's spec.

    ``flavors``: in the order to try. ``forbidden``: resources that the queue may not use at all.
    """
    over_all = {account.resource: each for account, each in limits.items() if account.flavor == NO_FLAVOR}
    for account, each in limits.items():
        if account.flavor != NO_FLAVOR and account.resource in over_all:
            over_all[account.resource] = _sum(over_all[account.resource], each)
    for resource in forbidden:
        over_all.setdefault(resource, AccountLimits(capability=0))
    spec = _fields(over_all)
    if "guarantee" in spec:
        spec["guarantee"] = {"resource": spec["guarantee"]}
    entries = [
        {
            "name": flavor,
            **_fields({a.resource: each for a, each in limits.items() if a.flavor == flavor}),
        }
        for flavor in flavors
    ]
    return {**spec, **({"flavors": entries} if entries else {})}


def _sum(one: AccountLimits, other: AccountLimits) -> AccountLimits:
    limited = one.capability is not None and other.capability is not None
    return AccountLimits(
        guarantee=one.guarantee + other.guarantee,
        deserved=one.deserved + other.deserved,
        capability=(one.capability or 0) + (other.capability or 0) if limited else None,
    )


def _fields(limits: Mapping[str, AccountLimits]) -> dict[str, Any]:
    guarantee = {name: show(name, each.guarantee) for name, each in limits.items() if each.guarantee}
    deserved = {name: show(name, each.deserved) for name, each in limits.items()}
    capability = {
        name: show(name, each.capability) for name, each in limits.items() if each.capability is not None
    }
    fields = {"guarantee": guarantee, "deserved": deserved, "capability": capability}
    return {name: amounts for name, amounts in fields.items() if amounts}
