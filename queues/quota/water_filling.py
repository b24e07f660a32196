"""Water-filling: an amount shared out by weight, on exact integers."""

from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple


class Claimant(NamedTuple):
    """A queue that gets a share of an amount."""

    name: str
    weight: int | Fraction
    at_least: int = 0
    #: None for no bound.
    at_most: int | None = None


def share_out(amount: int, claimants: Iterable[Claimant]) -> dict[str, int]:
    """Shares in proportion to the weights, none below ``at_least`` or above ``at_most``.

    They sum to ``amount`` unless the bounds forbid it; if the sum of ``at_least`` exceeds it, each claimant gets its
    ``at_least``. Remaining whole units go to the largest fractions, ties by name: the result does not depend on the
    order of claimants.
    """
    active = sorted(claimants)
    shares: dict[str, Fraction] = {}
    left = Fraction(amount)
    while active:
        weights = sum(each.weight for each in active)
        fair = {each.name: left * each.weight / weights if weights else Fraction(0) for each in active}
        bounded = {each.name: _bounded(each, fair[each.name]) for each in active}
        # The side on which more is cut off is settled first, as freezing it can only help the other side.
        drift = sum(bounded.values()) - sum(fair.values())
        settled = [
            each
            for each in active
            if (drift >= 0 and bounded[each.name] > fair[each.name])
            or (drift <= 0 and bounded[each.name] < fair[each.name])
        ]
        for each in settled or active:
            shares[each.name] = bounded[each.name]
            left -= bounded[each.name]
        left = max(left, Fraction(0))
        active = [each for each in active if each not in settled] if settled else []
    return _whole(shares)


def _bounded(claimant: Claimant, share: Fraction) -> Fraction:
    if share < claimant.at_least:
        return Fraction(claimant.at_least)
    if claimant.at_most is not None and share > claimant.at_most:
        return Fraction(claimant.at_most)
    return share


def _whole(shares: dict[str, Fraction]) -> dict[str, int]:
    whole = {name: int(share) for name, share in shares.items()}
    left = int(sum(shares.values(), Fraction(0))) - sum(whole.values())
    by_fraction = sorted(shares, key=lambda name: (whole[name] - shares[name], name))
    for name in by_fraction[:left]:
        whole[name] += 1
    return whole
