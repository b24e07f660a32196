"""Policies of others, held to what the interface says: each question is asked twice, and each answer is looked at.

The plain form is the policy itself: a guarded one gives the same answers, or raises PluginFault. Muster's own are not
guarded, so that they cost nothing; the laws of the engine hold them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from queues.errors import MusterError
from queues.flavor_growth import FlavorGrowth
from queues.plugins.interface import (
    MOST_SCORE,
    FlavorPolicy,
    OrderPolicy,
    PlacementNodes,
    PlacementPolicy,
    PodsRequest,
    Policy,
    PolicySort,
    RunningWork,
    VictimCostPolicy,
)
from queues.workload import FlavorName, QueueName, Workload

R = TypeVar("R")

#: The largest number that a policy may answer with, and the smallest below zero: arrays and Postgres hold it.
LARGEST: Final = 2**62
#: Characters of an error that are kept.
_MOST_TOLD: Final = 300


class PluginFault(MusterError):
    """Plug-in {plugin} of queue {queue} {why}."""

    def __init__(self, asked: "AskedPolicy", why: str) -> None:
        super().__init__(queue=asked.queue, plugin=asked.plugin, why=why)
        self.asked = asked
        self.why = why

    def __reduce__(self) -> tuple[Any, ...]:
        return PluginFault, (self.asked, self.why)


#: Called with each policy that is being asked and what it is given, and with None when it has answered: where others
#: wait for the answers, and where a plug-in is tried.
observers: list[Callable[["AskedPolicy | None", tuple[Any, ...]], None]] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedPolicy:
    """A policy of others, as it is asked for a queue."""

    #: The queue that names it.
    queue: QueueName
    plugin: str
    #: Of its code, and its parameters as JSON; "": none.
    digest: str
    parameters: str = ""

    def ask(self, question: Callable[..., R], given: tuple[Any, ...], check: Callable[[R], str]) -> R:
        """The answer to a question. ``check``: what is wrong with it; "": nothing. Raises PluginFault."""
        for note in observers:
            note(self, given)
        try:
            answer, again = question(*given), question(*given)
            wrong = check(answer) or check(again)
            if not wrong and not _equal(answer, again):
                wrong = "answered the same question differently"
        except Exception as error:
            raise self.fault(f"raised {type(error).__name__}: {_text(error)}"[:_MOST_TOLD]) from error
        for note in observers:
            note(None, given)
        if wrong:
            raise self.fault(wrong)
        return answer

    def fault(self, why: str) -> PluginFault:
        """The error that says what it did."""
        return PluginFault(self, why)


def _text(error: Exception) -> str:
    """What an error says; the plug-in may have written its class, too."""
    try:
        return str(error)
    except Exception:
        return "an error that cannot be shown"


def _equal(one: object, other: object) -> bool:
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and np.array_equal(one, other)
    return bool(one == other)


def _not_whole(number: object) -> str:
    if type(number) is not int:
        return f"answered {number!r} ({type(number).__name__}), expected a whole number"[:_MOST_TOLD]
    return "" if abs(number) <= LARGEST else "answered a number beyond 2^62"


class GuardedOrder(OrderPolicy):
    """An order of others."""

    def __init__(self, inner: OrderPolicy, asked: AskedPolicy) -> None:
        super().__init__(inner.rules, inner.parameters)
        self._inner, self._asked = inner, asked
        self.name, self.version = inner.name, inner.version
        self.strict, self.users, self.terms = inner.strict, inner.users, inner.terms
        self.counted_by = inner.counted_by
        if inner.terms is None:
            self.counted_by = f"arrival (the plug-in {inner.name} decides itself)"

    def urgency(self, workload: Workload) -> int:
        """A whole number."""
        return self._asked.ask(self._inner.urgency, (workload,), _not_whole)

    def precedence(self, workload: Workload, devices: int) -> int:
        """A whole number."""
        return self._asked.ask(self._inner.precedence, (workload, devices), _not_whole)


class GuardedPlacement(PlacementPolicy):
    """A placement of others."""

    def __init__(self, inner: PlacementPolicy, asked: AskedPolicy) -> None:
        super().__init__(inner.parameters)
        self._inner, self._asked = inner, asked
        self.name, self.version = inner.name, inner.version
        self.evenly, self.filters, self.scores = inner.evenly, inner.filters, inner.scores

    def domain_keys(self, room: NDArray[np.int64]) -> NDArray[np.int64]:
        """As many keys as domains."""
        return self._asked.ask(
            self._inner.domain_keys, (read_only(room),), lambda keys: _not_array(keys, np.int64, len(room))
        )

    def filter(self, request: PodsRequest, nodes: PlacementNodes) -> NDArray[np.bool_]:
        """Yes or no for each node."""
        return self._asked.ask(
            self._inner.filter,
            (request, nodes),
            lambda mask: _not_array(mask, np.bool_, len(nodes.names)),
        )

    def score(self, request: PodsRequest, nodes: PlacementNodes) -> NDArray[np.int64]:
        """A score within its bounds for each node."""
        return self._asked.ask(
            self._inner.score, (request, nodes), lambda score: _not_scores(score, len(nodes.names))
        )


def read_only(array: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same numbers, which the one who gets them can neither change nor make changeable."""
    return np.asarray(array.data.toreadonly())


