"""The page's server: it finds out who asks, and what that person may see is shown to that person only.

It only reads: nothing is answered but GET, and nothing that is asked changes anything.
"""

import hashlib
import logging
import sys
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from admission.cli.access.change_feed import ChangeFeed
from admission.cli.page.layout import View, ViewOf, document
from admission.cli.page.problems import problem_view

_log = logging.getLogger(__name__)

#: The header of a request for the changing part of a view only.
PART: Final = "X-Muster-Part"
_TEXT: Final = "text/plain; charset=utf-8"
#: Seconds after which a stream without a change shows that it is there, and after which it ends.
_SILENCE: Final = 5.0
_STREAM_SECONDS: Final = 600.0
#: Connections at a time: a browser has six for each host. More are closed at once.
_CONNECTIONS: Final = 512
_STATIC: Final = {"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8"}
#: Nothing from elsewhere, nothing inline, in no frame of others.
_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """A request, before it is known who asks."""

    #: The path, each part decoded.
    parts: tuple[str, ...]
    query: dict[str, str]
    headers: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is answered in place of a view."""

    status: int
    sentence: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Visitor:
    """A person who may ask: the views with this person's rights."""

    views: ViewOf
    changes: ChangeFeed
    #: Raises MusterError: this person may not ask at all.
    check: Callable[[], None] = lambda: None


class ViewServer(ThreadingHTTPServer):
    """Serves views to the visitors that it lets in, until it is shut down."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], *, cluster: str = "") -> None:
        """``cluster``: what people call it. Raises OSError: the port is taken."""
        self.cluster = cluster
        self._room = threading.BoundedSemaphore(_CONNECTIONS)
        super().__init__(address, _Handler)

    @abstractmethod
    def before(self, asked: PageRequest) -> Answer | None:
        """An answer before anything else, also before styles and script. None to go on. Called by several threads."""

    @abstractmethod
    def admit(self, asked: PageRequest) -> Visitor | Answer:
        """Who asks, or why nothing is shown. Called by several threads."""

    def begin_stream(self, visitor: Visitor) -> Answer | None:
        """An answer in place of a stream of changes. None if the stream may begin."""
        return None

    def end_stream(self, visitor: Visitor) -> None:
        """Called when it is over."""

    def serve_until_ended(self) -> None:
        """Serve until Ctrl-C, or until it is shut down."""
        try:
            self.serve_forever()
        except KeyboardInterrupt:
            pass
        finally:
            self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own, up to a number of threads."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection to its end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that left before it had its answer is no fault."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: ViewServer
    protocol_version = "HTTP/1.1"
    server_version = "muster"
    sys_version = ""
    timeout = 60

    def do_GET(self) -> None:
        if "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
            # Behind a proxy a body that is left on the connection would be read as a request of another user.
            self.close_connection = True
            self._answer(Answer(status=400, sentence="A question has no body here.\n"))
            return
        url = urlsplit(self.path)
        parts = tuple(unquote(part) for part in url.path.split("/") if part)
        asked = PageRequest(parts=parts, query=dict(parse_qsl(url.query)), headers=self.headers)
        if (answer := self.server.before(asked)) is not None:
            self._answer(answer)
        elif parts[:1] == ("static",) and len(parts) == 2 and parts[1] in _STATIC:
            self._send(200, files(__package__).joinpath("static", parts[1]).read_bytes(), _STATIC[parts[1]])
        elif isinstance(found := self.server.admit(asked), Answer):
            self._answer(found)
        elif parts != ("changes",):
            self._show(found, asked)
        elif (answer := self.server.begin_stream(found)) is not None:
            self._answer(answer)
        else:
            try:
                self._stream(found)
            finally:
                self.server.end_stream(found)

    def _stream(self, visitor: Visitor) -> None:
        """Events until the browser leaves; a browser that does not come again has left."""
        self.close_connection = True
        self.send_response(200)
        for name, text in {
            **self._common("text/event-stream"),
            "Cache-Control": "no-store",
            "Connection": "close",
            # Proxies that keep answers back pass this one on as it comes.
            "X-Accel-Buffering": "no",
        }.items():
            self.send_header(name, text)
        self.end_headers()
        begun = time.monotonic()
        with suppress(OSError), visitor.changes.listening() as listener:
            self.wfile.write(b"retry: 1000\n\n")
            while time.monotonic() < begun + _STREAM_SECONDS:
                changed = listener.wait(_SILENCE)
                self.wfile.write(b"event: change\ndata: {}\n\n" if changed else b": nothing\n\n")

    def _show(self, visitor: Visitor, asked: PageRequest) -> None:
        status = 200
        try:
            view = visitor.views(asked.parts, asked.query)
        except Exception as error:
            status, view = problem_view(error)
            if status == 500:
                _log.exception("a view could not be shown")
        self._send_view(status, view)

    def _send_view(self, status: int, view: View) -> None:
        is_part = PART in self.headers
        body = str(document(view, cluster=self.server.cluster, whole=not is_part)).encode()
        tag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
        if status == 200 and self.headers.get("If-None-Match") == tag:
            self._send(304, b"", "text/html; charset=utf-8", {"ETag": tag})
        else:
            self._send(status, body, "text/html; charset=utf-8", {"ETag": tag})

    def _answer(self, answer: Answer) -> None:
        self._send(answer.status, answer.sentence.encode(), _TEXT, answer.headers)

    def _send(self, status: int, body: bytes, kind: str, more: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        is_same_for_all = kind in _STATIC.values()
        headers = {
            **self._common(kind),
            "Content-Length": str(len(body)),
            "Cache-Control": "no-cache" if is_same_for_all else "private, no-store",
            "Vary": f"{PART}, Authorization, Cookie",
            **(more or {}),
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    @staticmethod
    def _common(kind: str) -> dict[str, str]:
        return {
            "Content-Type": kind,
            "Content-Security-Policy": _POLICY,
            "Cross-Origin-Resource-Policy": "same-origin",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Referrer-Policy": "no-referrer",
        }

    def log_message(self, *_: Any) -> None:
        """Requests are not logged: addresses have secrets, and names of workloads."""
