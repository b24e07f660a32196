import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from admission import api_connection
from admission.kube.client.client import Client
from admission.kube.client.credentials import Credentials
from admission.kube.client.session import resource_of
from queues.errors import (
    ApiError,
    ApiRefused,
    ApiUnavailable,
    Conflict,
    Fenced,
    Gone,
    NotFound,
    TooManyRequests,
)
from tests.fakes.fake_api_server import (
    FakeApiServer,
    answers,
    breaks_before_answering,
    hangs,
    says,
    says_and_breaks,
)
from tests.tables import with_rows
from tests.waiting import LIMIT, eventually

PODS = "/api/v1/namespaces/a/pods"


@pytest_asyncio.fixture
async def client(server: FakeApiServer, tmp_path: Path) -> AsyncIterator[Client]:
    async with await Client.connect(server.kubeconfig(tmp_path), request_timeout=LIMIT) as made:
        yield made


async def test_a_brief_answer_is_asked_for_where_nobody_reads_more(
    server: FakeApiServer, client: Client
) -> None:
    await client.create(PODS, {})
    await client.create(PODS, {}, brief=True)
    whole, brief = (seen.headers["Accept"] for seen in server.requests)
    assert whole == "application/json"
    assert brief.startswith("application/json;as=PartialObjectMetadata;")


async def test_requests_carry_the_token_and_say_who_asks(server: FakeApiServer, client: Client) -> None:
    await client.get(PODS, limit=5, labelSelector=None)
    (seen,) = server.requests
    assert seen.headers["Authorization"] == "Bearer secret"
    assert seen.headers["User-Agent"].startswith("muster/")
    assert seen.query == {"limit": "5"}


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (404, NotFound),
        (409, Conflict),
        (410, Gone),
        (403, ApiRefused),
        (422, ApiRefused),
        (500, ApiUnavailable),
    ],
)
async def test_a_refusal_is_an_error_with_its_meaning_and_the_servers_words(
    server: FakeApiServer, client: Client, status: int, error: type[ApiError]
) -> None:
    server.once("POST", answers(status, "pods {x} is not welcome", "Why"))
    with pytest.raises(error, match=r"pods \{x\} is not welcome") as raised:
        await client.create(PODS, {"metadata": {"name": "x"}})
    assert (raised.value.facts["status"], raised.value.facts["code"]) == (status, "Why")


async def test_a_read_is_tried_again_after_a_broken_connection(server: FakeApiServer, client: Client) -> None:
    server.once("LIST", answers(500, "etcd leader changed"), times=2)
    server.once("LIST", breaks_before_answering)
    assert b'"items"' in await client.get(PODS)
    assert len(server.requests) >= 4


async def test_a_read_is_not_tried_for_ever(server: FakeApiServer, client: Client) -> None:
    server.once("LIST", answers(500, "broken"), times=50)
    with pytest.raises(ApiUnavailable, match="broken"):
        await client.get(PODS)
    assert len(server.requests) == 6


@pytest.mark.parametrize(
    ("verb", "write"),
    [
        ("POST", lambda client: client.create(PODS, {})),
        ("PATCH", lambda client: client.patch(f"{PODS}/x", {})),
        ("DELETE", lambda client: client.delete(f"{PODS}/x", uid="u")),
    ],
)
async def test_a_write_whose_outcome_is_unknown_is_not_repeated(
    server: FakeApiServer, client: Client, verb: str, write: Callable[[Client], Awaitable[object]]
) -> None:
    server.once(verb, breaks_before_answering)
    with pytest.raises(ApiUnavailable) as raised:
        await write(client)
    assert not raised.value.facts["unsent"]
    assert len(server.seen(verb)) == 1


async def test_a_write_that_is_asked_to_wait_waits_and_goes_through(
    server: FakeApiServer, client: Client
) -> None:
    server.once("PATCH", answers(429, "slow down", "TooManyRequests", Retry_After="0"), times=3)
    await client.patch(f"{PODS}/x", {"spec": {}})
    assert len(server.seen("PATCH")) == 4
    assert client.counts["PATCH", "pods", 429] == 3
    assert client.retries == {"pods": 3}
    assert client.counts["PATCH", "pods", 200] == 1


async def test_an_eviction_that_a_budget_forbids_is_an_answer(server: FakeApiServer, client: Client) -> None:
    server.once("POST", answers(429, "disruption budget", "TooManyRequests"))
    with pytest.raises(TooManyRequests, match="disruption budget"):
        await client.create(f"{PODS}/x/eviction", {})
    assert len(server.requests) == 1


