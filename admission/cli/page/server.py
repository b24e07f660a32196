"""The page's server on the user's computer: it asks Muster as that user, and shows the answers to nobody else.

It listens on the loopback address only. Others on the same computer, and web pages that the same browser has open,
reach that address too: so a request needs the secret of the address that the command has printed, which becomes a
cookie that other pages cannot send, and must name this server as its host.
"""

import hashlib
import hmac
import logging
import secrets
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from markupsafe import Markup

from admission.cli.access.change_feed import ChangeFeed
from admission.cli.access.read_api import Unanswered
from admission.cli.page.layout import Frame, document, problem
from queues.errors import MusterError

_log = logging.getLogger(__name__)

_COOKIE: Final = "muster-page"
#: The header of a request for the changing part of a view only.
PART: Final = "X-Muster-Part"
#: Seconds after which a stream without a change shows that it is there, and after which it ends.
_SILENCE: Final = 5.0
_STREAM_SECONDS: Final = 600.0
_STATIC: Final = {"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8"}
#: Nothing from elsewhere, nothing inline, in no frame of others.
_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a path shows."""

    title: str
    #: The navigation's entry that it belongs to.
    section: str
    main: Markup
    #: How old the answer is, as a sentence; "": a few seconds.
    age: str = ""
    #: Seconds between two times that it is asked for at least: what costs the API server much, seldom.
    least: int = 1
    #: A file to save instead of a view: its name, and its text as CSV.
    file: tuple[str, str] | None = None


#: The view of a path's parts and a query. Raises MusterError, KeyError for no such path.
Views = Callable[[tuple[str, ...], Mapping[str, str]], View]


class PageServer(ThreadingHTTPServer):
    """Serves the views of one user until it is shut down."""

    daemon_threads = True

    def __init__(self, views: Views, changes: ChangeFeed, *, port: int = 0, cluster: str = "") -> None:
        """``port`` 0: any free one. ``cluster``: what people call it. Raises OSError: the port is taken."""
        self.views = views
        self.changes = changes
        self.cluster = cluster
        self.secret = secrets.token_urlsafe(24)
        super().__init__(("127.0.0.1", port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that left before it had its answer is no fault."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        """The address with its secret."""
        return f"http://127.0.0.1:{self.server_port}/?secret={self.secret}"


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    protocol_version = "HTTP/1.1"
    server_version = "muster"
    sys_version = ""
    timeout = 60

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = dict(parse_qsl(url.query))
        parts = tuple(unquote(part) for part in url.path.split("/") if part)
        if self.headers.get("Host", "") not in self._names():
            self._send(421, b"This page is only served on this computer.\n", "text/plain; charset=utf-8")
        elif parts[:1] == ("static",) and len(parts) == 2 and parts[1] in _STATIC:
            self._send(200, files(__package__).joinpath("static", parts[1]).read_bytes(), _STATIC[parts[1]])
        elif self._has(query.pop("secret", "")):
            cookie = f"{self._cookie_name()}={self.server.secret}; HttpOnly; SameSite=Strict; Path=/"
            place = "/" + "/".join(quote(part, safe="") for part in parts)
            self._send(303, b"", "text/plain", {"Location": place, "Set-Cookie": cookie})
        elif not self._has(self._cookie()):
            sentence = (
                "Open the address that `kubectl muster page` has printed: it has a secret at its end.\n"
            )
            self._send(403, sentence.encode(), "text/plain; charset=utf-8")
        elif parts == ("changes",):
            self._stream()
        else:
            self._show(parts, query)

    def _stream(self) -> None:
        """Events until the browser leaves; a browser that does not come again has left."""
        self.close_connection = True
        self.send_response(200)
        for name, text in {
            **self._common("text/event-stream"),
            "Cache-Control": "no-store",
            "Connection": "close",
        }.items():
            self.send_header(name, text)
        self.end_headers()
        begun = time.monotonic()
        with suppress(OSError), self.server.changes.listening() as listener:
            self.wfile.write(b"retry: 1000\n\n")
            while time.monotonic() < begun + _STREAM_SECONDS:
                changed = listener.wait(_SILENCE)
                self.wfile.write(b"event: change\ndata: {}\n\n" if changed else b": nothing\n\n")

    def _show(self, parts: tuple[str, ...], query: Mapping[str, str]) -> None:
        status = 200
        try:
            view = self.server.views(parts, query)
        except KeyError:
            status, view = 404, View(title="Not found", section="", main=problem("There is no such view."))
        except Unanswered as error:
            status = error.status if 400 <= error.status < 500 else 502
            view = View(title="No answer", section="", main=problem(str(error)))
        except MusterError as error:
            status, view = 502, View(title="No answer", section="", main=problem(str(error)))
        except Exception as error:
            _log.exception("a view could not be shown")
            what = f"{type(error).__name__}: {error}. This is a fault of Muster."
            status, view = 500, View(title="Fault", section="", main=problem(what))
        if view.file is not None:
            name, text = view.file
            kept = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
            self._send(200, text.encode(), "text/csv; charset=utf-8", kept)
            return
        frame = Frame(
            title=view.title,
            section=view.section,
            age=view.age,
            cluster=self.server.cluster,
            least=view.least,
        )
        is_part = PART in self.headers
        body = str(document(frame, view.main, whole=not is_part)).encode()
        tag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
        if status == 200 and self.headers.get("If-None-Match") == tag:
            self._send(304, b"", "text/html; charset=utf-8", {"ETag": tag})
        else:
            self._send(status, body, "text/html; charset=utf-8", {"ETag": tag})

    def _send(self, status: int, body: bytes, kind: str, more: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        headers = {
            **self._common(kind),
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store" if kind.startswith("text/html") else "no-cache",
            "Vary": PART,
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
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
        }

    def _names(self) -> tuple[str, ...]:
        return tuple(f"{name}:{self.server.server_port}" for name in ("127.0.0.1", "localhost"))

    def _cookie_name(self) -> str:
        """Cookies are of all ports of a host: two pages in one browser each have their own."""
        return f"{_COOKIE}-{self.server.server_port}"

    def _cookie(self) -> str:
        try:
            found = SimpleCookie(self.headers.get("Cookie", "")).get(self._cookie_name())
        except CookieError:
            return ""
        return found.value if found is not None else ""

    def _has(self, secret: str) -> bool:
        return hmac.compare_digest(secret.encode(), self.server.secret.encode())

    def log_message(self, *_: Any) -> None:
        """Requests are not logged."""
