"""What can go wrong between replicas and the API server, and in it: what is wrong now, by replica.

Every request asks ``LineFaults.trouble`` once. Shares are drawn from the seed and the request's own number among the
requests for the same path, not from a clock, so that a run repeats as far as processes can.
"""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from tests.chaos.network.interception import Interceptions
from tests.chaos.network.link import Line


class Trouble(StrEnum):
    """What becomes of one request."""

    CONFLICT = "409"
    TOO_MANY = "429"
    ERROR = "500"
    UNAVAILABLE = "503"
    #: It is answered a while later.
    SLOW = "slow"
    #: The connection breaks before it is carried out.
    BROKEN = "broken"
    #: It is carried out, and the connection breaks.
    ANSWER_LOST = "answer-lost"
    #: It is carried out when its sender does not wait for the answer any more.
    LATE = "late"


#: Troubles that only writes have: reads are repeated by the client.
_OF_WRITES: Final = (Trouble.CONFLICT, Trouble.ANSWER_LOST, Trouble.LATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """A time in which a share of the requests has a trouble."""

    trouble: Trouble
    #: 0 to 1.
    share: float
    #: Name of a replica; "": all.
    replica: str = ""
    #: End of the paths of these requests; "": of all.
    only: str = ""


@dataclass(slots=True)
class LineFaults:
    """All that is wrong now."""

    seed: int
    spells: list[Spell] = field(default_factory=list)
    lines: dict[str, Line] = field(default_factory=dict)
    writes: Interceptions = field(default_factory=Interceptions)
    #: Kinds (plural) of which watches tell nothing now.
    silent: set[str] = field(default_factory=set)
    #: Set for a moment whenever something heals.
    healed: asyncio.Event = field(default_factory=asyncio.Event)
    _asked: Counter[str] = field(default_factory=Counter)

    def line(self, replica: str) -> Line:
        return self.lines.get(replica, Line.OPEN)

    def trouble(self, replica: str, method: str, path: str) -> Trouble | None:
        """What becomes of a request."""
        mine = [
            spell for spell in self.spells if spell.replica in ("", replica) and path.endswith(spell.only)
        ]
        if not mine:
            return None
        self._asked[path] += 1
        for spell in mine:
            if method == "GET" and spell.trouble in _OF_WRITES:
                continue
            drawn = random.Random(f"{self.seed} {spell.trouble} {method} {path} {self._asked[path]}").random()
            if drawn < spell.share:
                return spell.trouble
        return None

    def heal(self) -> None:
        """Everything is well again."""
        self.spells.clear()
        self.lines.clear()
        self.writes.waiting.clear()
        self.silent.clear()
        self.tell_healed()

    def tell_healed(self) -> None:
        """Wake requests that wait for a line."""
        self.healed.set()
        self.healed = asyncio.Event()
