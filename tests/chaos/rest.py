"""Whether a run has come to rest: a replica leads and sees the cluster as it is, and nothing changes any more."""

import asyncio
import time
from dataclasses import dataclass
from typing import Final

import asyncpg

from tests.chaos.clusters import Cluster
from tests.chaos.ledger.server import ChaosPostgres

_LOOK: Final = 0.1

_STATE: Final = """
SELECT
    (SELECT holder || ' ' || term FROM leases WHERE expires > clock_timestamp()) AS leader,
    (SELECT h.current_at > clock_timestamp() - interval '1.2 seconds' AND h.behind = ''
     FROM heartbeats h JOIN leases l ON h.lease = l.name AND h.term = l.term) AS is_current,
    (SELECT count(*) FROM chaos.row_changes WHERE table_name <> 'leases') AS changes
"""
_LEADER: Final = "SELECT holder FROM leases WHERE expires > clock_timestamp()"


@dataclass(slots=True)
class Rest:
    """Looks at one run."""

    postgres: ChaosPostgres
    cluster: Cluster

    async def leader(self) -> str:
        """Name of the replica that leads; "": none, or nobody can tell."""
        try:
            rows = await self.postgres.fetch(_LEADER)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            return ""
        return str(rows[0]["holder"]).rpartition(".")[0] if rows else ""

    async def come(self) -> str:
        """Wait for rest. Returns why there is none after the cluster's patience; "": there is."""
        patience = self.cluster.patience
        deadline = time.monotonic() + patience
        seen: tuple[object, ...] = ()
        since = time.monotonic()
        why = ""
        while True:
            why, state = await self._look()
            now = time.monotonic()
            if why or state != seen:
                seen, since = state, now
            elif now - since >= self.cluster.quiet:
                return ""
            if now > deadline:
                return why or f"something changed {now - since:.1f} s ago, after {patience:.0f} s"
            await asyncio.sleep(_LOOK)

    async def _look(self) -> tuple[str, tuple[object, ...]]:
        """Why the run is not at rest, and what changes while it is not."""
        (row,) = await self.postgres.fetch(_STATE)
        state = (row["leader"], row["changes"], self.cluster.version())
        if row["leader"] is None:
            return "nobody leads", state
        if not row["is_current"]:
            return f"{row['leader']} has not made a turn lately, or is behind the cluster", state
        return self.cluster.unfinished(), state
