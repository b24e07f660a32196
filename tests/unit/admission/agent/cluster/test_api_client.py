"""The agent's client against a server that says what it is told to say."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from admission.agent.cluster.api_client import ApiClient
from admission.api_connection import Access, UnusableAccess
from queues.errors import (
    ApiRefused,
    ApiUnavailable,
    Conflict,
    Gone,
    NotFound,
    TooManyRequests,
)
from tests.fakes.scripted_server import ScriptedServer, scripted_server
from tests.waiting import LIMIT


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server() as running:
        yield running


@pytest.fixture
def client(server: ScriptedServer) -> Iterator[ApiClient]:
    client = ApiClient(Access(server=server.url), timeout=LIMIT)
    yield client
    client.close()


def test_requests_go_over_one_connection(server: ScriptedServer, client: ApiClient) -> None:
    for _ in range(3):
        server.says(200, {"kind": "Node"})
        assert client.get("/api/v1/nodes/a") == {"kind": "Node"}
    assert len({asked.connection for asked in server.asked}) == 1


def test_a_connection_that_the_server_has_closed_is_opened_again(
    server: ScriptedServer, client: ApiClient
) -> None:
    server.says_then_hangs_up(200, {})
    server.says(200, {"metadata": {"name": "a"}})
    client.get("/a")
    assert client.replace("/a", {"spec": {}}) == {"metadata": {"name": "a"}}
    assert server.asked[-1].method == "PUT"
    assert server.asked[-1].body == {"spec": {}}


def test_a_new_connection_that_gives_no_answer_is_told_as_unavailable(
    server: ScriptedServer, client: ApiClient
) -> None:
    server.hangs_up()
    with pytest.raises(ApiUnavailable):
        client.get("/a")
    assert len(server.asked) == 1


def test_nobody_who_answers_is_told_as_unavailable() -> None:
    with scripted_server() as server:
        url = server.url
    with pytest.raises(ApiUnavailable, match="refused"):
        ApiClient(Access(server=url)).get("/a")


@pytest.mark.parametrize(
    ("status", "meaning"),
    [
        (404, NotFound),
        (409, Conflict),
        (410, Gone),
        (429, TooManyRequests),
        (403, ApiRefused),
        (422, ApiRefused),
        (503, ApiUnavailable),
    ],
)
def test_refusals_are_told_by_their_meaning(
    server: ScriptedServer, client: ApiClient, status: int, meaning: type[Exception]
) -> None:
    server.says(status, {"message": "because {it} says so", "details": {"retryAfterSeconds": 3}})
    with pytest.raises(meaning, match=r"because \{it\} says so") as refused:
        client.get("/a")
    assert refused.value.facts["retry_after"] == 3  # type: ignore[attr-defined]


def test_an_answer_that_is_no_document_is_told_as_unavailable(
    server: ScriptedServer, client: ApiClient
) -> None:
    def answer(handler: object) -> None:
        handler.send_response(200)  # type: ignore[attr-defined]
        handler.send_header("Content-Length", "4")  # type: ignore[attr-defined]
        handler.end_headers()  # type: ignore[attr-defined]
        handler.wfile.write(b"oops")  # type: ignore[attr-defined]

    server.answers.append(answer)
    with pytest.raises(ApiUnavailable):
        client.get("/a")


def test_a_server_that_does_not_answer_in_time_is_told_as_unavailable(server: ScriptedServer) -> None:
    done = threading.Event()
    server.answers.append(lambda _: done.wait(LIMIT))
    with pytest.raises(ApiUnavailable, match="timed out"):
        ApiClient(Access(server=server.url), timeout=0.1).get("/a")
    done.set()


def test_a_token_is_read_again_when_its_file_changes(server: ScriptedServer, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    client = ApiClient(Access(server=server.url, token_file=file))
    for token in ("first", "second"):
        renewed = tmp_path / "renewed"
        renewed.write_text(token)
        renewed.replace(file)  # as the kubelet does it
        server.says(200, {})
        client.get("/a")
        assert server.asked[-1].headers["Authorization"] == f"Bearer {token}"
    client.close()


def test_a_token_that_is_gone_is_told_as_unavailable(server: ScriptedServer, tmp_path: Path) -> None:
    with pytest.raises(ApiUnavailable):
        ApiClient(Access(server=server.url, token_file=tmp_path / "none")).get("/a")


def test_metadata_is_asked_for_where_nothing_else_is_needed(
    server: ScriptedServer, client: ApiClient
) -> None:
    server.says(200, {})
    client.list("/a", fieldSelector="metadata.name=a")
    assert server.asked[-1].headers["Accept"].endswith("as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
    assert server.asked[-1].path == "/a?fieldSelector=metadata.name%3Da"


def test_a_merge_patch_says_what_it_is(server: ScriptedServer, client: ApiClient) -> None:
    server.says(200, {})
    client.merge("/a", {"metadata": {"labels": {"b": None}}})
    asked = server.asked[-1]
    assert (asked.method, asked.headers["Content-Type"]) == ("PATCH", "application/merge-patch+json")
    assert asked.body == {"metadata": {"labels": {"b": None}}}


def test_a_watch_gives_the_events_and_ends_when_the_server_ends_it(
    server: ScriptedServer, client: ApiClient
) -> None:
    first, mark = {"metadata": {"name": "a"}}, {"metadata": {"resourceVersion": "9"}}
    server.streams({"type": "ADDED", "object": first}, {"type": "BOOKMARK", "object": mark})
    events = list(client.watch("/a", version="7", seconds=300))
    assert [(each.type, each.object) for each in events] == [("ADDED", first), ("BOOKMARK", mark)]
    assert server.asked[-1].path == (
        "/a?watch=1&allowWatchBookmarks=true&resourceVersion=7&timeoutSeconds=300"
    )


@pytest.mark.parametrize("in_stream", [True, False])
def test_a_watch_from_a_version_that_is_no_longer_kept_is_told_as_gone(
    server: ScriptedServer, client: ApiClient, in_stream: bool
) -> None:
    status = {"code": 410, "message": "too old resource version"}
    if in_stream:
        server.streams({"type": "ERROR", "object": status})
    else:
        server.says(410, status)
    with pytest.raises(Gone, match="too old"):
        list(client.watch("/a", version="7", seconds=300))


def test_a_watch_that_ends_within_a_line_is_told_as_unavailable(
    server: ScriptedServer, client: ApiClient
) -> None:
    def answer(handler: object) -> None:
        handler.send_response(200)  # type: ignore[attr-defined]
        handler.send_header("Connection", "close")  # type: ignore[attr-defined]
        handler.end_headers()  # type: ignore[attr-defined]
        handler.wfile.write(b'{"type": "ADDED", "obj')  # type: ignore[attr-defined]
        handler.close_connection = True  # type: ignore[attr-defined]

    server.answers.append(answer)
    with pytest.raises(ApiUnavailable):
        list(client.watch("/a", version="7", seconds=300))


def test_requests_are_counted_by_verb_and_status(server: ScriptedServer, client: ApiClient) -> None:
    server.says(200, {})
    client.get("/a")
    with pytest.raises(NotFound):
        client.get("/a")
    assert client.requests == {("GET", 200): 1, ("GET", 404): 1}


def test_a_pod_is_told_where_the_api_server_is_by_its_environment(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_text("PEM")
    found = Access.in_pod({"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}, tmp_path)
    assert (found.server, found.authority) == ("https://[fd00::1]:6443", "PEM")
    assert found.token_file == tmp_path / "token"


def test_outside_of_a_pod_the_error_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UnusableAccess, match="name a kubeconfig by --kubeconfig"):
        Access.in_pod({}, tmp_path)
