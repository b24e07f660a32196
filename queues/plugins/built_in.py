"""The policies that Muster brings, by the names that queues use.

``fifo`` and ``strict-fifo``: by arrival. Under ``strict-fifo`` a refused head holds up the workloads behind it.
``priority``: by priority (as far as ``maxPriority`` lets it count) with age; then, where past use counts, by the share
of the queue that each user has and had (``queues.quota.decayed_usage``); then small before large; then by arrival.
``shortest``: by declared run time with age.
``round-robin``: by the share of the queue that each user has, then by arrival.
``pack``, ``spread``: where workloads go; ``lost-work``: what evicting them costs; ``as-listed``, ``cheapest``: which
flavor they get.

Small before large: a workload counts as if it had arrived one day later for every device that it asks for. So a
workload gives way to a later one that asks for n devices less and arrived at most n days after it. Small and short work
gets through, and no workload starves. The number does not change while a workload waits. The rule holds only where
places are cleared for gangs that starve: elsewhere small work would keep a large gang from ever finding an empty rack,
and the order is by arrival.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from queues.flavor_growth import FlavorGrowth
from queues.plugins.interface import (
    PATIENCE,
    FlavorPolicy,
    OrderPolicy,
    OrderTerms,
    PlacementPolicy,
    PodsRequest,
    Policy,
    PolicySort,
    QueueRules,
    RunningWork,
    UserTurns,
    VictimCostPolicy,
)
from queues.workload import FlavorName

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_HOUR: Final = 3600
#: Under ``shortest`` a workload is passed only by work that arrived within so many times the difference of run times.
_PASSED_FOR: Final = 10
#: Under ``shortest`` the run time (seconds) of work that declares none, unless the queue limits it to less.
_UNKNOWN_RUN_TIME: Final = 30 * 24 * _HOUR


def gives_way(clear_after: int | None) -> bool:
    """Whether large workloads of a queue give way to small ones: if gangs that starve for a day get places cleared.

    ``clear_after``: seconds after which they do; None for never.
    """
    return clear_after is not None and clear_after <= PATIENCE


class Fifo(OrderPolicy):
    """By arrival."""

    name = "fifo"


class StrictFifo(OrderPolicy):
    """By arrival, each behind the one before it."""

    name = "strict-fifo"
    strict = True


class Priority(OrderPolicy):
    """By priority with age."""

    name = "priority"

    def __init__(self, rules: QueueRules, parameters: msgspec.Struct | None = None) -> None:
        super().__init__(rules, parameters)
        small_first, ageing = gives_way(rules.clear_after), rules.ageing_per_hour
        self.terms = OrderTerms(by_created=ageing, by_priority=-_HOUR, small_first=small_first)
        self.users = UserTurns.AMONG_EQUALS if rules.usage_half_life else UserTurns.NONE
        first = "priority with age" if ageing else "priority"
        self.counted_by = f"{first}, then {'small before large' if small_first else 'arrival'}"

    def among_queues(self, urgency: int, now: int) -> int:
        """Its priority, with the age that it has now."""
        return urgency - self.rules.ageing_per_hour * now


class Shortest(OrderPolicy):
    """By declared run time with age."""

    name = "shortest"
    counted_by = "declared run time with age"

    def __init__(self, rules: QueueRules, parameters: msgspec.Struct | None = None) -> None:
        super().__init__(rules, parameters)
        longest = _UNKNOWN_RUN_TIME if rules.max_run_time is None else rules.max_run_time
        self.terms = OrderTerms(by_created=1, by_run_time=_PASSED_FOR, unknown_run_time=longest)


class RoundRobin(OrderPolicy):
    """Users take turns: the one with the smallest share of the queue is next."""

    name = "round-robin"
    users = UserTurns.FIRST


class Pack(PlacementPolicy):
    """The tightest domain that holds all pods, and in it few nodes: large holes stay."""

    name = "pack"


class Spread(PlacementPolicy):
    """The roomiest domain, and pods evenly over its nodes."""

    name = "spread"
    evenly = True

    def domain_keys(self, room: "NDArray[np.int64]") -> "NDArray[np.int64]":
        """The roomiest first."""
        return -room


class LostWork(VictimCostPolicy):
    """The work that is lost since the last checkpoint, and the disturbance itself."""

    name = "lost-work"

    def costs(self, running: Sequence[RunningWork], now: int) -> Sequence[int]:
        """Lost work and disturbance together."""
        return [each.lost_work + each.disturbance for each in running]


class AsListed(FlavorPolicy):
    """In the order in which the queue lists them."""

    name = "as-listed"

    def order(
        self, request: PodsRequest, flavors: tuple[FlavorName, ...], described: Sequence[FlavorGrowth]
    ) -> tuple[FlavorName, ...]:
        """All of them."""
        return flavors


class Cheapest(FlavorPolicy):
    """The cheapest first; of equal ones, and where no price is stated, as the queue lists them."""

    name = "cheapest"

    class Parameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
        """``prices``: of a device of each flavor for an hour, in any currency's smallest unit. Flavors without a price
        come last."""

        prices: dict[str, Annotated[int, msgspec.Meta(ge=0, le=10**12)]] = {}

    def order(
        self, request: PodsRequest, flavors: tuple[FlavorName, ...], described: Sequence[FlavorGrowth]
    ) -> tuple[FlavorName, ...]:
        """All of them, by price."""
        prices = self.parameters.prices
        return tuple(sorted(flavors, key=lambda flavor: (flavor not in prices, prices.get(flavor, 0))))


#: What a queue has if it names no other one.
DEFAULTS: Final[dict[PolicySort, type[Policy]]] = {
    each.sort: each for each in (Priority, Pack, LostWork, AsListed)
}
BUILT_IN: Final[tuple[type[Policy], ...]] = (
    *(Fifo, StrictFifo, Priority, Shortest, RoundRobin),
    *(Pack, Spread),
    LostWork,
    *(AsListed, Cheapest),
)
