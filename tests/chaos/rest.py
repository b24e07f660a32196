"""Whether a run has come to rest: a replica leads and sees the cluster as it is, and nothing changes any more."""

import asyncio
import time
from dataclasses import dataclass
from typing import Final

from queues.sql.database import FAILURES
from tests.chaos.clusters import Cluster
from tests.chaos.drawn.pace import PACE
from tests.chaos.ledger.server import ChaosPostgres
from tests.chaos.replicas.short_times import ASKED_AFTER, INHERITED_FOR, JOB_SYNC, REQUEST_TIMEOUT

_LOOK: Final = 0.1
#: Heartbeats of the leader without a change: on a machine that is too busy, seconds say little.
_BEATS: Final = 4
#: Seconds in which a sender may still wait for the answer to a request of before, and then ask.
_ASKS: Final = REQUEST_TIMEOUT + ASKED_AFTER + 0.3 * PACE
#: Seconds for which a leader may wait without a change before seats of a Job that is evicted or deleted are given back.
_STOPS: Final = JOB_SYNC + 2.0

_STATE: Final = f"""
SELECT
    (SELECT holder || ' ' || term FROM leases WHERE expires > clock_timestamp()) AS leader,
    (SELECT current_at FROM heartbeats) AS beat,
    (SELECT h.current_at > clock_timestamp() - interval '{3 * PACE} seconds' AND h.behind = ''
     FROM heartbeats h JOIN leases l ON h.lease = l.name AND h.term = l.term) AS is_current,
    EXISTS (SELECT FROM admissions WHERE state = 'evicting' OR NOT started) AS is_stopping,
    (SELECT count(*) FROM chaos.row_changes WHERE table_name <> 'leases') AS changes
"""
_LEADER: Final = "SELECT holder FROM leases WHERE expires > clock_timestamp()"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A run at one moment."""

    #: Why it is not at rest; "": it may be.
    unrest: str
    #: What does not change while it is.
    state: tuple[object, ...]
    #: What every heartbeat changes.
    beat: object
    #: An admission is being evicted, or has not started: its Job may have been deleted.
    is_stopping: bool


@dataclass(slots=True)
class Rest:
    """Looks at one run."""

    postgres: ChaosPostgres
    cluster: Cluster

    async def leader(self) -> str:
        """Name of the replica that leads; "": none, or it cannot be told."""
        try:
            rows = await self.postgres.fetch(_LEADER)
        except FAILURES:
            return ""
        return str(rows[0]["holder"]).rpartition(".")[0] if rows else ""

    async def come(self) -> str:
        """Wait for rest. Returns why there is none after the cluster's patience; "": there is."""
        patience = self.cluster.patience * PACE
        began = since = led = time.monotonic()
        seen: tuple[object, ...] = ()
        beats: set[object] = set()
        while True:
            found = await self._look()
            now = time.monotonic()
            if found.state[:1] != seen[:1]:
                led = now
            if found.unrest or found.state != seen:
                seen, since = found.state, now
                beats.clear()
            beats.add(found.beat)
            quiet = now - since
            least = self.cluster.quiet * PACE + (_STOPS if found.is_stopping else 0.0)
            waited = now - began > _ASKS and now - led > INHERITED_FOR + 0.7 * PACE
            if quiet >= least and len(beats) > _BEATS and waited:
                return ""
            if now - began > patience:
                return found.unrest or f"something changed {quiet:.1f} s ago, after {patience:.0f} s"
            await asyncio.sleep(_LOOK)

    async def _look(self) -> _Seen:
        (row,) = await self.postgres.fetch(_STATE)
        if row["leader"] is None:
            unrest = "no replica leads"
        elif not row["is_current"]:
            unrest = f"{row['leader']} has not made a turn lately, or is behind the cluster"
        else:
            unrest = self.cluster.unfinished()
        state = (row["leader"], row["changes"], self.cluster.version())
        return _Seen(unrest=unrest, state=state, beat=row["beat"], is_stopping=row["is_stopping"])
