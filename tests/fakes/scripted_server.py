"""An HTTP server that gives the answers a test tells it to give, one after the other, and keeps what it was asked."""

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.waiting import LIMIT


@dataclass(frozen=True)
class Asked:
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any
    #: The port of the other side: the same for requests on one connection.
    connection: int


class ScriptedServer(ThreadingHTTPServer):
    """Answers come from ``answers``; without one left it is a 404."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: deque[Callable[[BaseHTTPRequestHandler], None]] = deque()
        self.asked: list[Asked] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def says(self, status: int, document: Any, **headers: str) -> None:
        """The next answer is a JSON document."""
        self.answers.append(lambda handler: _send(handler, status, document, **headers))

    def hangs_up(self) -> None:
        """The next request gets no answer, and the connection ends."""

        def close(handler: BaseHTTPRequestHandler) -> None:
            handler.close_connection = True

        self.answers.append(close)

    def says_then_hangs_up(self, status: int, document: Any) -> None:
        """The next answer is a document, and then the connection ends."""

        def answer(handler: BaseHTTPRequestHandler) -> None:
            _send(handler, status, document)
            handler.close_connection = True

        self.answers.append(answer)

    def streams(self, *events: Any, until: threading.Event | None = None) -> None:
        """The next answer is a watch with these events; it ends when ``until`` is set. None: at once."""

        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.send_header("Content-Type", "application/json")
            handler.send_header("Connection", "close")
            handler.end_headers()
            for event in events:
                handler.wfile.write(json.dumps(event).encode() + b"\n")
                handler.wfile.flush()
            if until is not None:
                until.wait(LIMIT)
            handler.close_connection = True

        self.answers.append(answer)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ScriptedServer

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parsed = json.loads(body) if body else None
        connection = self.client_address[1]
        self.server.asked.append(Asked(self.command, self.path, dict(self.headers), parsed, connection))
        if not self.server.answers:
            _send(self, 404, {"message": "not scripted"})
            return
        self.server.answers.popleft()(self)

    do_GET = do_POST = do_PUT = do_PATCH = _handle  # noqa: N815 - as the base class has it

    def log_message(self, *_: object) -> None:
        pass


def _send(handler: BaseHTTPRequestHandler, status: int, document: Any, **headers: str) -> None:
    body = json.dumps(document).encode()
    handler.send_response(status)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(body)))
    for name, text in headers.items():
        handler.send_header(name, text)
    handler.end_headers()
    handler.wfile.write(body)


@contextmanager
def scripted_server() -> Iterator[ScriptedServer]:
    server = ScriptedServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
