"""What HyperNodes say that cannot be used, told on them whenever it changes. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

from admission.facts import HyperNodeFact
from admission.status import Note
from queues.api.kinds import hypernode
from queues.api.validation.cycles import cycles

#: Reason of the events.
REASON: Final = "InvalidMembers"
#: So many problems of one HyperNode are told.
_TOLD: Final = 3


class Complaints:
    """Remembers what was told, one term long."""

    def __init__(self) -> None:
        self._seen: tuple[HyperNodeFact, ...] = ()
        self._told: Mapping[str, str] = {}

    def new(self, hypernodes: Iterable[HyperNodeFact]) -> list[Note]:
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
            Note(
                ref=hypernode(fact.name, fact.uid),
                reason=REASON,
                message=problems[fact.name],
                action="Read",
                warning=True,
            )
            for fact in seen
            if fact.name in problems and told.get(fact.uid) != problems[fact.name]
        ]


def problems_of(hypernodes: Iterable[HyperNodeFact]) -> dict[str, str]:
    """A sentence for each HyperNode with members that cannot be used, or that is inside itself."""
    hypernodes = tuple(hypernodes)
    arcs = {
        fact.name: [each.exact for each in fact.members if each.hypernode and each.exact is not None]
        for fact in hypernodes
    }
    around = {way[0]: way for way in cycles(arcs)}
    found = {}
    for fact in hypernodes:
        told = []
        if fact.problems:
            some, more = "; ".join(fact.problems[:_TOLD]), len(fact.problems) - _TOLD
            rest = f"; and {more} more" if more > 0 else ""
            told.append(f"Members that contain nobody until they are put right: {some}{rest}.")
        if fact.name in around:
            way = " → ".join(around[fact.name])
            told.append(f"It is inside itself, {way}: all of these contain the same nodes until one lets go.")
        if told:
            found[fact.name] = " ".join(told)
    return found
