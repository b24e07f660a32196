"""The page in the cluster: only a person's own token counts, and nothing of one person reaches another."""

import http.client
import json
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins

from admission.api_connection import Access
from admission.cli.command_line import finish
from admission.cli.commands.page import page
from admission.cli.page import shared
from admission.cli.page.shared import SharedPageServer
from tests.fakes.fake_reader import queue
from tests.fakes.page_servers import ask, running
from tests.tables import with_rows
from tests.waiting import LIMIT

QUEUES = {"now": "2026-11-21T10:00:00Z", "asOf": "2026-11-21T10:00:00Z", "behind": "", "items": []}


class ApiServer(ThreadingHTTPServer):
    """Knows the tokens of two people, and keeps the headers that it was sent."""

    daemon_threads = True

    def __init__(self) -> None:
        self.heard: list[dict[str, str]] = []
        super().__init__(("127.0.0.1", 0), _Answers)


class _Answers(BaseHTTPRequestHandler):
    server: ApiServer

    def do_GET(self) -> None:
        self.server.heard.append(dict(self.headers))
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in ("of-ada", "of-ben"):
            self._say(401, {"message": "Unauthorized"})
        elif self.path.endswith("/queues"):
            self._say(200, {**QUEUES, "items": [to_builtins(queue(f"queue-{token}", None))]})
        elif self.path.endswith("/version"):
            self._say(200, {"version": "1"})
        else:
            self._say(404, {"message": "not here"})

    def _say(self, status: int, body: Any) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        """Nothing is logged."""


@pytest.fixture
def api() -> Iterator[ApiServer]:
    server = ApiServer()
    with running(server):
        yield server


@pytest.fixture
def served(api: ApiServer) -> Iterator[SharedPageServer]:
    # What the process itself could ask with must not matter.
    own = (("Authorization", "Bearer of-the-pod"), ("Impersonate-User", "root"))
    access = Access(server=f"http://127.0.0.1:{api.server_port}", headers=own, certificate="x", key="y")
    server = SharedPageServer(("127.0.0.1", 0), access, timeout=LIMIT, cluster="prod")
    with running(server):
        yield server


def ask_as(
    token: str, server: SharedPageServer, path: str, method: str = "GET", **headers: str
) -> tuple[int, str, dict[str, str]]:
    return ask(server, path, method, Authorization=f"Bearer {token}", **headers)


def test_each_person_sees_what_the_own_token_may_see(served: SharedPageServer) -> None:
    for token, other in (("of-ada", "of-ben"), ("of-ben", "of-ada"), ("of-ada", "of-ben")):
        status, body, headers = ask_as(token, served, "/queues")
        assert (status, f"queue-{token}" in body, f"queue-{other}" in body) == (200, True, False)
        assert headers["Cache-Control"] == "private, no-store"
        assert "Authorization" in headers["Vary"]
        assert headers["X-Frame-Options"] == "DENY"
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert "Set-Cookie" not in headers
        assert "Access-Control-Allow-Origin" not in headers


def test_nothing_but_the_token_is_passed_on(served: SharedPageServer, api: ApiServer) -> None:
    ask_as(
        "of-ada",
        served,
        "/queues",
        Impersonate_User="system:admin",
        Impersonate_Group="system:masters",
        X_Remote_User="admin",
        X_Remote_Group="system:masters",
        X_Forwarded_User="admin",
        X_Forwarded_Access_Token="of-ben",
        Cookie="_oauth2_proxy=x",
    )
    [heard] = api.heard
    assert set(heard) == {"Host", "Accept-Encoding", "Accept", "User-Agent", "Authorization"}
    assert heard["Authorization"] == "Bearer of-ada"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Basic YWRhOnB3"},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer a b"},
        {"X-Forwarded-Access-Token": "of-ada"},
        {"X-Remote-User": "ada"},
        {"Cookie": "token=of-ada"},
    ],
    ids=str,
)
def test_without_a_token_of_ones_own_nothing_is_asked(
    served: SharedPageServer, api: ApiServer, headers: dict[str, str]
) -> None:
    for path in ("/queues", "/changes", "/"):
        status, body, told = ask(served, path, **headers)
        assert (status, told["WWW-Authenticate"]) == (401, "Bearer")
        assert "Nobody is signed in" in body
        assert api.heard == []


