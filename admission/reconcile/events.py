"""What HyperNodes say that cannot be used, told on them whenever it changes. Pure."""

from collections.abc import Iterable, Mapping

from admission.facts import HyperNodeFact
from admission.reconcile.status import EventNote
from admission.world.hypernodes import problems_of
from queues.api.kinds import hypernode
from queues.reason_codes import ReasonCode


class HyperNodeEvents:
    """Remembers what was told, one term long."""

    def __init__(self) -> None:
        self._seen: tuple[HyperNodeFact, ...] = ()
        self._told: Mapping[str, str] = {}

    def new(self, hypernodes: Iterable[HyperNodeFact]) -> list[EventNote]:
        """What has to be told now: of each HyperNode whose problems are others than before."""
        seen = tuple(hypernodes)
        if seen == self._seen:
            return []
        self._seen = seen
        problems = problems_of(seen)
        told, self._told = (
            self._told,
            {fact.uid: problems[fact.name] for fact in seen if fact.name in problems},
        )
        return [
            EventNote(
                ref=hypernode(fact.name, fact.uid),
                reason=ReasonCode.INVALID_MEMBERS,
                message=problems[fact.name],
                action="Read",
                warning=True,
            )
            for fact in seen
            if fact.name in problems and told.get(fact.uid) != problems[fact.name]
        ]