async def test_a_write_goes_through_once_the_server_listens_again(
    server: FakeApiServer, client: Client
) -> None:
    await server.stop()
    write = asyncio.create_task(client.create(PODS, {}))
    await eventually(lambda: client.counts["POST", "pods", 0] > 0, "a refused connection")
    await server.start()
    await write
    assert len(server.seen("POST")) == 1


async def test_a_silent_server_does_not_hold_a_request_for_ever(
    server: FakeApiServer, tmp_path: Path
) -> None:
    server.once("POST", hangs)
    async with await Client.connect(server.kubeconfig(tmp_path), request_timeout=0.05) as client:
        with pytest.raises(ApiUnavailable, match=r"no answer within 0\.05 s"):
            await client.create(PODS, {})


async def test_nothing_is_sent_once_the_guard_says_no(server: FakeApiServer, client: Client) -> None:
    def check_lease() -> None:
        raise Fenced(term=3, holder="old", reason="the lease has run out")

    for write in (
        client.create(PODS, {}, check_lease=check_lease),
        client.patch(f"{PODS}/x", {}, check_lease=check_lease),
        client.delete(f"{PODS}/x", check_lease=check_lease),
        client.replace(f"{PODS}/x", {}, check_lease=check_lease),
    ):
        with pytest.raises(Fenced):
            await write
    assert server.requests == []


async def test_the_guard_is_asked_again_before_each_attempt(server: FakeApiServer, client: Client) -> None:
    asked = 0

    def check_lease() -> None:
        nonlocal asked
        asked += 1
        if asked == 2:
            raise Fenced(term=3, holder="old", reason="the lease has run out")

    server.once("POST", answers(429, "wait", Retry_After="0"))
    with pytest.raises(Fenced):
        await client.create(PODS, {}, check_lease=check_lease)
    assert len(server.requests) == 1


async def test_a_deletion_names_the_object_that_is_meant(server: FakeApiServer, client: Client) -> None:
    await client.delete(f"{PODS}/x", uid="u-1", grace=0, propagation="Background")
    body = server.requests[0].body
    assert body["preconditions"] == {"uid": "u-1"}
    assert (body["gracePeriodSeconds"], body["propagationPolicy"]) == (0, "Background")


@with_rows("kind", "content_type")
async def test_each_kind_of_patch_says_what_it_is(
    server: FakeApiServer, client: Client, kind: str, content_type: str
) -> None:
    await client.patch(f"{PODS}/x", [], kind=kind, field_manager="muster", force=True)  # type: ignore[arg-type]
    assert server.requests[0].headers["Content-Type"] == content_type
    assert server.requests[0].query == {
        "fieldManager": "muster",
        "fieldValidation": "Ignore",
        "force": "true",
    }


async def test_requests_in_flight_are_bounded(server: FakeApiServer, tmp_path: Path) -> None:
    server.once("LIST", hangs, times=10)
    async with await Client.connect(server.kubeconfig(tmp_path), concurrency=3) as client:
        reads = [asyncio.create_task(client.get(PODS)) for _ in range(10)]
        await eventually(lambda: len(server.requests) >= 3, "three requests")
        assert client._session._free.locked()
        assert len(server.requests) == 3
        for read in reads:
            read.cancel()
        await asyncio.gather(*reads, return_exceptions=True)


async def test_a_rotated_token_is_read_anew_when_the_old_one_is_refused(
    server: FakeApiServer, tmp_path: Path
) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("secret")
    path = server.kubeconfig(tmp_path, {"tokenFile": str(token_file)})
    async with await Client.connect(path) as client:
        client._session._credentials._read_at -= 5
        await client.create(PODS, {})
        server.token = "renewed"
        token_file.write_text("renewed")
        await client.create(PODS, {})
    assert [seen.headers["Authorization"] for seen in server.requests] == [
        "Bearer secret",
        "Bearer secret",
        "Bearer renewed",
    ]