def test_two_tokens_are_none(served: SharedPageServer, api: ApiServer) -> None:
    with socket.create_connection(("127.0.0.1", served.server_port), timeout=LIMIT) as connection:
        connection.sendall(
            b"GET /queues HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer of-ada\r\n"
            b"Authorization: Bearer of-ben\r\nConnection: close\r\n\r\n"
        )
        assert connection.makefile("rb").readline().split()[1] == b"401"
    assert api.heard == []


def test_a_token_that_is_nobodys_shows_nothing_and_hears_nothing(served: SharedPageServer) -> None:
    status, body, _ = ask_as("of-nobody", served, "/queues")
    assert status == 401
    assert "You are not signed in" in body
    assert ask_as("of-nobody", served, "/changes")[0] == 401


def test_pages_of_other_sites_may_link_here_and_ask_nothing(served: SharedPageServer, api: ApiServer) -> None:
    for site in ("cross-site", "same-site"):
        assert ask_as("of-ada", served, "/queues", Sec_Fetch_Site=site, Sec_Fetch_Mode="no-cors")[0] == 403
        assert ask_as("of-ada", served, "/changes", Sec_Fetch_Site=site, Sec_Fetch_Mode="cors")[0] == 403
    assert api.heard == []
    assert (
        ask_as("of-ada", served, "/queues", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")[0] == 200
    )
    assert ask_as("of-ada", served, "/queues", Sec_Fetch_Site="same-origin", Sec_Fetch_Mode="cors")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_it_only_reads(served: SharedPageServer, api: ApiServer, method: str) -> None:
    assert ask_as("of-ada", served, "/queues", method)[0] == 501
    assert api.heard == []


def test_a_body_is_never_read_as_the_request_of_somebody_else(served: SharedPageServer) -> None:
    hidden = b"GET /queues HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer of-ben\r\n\r\n"
    request = b"GET /queues HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer of-ada\r\nContent-Length: %d\r\n\r\n"
    with socket.create_connection(("127.0.0.1", served.server_port), timeout=LIMIT) as connection:
        connection.sendall(request % len(hidden) + hidden)
        answer = connection.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1


def test_one_person_does_not_take_all_streams(
    served: SharedPageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "_STREAMS_OF_ONE", 1)
    connection = http.client.HTTPConnection("127.0.0.1", served.server_port, timeout=LIMIT)
    connection.request("GET", "/changes", headers={"Authorization": "Bearer of-ada"})
    # Kept: with the answer its stream would end, and the next one would be let in.
    stream = connection.getresponse()
    assert stream.status == 200
    status, _, headers = ask_as("of-ada", served, "/changes")
    assert (status, headers["Retry-After"]) == (429, "30")
    stream.close()
    connection.close()


def test_tokens_are_not_remembered_without_end(
    served: SharedPageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "_REMEMBERED", 2)
    for number in range(5):
        ask_as(f"of-{number}", served, "/queues")
    assert len(served._visitors) == 2


def test_it_says_that_it_serves(served: SharedPageServer) -> None:
    assert ask(served, "/healthz")[:2] == (200, "ok\n")


@with_rows("words", "sentence")
def test_what_would_be_unsafe_is_refused(
    words: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert finish(page, "muster page", words.split()) in (1, 2)
    told = capsys.readouterr().err
    assert sentence in told
    assert "Traceback" not in told


def test_a_file_that_is_no_certificate_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "ca"
    file.write_text("hello", encoding="ascii")
    assert finish(page, "muster page", ["--ca-file", str(file)]) == 1
    assert "found no certificate, expected a PEM file" in capsys.readouterr().err
