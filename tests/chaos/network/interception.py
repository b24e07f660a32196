"""Strikes at one request among many: the next one, or the one after so many others."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Interception:
    """Waits for a request of one replica (or of any), and strikes right before or after it is carried out."""

    #: So many requests pass first.
    passes: int
    #: The request that it strikes before is lost.
    before: bool
    strike: Callable[[str], None]
    #: Requests count by which admissions are opened; others pass.
    only_seats: bool = False


@dataclass(slots=True)
class Interceptions:
    """All that wait."""

    waiting: list[Interception] = field(default_factory=list)

    def strike(self, replica: str, *, before: bool, gives_seats: bool = False) -> bool:
        """A request is about to be carried out, or was. ``gives_seats``: by it. True: something struck."""
        struck = False
        counted = [
            each for each in self.waiting if each.before == before and (gives_seats or not each.only_seats)
        ]
        for each in counted:
            each.passes -= 1
            if each.passes < 0:
                self.waiting.remove(each)
                each.strike(replica)
                struck = True
        return struck
