"""A collector that takes spans by OTLP over HTTP, and remembers them. It can be told to refuse."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.waiting import LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedSpan:
    """One span as it arrived. Times in seconds since the epoch."""

    name: str
    trace: str
    id: str
    #: "": it has none.
    parent: str
    start: float
    end: float
    attributes: dict[str, Any]
    error: str
    resource: dict[str, Any]


@dataclass(slots=True)
class Collector:
    url: str
    spans: list[ReceivedSpan] = field(default_factory=list)
    #: Paths and headers of all requests.
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    #: HTTP status of its answers.
    status: int = 200
    #: Requests wait until it is set.
    answers: threading.Event = field(default_factory=threading.Event)

    def traces(self) -> dict[str, list[ReceivedSpan]]:
        """Spans by trace, in the order in which they arrived."""
        found: dict[str, list[ReceivedSpan]] = {}
        for span in list(self.spans):
            found.setdefault(span.trace, []).append(span)
        return found

    def take(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            about = _attributes(resource.resource.attributes)
            for scope in resource.scope_spans:
                self.spans += [_received(span, about) for span in scope.spans]


@contextmanager
def collector() -> Iterator[Collector]:
    """One on a free port of this machine, which answers at once."""
    found: Collector

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            found.requests.append((self.path, dict(self.headers)))
            found.answers.wait(LIMIT)
            if found.status == 200:
                found.take(body)
            self.send_response(found.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_request(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    found = Collector(f"http://127.0.0.1:{server.server_address[1]}")
    found.answers.set()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        found.answers.set()
        server.shutdown()
        thread.join()
        server.server_close()


def _received(span: Any, resource: dict[str, Any]) -> ReceivedSpan:
    return ReceivedSpan(
        name=span.name,
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        start=round(span.start_time_unix_nano / 1e9, 6),
        end=round(span.end_time_unix_nano / 1e9, 6),
        attributes=_attributes(span.attributes),
        error=span.status.message if span.status.code == span.status.STATUS_CODE_ERROR else "",
        resource=resource,
    )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in pairs}
