"""An embedded Postgres crashes, and comes back on the same data and socket."""

from queues.sql.embedded.server import EmbeddedPostgres


def crash(server: EmbeddedPostgres) -> None:
    """End the postmaster with SIGKILL."""
    assert server._server is not None
    server._server.kill9()


def recover(server: EmbeddedPostgres) -> str:
    """Start it again; returns its address, which is the one it had."""
    assert server._server is not None
    server._server.stop()
    server._run()
    return server.dsn()
