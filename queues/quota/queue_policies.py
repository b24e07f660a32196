"""The policies that serve a queue: those that it, or the nearest queue above it, names.

A plug-in may be one that this process lacks, that was set aside, or that refuses its parameters. Then the built-in
default serves in its place; and unless the administrator chose that (``policy.onPluginFailure: default``), nothing is
admitted to the queue meanwhile.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, cast

import msgspec

from queues.plugins.built_in import BUILT_IN, DEFAULTS
from queues.plugins.interface import (
    FlavorPolicy,
    OrderPolicy,
    PlacementPolicy,
    Policy,
    PolicySort,
    QueueRules,
    VictimCostPolicy,
)
from queues.plugins.registry import InvalidParameters, KnownPolicy, known_policies, names_of
from queues.quota.queue import HOLD, Queue
from queues.text_format import listed
from queues.workload import QueueName

#: Characters of a reason that are kept.
_MOST_TOLD: Final = 300


class PluginProblem(NamedTuple):
    """A policy that cannot serve a queue."""

    sort: PolicySort
    plugin: str
    #: The queue that names it: the one that is served, or one above it.
    queue: QueueName
    why: str

    @property
    def message(self) -> str:
        """The sentence for people."""
        return f"plug-in {self.plugin} ({self.sort} of queue {self.queue}) cannot be used: {self.why}"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class QueuePolicies:
    """What serves one queue."""

    order: OrderPolicy
    placement: PlacementPolicy
    victim_cost: VictimCostPolicy
    flavors_by: FlavorPolicy
    #: Some of them are not Muster's own.
    of_others: bool = False
    #: Policies that are named and cannot be used: the default serves in the place of each.
    problems: tuple[PluginProblem, ...] = ()
    #: Nothing is admitted as long as there are problems.
    holds: bool = True

    @property
    def holding(self) -> PluginProblem | None:
        """Why nothing is admitted; None if work is."""
        return self.problems[0] if self.problems and self.holds else None


def names_others(queue: Queue) -> bool:
    """Whether a queue names a policy that is not Muster's own."""
    known = known_policies()
    named = (_named(sort, queue) for sort in PolicySort)
    return any(name is not None and not (name in known and known[name].is_built_in) for name in named)


def is_served_by_others(queue: Queue) -> bool:
    """Whether a queue names a policy that is not Muster's own, and that this process has."""
    known = known_policies()
    named = (known.get(name) for sort in PolicySort if (name := _named(sort, queue)) is not None)
    return any(each is not None and each.policy is not None and not each.is_built_in for each in named)


def policies_of(path: Sequence[Queue], rules: QueueRules) -> QueuePolicies:
    """The policies that serve a queue. ``path``: the queue and those above it, nearest first."""
    problems: list[PluginProblem] = []

    def made(sort: PolicySort) -> Policy:
        for above, queue in enumerate(path):
            if (name := _named(sort, queue)) is not None:
                answer = _made(sort, name, path[above:], rules)
                if isinstance(answer, Policy):
                    return answer
                problems.append(PluginProblem(sort, name, queue.name, answer))
                break
        return _new(DEFAULTS[sort], rules, None)

    order = cast(OrderPolicy, made(PolicySort.ORDER))
    placement = cast(PlacementPolicy, made(PolicySort.PLACEMENT))
    victim_cost = cast(VictimCostPolicy, made(PolicySort.VICTIM_COST))
    flavors_by = cast(FlavorPolicy, made(PolicySort.FLAVORS))
    choice = next((queue.on_plugin_failure for queue in path if queue.on_plugin_failure is not None), HOLD)
    return QueuePolicies(
        order=order,
        placement=placement,
        victim_cost=victim_cost,
        flavors_by=flavors_by,
        of_others=any(type(each) not in BUILT_IN for each in (order, placement, victim_cost, flavors_by)),
        problems=tuple(problems),
        holds=choice == HOLD,
    )


def _named(sort: PolicySort, queue: Queue) -> str | None:
    match sort:
        case PolicySort.ORDER:
            return queue.order
        case PolicySort.PLACEMENT:
            return queue.placement
        case PolicySort.VICTIM_COST:
            return queue.policy.victim_cost
        case PolicySort.FLAVORS:
            return queue.policy.flavors_by


def _made(sort: PolicySort, name: str, path: Sequence[Queue], rules: QueueRules) -> Policy | str:
    """The policy that the first queue of the path names, or why it cannot serve."""
    known = known_policies().get(name)
    if known is None:
        return f"this Muster has no such plug-in, expected one of {listed(names_of(sort))}"
    if why := known.why_not(sort):
        return why
    stated = _parameters(name, path)
    if why := _set_aside(known, stated, path[0]):
        return why
    try:
        return _ready(known, stated, path[0].name, rules)
    except InvalidParameters as error:
        return f"policy.parameters.{name}: {error}"
    except Exception as error:  # whatever the code of others does when it is made
        return f"it cannot be made: {type(error).__name__}: {error}"[:_MOST_TOLD]


def _ready(known: KnownPolicy, stated: str | None, queue: QueueName, rules: QueueRules) -> Policy:
    assert known.policy is not None
    policy = _new(known.policy, rules, None if stated is None else known.parameters(stated))
    if known.is_built_in:
        return policy
    from queues.plugins.guard import AskedPolicy, guarded  # numpy takes long to load

    asked = AskedPolicy(queue=queue, plugin=known.name, digest=known.digest, parameters=stated or "")
    return guarded(policy, asked)


def _new(policy: type[Policy], rules: QueueRules, parameters: msgspec.Struct | None) -> Policy:
    return policy(rules, parameters) if issubclass(policy, OrderPolicy) else policy(parameters)


def _parameters(name: str, path: Sequence[Queue]) -> str | None:
    """What the nearest queue states that names a policy or is above it; None if none does."""
    return next((queue.plugin_parameters[name] for queue in path if name in queue.plugin_parameters), None)


def _set_aside(known: KnownPolicy, parameters: str | None, queue: Queue) -> str:
    """Why a queue's administrator has to look at a policy first, if it was set aside as it is now; "": it was not."""
    asked = (known.name, known.digest, parameters or "", queue.retry)
    for each in queue.set_aside:
        if (each.plugin, each.digest, each.parameters, each.retry) == asked:
            again = f"muster plugin retry {queue.name}"
            return f"it was set aside, because it {each.why}. Correct it, or have it tried again ({again})"
    return ""


def parameter_problems(queue: Queue) -> Iterator[tuple[str, str]]:
    """Names of policies whose parameters a queue states wrongly, and what is wrong."""
    known = known_policies()
    for name, text in sorted(queue.plugin_parameters.items()):
        policy = known.get(name)
        if policy is None or policy.policy is None:
            continue
        try:
            policy.parameters(text)
        except InvalidParameters as error:
            yield name, str(error)
