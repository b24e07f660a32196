"""The way to the read API: through the API server with the user's certificate, by token, and what can go wrong."""

import asyncio
import base64
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from admission.api_connection import Access, Connection, UnusableAccess
from admission.cli.access.requests import Route, ask, fetch
from admission.cli.command_line import CommandFailed
from admission.settings import Address
from admission.web.http import serving
from deploy.local.certificates import Authority, pair_credentials
from tests.fakes.fake_reader import FakeLeader, FakeReader, served
from tests.tables import with_rows
from tests.waiting import LIMIT


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.in_folder(tmp_path_factory.mktemp("authority"))


def answering(answer: Any, tls: ssl.SSLContext | None = None) -> AbstractAsyncContextManager[int]:
    application = web.Application()
    application.router.add_get("/{path:.*}", answer)
    return serving(application, Address("127.0.0.1", 0), tls=tls)


def api_server(authority: Authority, tmp_path: Path, answer: Any) -> AbstractAsyncContextManager[int]:
    """A TLS server named ``kubernetes`` that wants a client certificate of the authority."""
    own = authority.server("kubernetes")
    pem = tmp_path / "server.pem"
    pem.write_bytes(own.certificate_pem + own.key_pem)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=authority.pem.decode())
    tls.load_cert_chain(pem)
    tls.verify_mode = ssl.CERT_REQUIRED
    return answering(answer, tls)


def encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


def kubeconfig(tmp_path: Path, port: int, authority: Authority, **cluster: Any) -> str:
    """Of ada."""
    document = {
        "current-context": "x",
        "clusters": [{"name": "c", "cluster": {"server": f"https://127.0.0.1:{port}", **cluster}}],
        "users": [{"name": "u", "user": pair_credentials(authority.client("ada"))}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    }
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    return str(file)


async def asked(route: Route, path: str = "queues", query: dict[str, str | None] | None = None) -> Any:
    return await asyncio.to_thread(ask, route, path, Any, query)


async def test_the_question_goes_to_the_api_server_with_the_users_certificate(
    authority: Authority, tmp_path: Path
) -> None:
    paths: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        assert request.transport is not None
        assert dict(request.transport.get_extra_info("peercert")["subject"][0])["commonName"] == "ada"
        paths.append(request.raw_path)
        return web.json_response({"items": []})

    async with api_server(authority, tmp_path, answer) as port:
        file = kubeconfig(
            tmp_path,
            port,
            authority,
            **{
                "certificate-authority-data": encoded(authority.pem),
                "tls-server-name": "kubernetes",
            },
        )
        body = await asked(Route(kubeconfig=file), "pending", {"queue": "a b", "namespace": None})

    assert body == {"items": []}
    assert paths == ["/apis/read.muster.dev/v1/pending?queue=a+b"]


async def test_a_server_of_another_authority_is_not_trusted_unless_told_so(
    authority: Authority, tmp_path: Path
) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"items": []})

    async with api_server(authority, tmp_path, answer) as port:
        wrong = encoded(Authority.in_folder(tmp_path, "somebody else").pem)
        with pytest.raises(CommandFailed, match=r"certificate-authority\(-data\)"):
            await asked(
                Route(
                    kubeconfig=kubeconfig(tmp_path, port, authority, **{"certificate-authority-data": wrong})
                )
            )
        trusting = kubeconfig(tmp_path, port, authority, **{"insecure-skip-tls-verify": True})
        assert await asked(Route(kubeconfig=trusting)) == {"items": []}


@with_rows("status", "message", "hint")
async def test_a_refusal_on_the_way_says_what_to_do(
    authority: Authority, tmp_path: Path, status: int, message: str, hint: str
) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"kind": "Status", "message": message, "code": status}, status=status)

    async with api_server(authority, tmp_path, answer) as port:
        file = kubeconfig(tmp_path, port, authority, **{"insecure-skip-tls-verify": True})
        with pytest.raises(CommandFailed) as caught:
            await asked(Route(kubeconfig=file))

    assert f"Asking Muster at https://127.0.0.1:{port}: {message}" in str(caught.value)
    assert hint in str(caught.value)


async def test_something_else_at_the_address_is_not_taken_for_muster() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="<html>hello</html>")

    async with answering(answer) as port:
        with pytest.raises(CommandFailed, match="Something else listens"):
            await asked(Route(server=f"http://127.0.0.1:{port}"))


async def test_a_server_that_does_not_answer_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:  # takes connections, and says nothing
        port = server.getsockname()[1]
        with pytest.raises(CommandFailed, match=r"no answer within 0\.2 seconds"):
            await asked(Route(server=f"http://127.0.0.1:{port}", timeout=0.2))


async def test_a_replica_is_asked_with_the_token_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_TOKEN", "nobody")
    file = tmp_path / "token"
    file.write_text("ada\n")
    async with served(FakeReader()) as url:
        with pytest.raises(CommandFailed, match="Muster does not know who asks"):
            await asked(Route(server=url))
        assert (await asked(Route(server=url, token_file=str(file))))["items"]


async def test_a_question_that_only_the_leader_answers_is_asked_once() -> None:
    leader = FakeLeader()
    leader.lost = True
    async with served(FakeReader(), leader=leader) as url:
        with pytest.raises(CommandFailed, match=r"This replica \(b\) does not lead; a does"):
            await asyncio.to_thread(fetch, Route(server=url), "snapshot")


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://[fd00::1]", ("fd00::1", 443)),
        ("http://[fd00::1]/prefix", ("fd00::1", 80)),
        ("https://api.example:6443", ("api.example", 6443)),
    ],
)
def test_a_port_is_never_taken_from_an_ipv6_address(url: str, found: tuple[str, int]) -> None:
    connection = Connection(Access(server=url), timeout=1)
    assert (connection.host, connection.port) == found


@pytest.mark.parametrize("url", ["https://fd00::1:8443", "https://[fd00::1", "https://muster:x", "ftp://a"])
def test_an_address_that_cannot_be_read_is_told(url: str) -> None:
    with pytest.raises(UnusableAccess, match="an IPv6 address in brackets"):
        Connection(Access(server=url), timeout=1)


def test_a_closed_connection_leaves_no_answer_open_with_which_the_server_ended_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = Connection(Access(server=f"http://127.0.0.1:{server.getsockname()[1]}"), timeout=LIMIT)
        with ThreadPoolExecutor(1) as other:
            answer = other.submit(connection.send_request, "GET", "/", headers={})
            with server.accept()[0] as asked:
                asked.sendall(
                    b"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab"
                )
                assert not answer.result(LIMIT).closed
                connection.close()
                assert answer.result().closed