async def test_a_pods_service_account_serves_and_its_rotated_token_is_read_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    (tmp_path / "namespace").write_text("muster-system")
    (tmp_path / "ca.crt").write_bytes(_certificate())
    monkeypatch.setattr(api_connection, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    found = await Credentials.load()
    assert (found.server, await found.authorization()) == ("https://[fd00::1]:6443", "Bearer first")
    token.write_text("second\n")
    assert await found.authorization(rejected=True) == "Bearer second"


def _certificate() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    start = datetime(2026, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, start, start + timedelta(days=9999))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


async def test_credentials_may_come_from_a_plugin(server: FakeApiServer, tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    credential = (
        '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}'
    )
    plugin.write_text(f"#!/bin/sh\necho '{credential % 'secret'}'\n")
    plugin.chmod(0o755)
    path = server.kubeconfig(
        tmp_path,
        {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin), "args": []}},
    )
    async with await Client.connect(path) as client:
        client._session._credentials._read_at -= 5
        await client.create(PODS, {})
        server.token = "renewed"
        plugin.write_text(f"#!/bin/sh\necho '{credential % 'renewed'}'\n")
        await client.create(PODS, {})
    assert server.requests[-1].headers["Authorization"] == "Bearer renewed"


@pytest.mark.parametrize(("end", "calls"), [("2999-01-01T00:00:00Z", 1), ("2020-01-01T00:00:00Z", 3)])
async def test_a_plugin_is_asked_again_when_its_answer_has_ended(
    tmp_path: Path, end: str, calls: int
) -> None:
    asked, plugin = tmp_path / "asked", tmp_path / "plugin"
    answer = f'{{"status": {{"token": "secret", "expirationTimestamp": "{end}"}}}}'
    plugin.write_text(f"#!/bin/sh\necho >> {asked}\necho '{answer}'\n")
    plugin.chmod(0o755)
    path = FakeApiServer().kubeconfig(tmp_path, {"exec": {"command": str(plugin)}})
    credentials = await Credentials.load(path)
    for _ in range(2):
        credentials._read_at -= 100
        assert await credentials.authorization() == "Bearer secret"
    assert asked.read_text().count("\n") == calls


async def test_an_unusable_kubeconfig_says_which_and_why(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    with pytest.raises(ApiUnavailable, match=f"no file at {path}"):
        await Client.connect(path)
    path.write_text("apiVersion: v1\nkind: Config\nclusters: []\ncontexts: []\nusers: []\n")
    with pytest.raises(ApiUnavailable, match="no current-context is set"):
        await Client.connect(path)


async def test_a_watch_gives_whole_lines_however_they_are_cut(server: FakeApiServer, client: Client) -> None:
    big = b'{"big":"' + b"x" * 3_500_000 + b'"}'
    stream = b'{"a":1}\n\n{"b":2}\n' + big + b'\n{"cut'
    parts = [stream[at : at + 100_000] for at in range(0, len(stream), 100_000)]
    server.once("WATCH", says(*parts))
    lines = [line async for lines in client.watch(PODS, silence=5, resourceVersion="1") for line in lines]
    assert lines == [b'{"a":1}', b'{"b":2}', big]


async def test_a_watch_that_breaks_gives_first_what_came(server: FakeApiServer, client: Client) -> None:
    server.once("WATCH", says_and_breaks(b'{"a":1}\n'))
    seen: list[bytes] = []

    async def follow() -> None:
        async for lines in client.watch(PODS, silence=5):
            seen.extend(lines)

    with pytest.raises(ApiUnavailable):
        await follow()
    assert seen == [b'{"a":1}']


async def test_a_silent_watch_counts_as_dead(server: FakeApiServer, client: Client) -> None:
    server.once("WATCH", hangs)
    with pytest.raises(ApiUnavailable, match=r"nothing heard for 0\.05 s"):
        async for _ in client.watch(PODS, silence=0.05):
            pass


def test_requests_are_counted_by_what_they_are_about() -> None:
    assert resource_of("/api/v1/namespaces/a/pods/b/binding") == "pods/binding"
    assert resource_of("/api/v1/namespaces/a/pods") == "pods"
    assert resource_of("/api/v1/namespaces/a") == "namespaces"
    assert resource_of("/apis/batch.volcano.sh/v1alpha1/namespaces/a/jobs/b/status") == "jobs/status"
    assert resource_of("/apis/batch/v1/jobs") == "jobs"
    assert resource_of("/healthz") == "healthz"


def test_loading_credentials_costs_a_few_megabytes(tmp_path: Path) -> None:
    script = """
import asyncio, resource, ssl, sys
import aiohttp, msgspec, yaml
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
from admission.kube.client.credentials import Credentials
asyncio.run(Credentials.load(__import__("pathlib").Path(sys.argv[1])))
assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) < 12_000
"""
    path = FakeApiServer().kubeconfig(tmp_path)
    subprocess.run(
        [sys.executable, "-c", script, str(path)], check=True, env={**os.environ, "PYTHONPATH": "."}
    )
