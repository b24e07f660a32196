"""That a workload which waits had a place and gave it up to somebody: told with whatever it waits for now."""

from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Displacement:
    """The last eviction for somebody else of a workload that was not admitted since."""

    #: Seconds since the epoch.
    at: int
    #: By which rule: Preempted, Reclaimed or Cleared.
    code: str
    #: Who took the place, as ``kind/namespace/name``.
    by: str

    def told_with(self, message: str) -> str:
        """Why it waits now, and why it does not run any more."""
        when = datetime.fromtimestamp(self.at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return f"{message}; evicted at {when} ({self.code}) for {self.by}"
