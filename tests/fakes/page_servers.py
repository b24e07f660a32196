"""Servers of the page in a thread of their own, and how a browser asks them."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer

from tests.waiting import LIMIT


@contextmanager
def running(server: ThreadingHTTPServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ask(
    server: ThreadingHTTPServer, path: str, method: str = "GET", **headers: str
) -> tuple[int, str, dict[str, str]]:
    """Status, body and headers of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=LIMIT)
    connection.request(method, path, headers={name.replace("_", "-"): each for name, each in headers.items()})
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body, dict(answer.getheaders())
