"""What Postgres says, asked directly: the ledger that must be exactly zero in the end."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import asyncpg

from queues.sql.database import FAILURES, raw_connection


class LedgerQueries:
    """Questions to the database of a running Muster, past Muster.

    Tests ask again and again until something is so: one connection serves all of them, and a new one once the
    server was away.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ledger")
        self._runner = asyncio.Runner()
        self._connection: asyncpg.Connection | None = None

    def ask(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Rows of one query."""
        return self._thread.submit(lambda: self._runner.run(self._rows(statement, values))).result()

    async def _rows(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        known = self._connection
        if known is not None:
            try:
                return [tuple(row) for row in await known.fetch(statement, *values)]
            except FAILURES:
                if not known.is_closed():
                    raise
        self._connection = await raw_connection(self._dsn)
        return [tuple(row) for row in await self._connection.fetch(statement, *values)]

    def close(self) -> None:
        self._thread.submit(self._leave).result()
        self._thread.shutdown()

    def _leave(self) -> None:
        with self._runner:
            if self._connection is not None:
                self._runner.run(self._connection.close(timeout=5))

    def held(self, queues: Sequence[str], nodes: Sequence[str]) -> dict[str, int]:
        """Balances other than zero, and admissions that are not closed, of these queues and nodes."""
        found = self.ask(
            "SELECT 'queue ' || queue || ' ' || resource, used FROM queue_balances"
            " WHERE queue = ANY ($1) AND (used <> 0 OR own <> 0)"
            " UNION ALL SELECT 'node ' || node || ' ' || resource, used FROM node_balances"
            " WHERE node = ANY ($2) AND used <> 0"
            " UNION ALL SELECT 'admission ' || name, 1 FROM admissions"
            " WHERE queue = ANY ($1)",
            list(queues),
            list(nodes),
        )
        return {str(what): int(amount) for what, amount in found}

    def reasons(self, namespace: str) -> list[tuple[str, str, str]]:
        """(name, code, message) of everything that waits in a namespace."""
        return [
            (str(name), str(code), str(message))
            for name, code, message in self.ask(
                "SELECT w.name, r.code, r.message FROM reasons r JOIN workloads w USING (kind, uid)"
                " WHERE w.namespace = $1 ORDER BY w.arrival",
                namespace,
            )
        ]

    def workloads(self, namespace: str) -> list[str]:
        """Names of everything that is known of a namespace."""
        found = self.ask("SELECT name FROM workloads WHERE namespace = $1 ORDER BY arrival", namespace)
        return [str(name) for (name,) in found]

    def admissions(self, namespace: str, name: str) -> list[tuple[int, str]]:
        """(id, state) of all admissions a workload ever had, oldest first."""
        return [
            (int(id_), str(state))
            for id_, state in self.ask(
                "SELECT id, state FROM muster_admissions WHERE namespace = $1 AND name = $2 ORDER BY id",
                namespace,
                name,
            )
        ]

    def decisions(self, namespace: str, name: str) -> list[tuple[str, str, str]]:
        """(kind, code, message) of everything that was decided about a workload, oldest first."""
        return [
            (str(kind), str(code), str(message))
            for kind, code, message in self.ask(
                "SELECT kind, code, message FROM decisions WHERE namespace = $1 AND name = $2 ORDER BY id",
                namespace,
                name,
            )
        ]