def _not_array(found: object, kind: type[np.generic], length: int) -> str:
    if not isinstance(found, np.ndarray):
        return f"answered a {type(found).__name__}, expected an array"
    if found.dtype != kind or found.shape != (length,):
        return (
            f"answered {found.dtype} of shape {found.shape}, expected {np.dtype(kind)} of shape ({length},)"
        )
    return ""


def _not_scores(found: NDArray[np.int64], length: int) -> str:
    wrong = _not_array(found, np.int64, length)
    if not wrong and length and not (int(found.min()) >= 0 and int(found.max()) <= MOST_SCORE):
        wrong = f"answered scores from {found.min()} to {found.max()}, expected 0 to {MOST_SCORE}"
    return wrong


class RunningCopy(msgspec.Struct, frozen=True, kw_only=True):
    """``RunningWork`` as policies of others get it: a copy that nothing depends on."""

    workload: Workload
    pods: int
    priority: int
    whole: bool
    started: int
    size: int
    lost_work: int
    disturbance: int


class GuardedVictimCost(VictimCostPolicy):
    """A cost of victims of others."""

    def __init__(self, inner: VictimCostPolicy, asked: AskedPolicy) -> None:
        super().__init__(inner.parameters)
        self._inner, self._asked = inner, asked
        self.name, self.version = inner.name, inner.version

    def costs(self, running: Sequence[RunningWork], now: int) -> Sequence[int]:
        """A cost for each. They get copies."""
        names = RunningCopy.__struct_fields__
        copies = tuple(RunningCopy(**{name: getattr(each, name) for name in names}) for each in running)
        return self._asked.ask(
            self._inner.costs, (copies, now), lambda costs: _not_costs(costs, len(running))
        )


def _not_costs(costs: object, length: int) -> str:
    if not isinstance(costs, list | tuple) or len(costs) != length:
        return f"answered {type(costs).__name__}, expected a list of {length} whole numbers"
    wrong: list[str] = [_not_whole(each) or ("answered a cost below 0" if each < 0 else "") for each in costs]
    return next(filter(None, wrong), "")


class GuardedFlavors(FlavorPolicy):
    """A choice of flavors of others."""

    def __init__(self, inner: FlavorPolicy, asked: AskedPolicy) -> None:
        super().__init__(inner.parameters)
        self._inner, self._asked = inner, asked
        self.name, self.version = inner.name, inner.version

    def order(
        self, request: PodsRequest, flavors: tuple[FlavorName, ...], described: Sequence[FlavorGrowth]
    ) -> tuple[FlavorName, ...]:
        """Some of the flavors, each once."""

        def check(found: Any) -> str:
            if isinstance(found, tuple) and len(set(found)) == len(found) and set(found) <= set(flavors):
                return ""
            return f"answered {found!r}, expected some of {flavors!r}, each once"[:_MOST_TOLD]

        return self._asked.ask(self._inner.order, (request, flavors, tuple(described)), check)


_GUARDS: Final[Mapping[PolicySort, Callable[..., Policy]]] = MappingProxyType(
    {
        OrderPolicy.sort: GuardedOrder,
        PlacementPolicy.sort: GuardedPlacement,
        VictimCostPolicy.sort: GuardedVictimCost,
        FlavorPolicy.sort: GuardedFlavors,
    }
)


def guarded(policy: Policy, asked: AskedPolicy) -> Policy:
    """A policy of others, held to its interface."""
    made: Policy = _GUARDS[policy.sort](policy, asked)
    return made
