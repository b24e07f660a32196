"""Questions for the leader, asked at whichever replica."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from admission.kube.webhook.certificates import Keyring, renewed
from admission.settings import Address, Settings
from admission.turn_report import Decided
from admission.web.access.limits import TooBusy
from admission.web.app import PREFIX
from admission.web.http import serving
from admission.web.leader.answers import LeaderAnswers
from admission.web.leader.channel import ChannelBroken, LeaderChannel
from admission.web.leader.forwarding import ASKER, LeaderBusy, LeaderFailed, LeaderQuestions, PluginFailed
from admission.web.reader import NotLeading
from admission.web.replicas import addresses, other_replicas, this_replica
from admission.web.trials import on_leader
from queues.errors import ApiError
from queues.plugins.interface import OrderPolicy
from queues.read_api.bodies import ReplicaBody
from queues.read_api.nodes import NodeList
from queues.sql.leadership import Heartbeat
from queues.workload import Workload
from tests.builders.plugin_policies import known, stand_still
from tests.builders.trials.worlds_in_memory import batch_job, two_racks
from tests.fakes.fake_reader import FakeLeader, FakeReader, fake_api

HOST = "muster.muster-system.svc"
PUBLIC = f"{PREFIX}/namespaces/ml/workloads/tune-3/outlook?kind=job"
QUERY: dict[str, str | None] = {"namespace": "ml", "name": "tune-3", "kind": "job"}


class FakeChannel:
    """A process beside this one that answers with this status."""

    def __init__(self, status: int) -> None:
        self._status = status

    async def ask(
        self, path: str, query: dict[str, str | None], body: bytes | None = None
    ) -> tuple[int, bytes]:
        return self._status, b"from here"


@pytest.fixture(scope="module")
def keyring() -> Keyring:
    return renewed(None, [HOST], datetime(2026, 11, 21, tzinfo=UTC))


@asynccontextmanager
async def leading(
    keyring: Keyring, tmp_path: Path, leader: FakeLeader | None = None, *, pod_ip: str = "127.0.0.1"
) -> AsyncIterator[str]:
    """Another replica, which leads; gives what it announces."""
    pem = tmp_path / "serving.pem"
    pem.write_bytes(keyring.serving.certificate_pem + keyring.serving.key_pem)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pem)
    application = fake_api(FakeReader(), leader=leader).application()
    async with serving(application, Address(pod_ip, 0), tls=tls) as port:
        yield Settings(pod_ip=pod_ip, read_listen=f":{port}").announced_url


def questions(
    status: int,
    keyring: Keyring,
    *,
    address: str = "",
    holder: str = "a",
    age: float = 1.0,
    token: str | None = "Bearer muster",
    channel: LeaderChannel | None = None,
) -> LeaderQuestions:
    async def heartbeat() -> Heartbeat:
        return Heartbeat(holder=holder, term=1, age=age, behind="", address=address)

    async def own_token() -> str | None:
        return token

    return LeaderQuestions(
        channel or FakeChannel(status),
        identity="b",
        host=HOST,
        heartbeat=heartbeat,
        token=own_token,
        authorities=lambda: keyring.bundle,
    )


async def asked(of: LeaderQuestions, *, forwarded: bool = False) -> bytes:
    return await of.ask("/outlook", QUERY, public=PUBLIC, forwarded=forwarded)


async def test_the_leaders_own_replica_answers_by_itself(keyring: Keyring) -> None:
    assert await asked(questions(200, keyring)) == b"from here"


@pytest.mark.parametrize("pod_ip", ["127.0.0.1", "::1"])
async def test_another_replica_passes_the_question_on(keyring: Keyring, tmp_path: Path, pod_ip: str) -> None:
    async with leading(keyring, tmp_path, pod_ip=pod_ip) as url:
        (outlook,) = msgspec.json.decode(await asked(questions(409, keyring, address=url)))

    assert outlook["name"] == "tune-3"


async def test_another_replica_passes_the_body_of_a_question_on(keyring: Keyring, tmp_path: Path) -> None:
    leader = FakeLeader(two_racks())
    body = msgspec.json.encode({"documents": [batch_job("a", 1, queue="team", gpu=8)], "namespace": "ml"})
    async with leading(keyring, tmp_path, leader) as url:
        of = questions(409, keyring, address=url)
        told = await of.ask("/trials", {}, public=f"{PREFIX}/trials", forwarded=False, body=body)

    (item,) = msgspec.json.decode(told)["items"]
    assert (item["name"], item["state"]) == ("a", "admitted")


async def metrics() -> bytes:
    return b"muster_leader 0.0\n"


async def test_a_trial_is_worked_on_where_it_can_be(tmp_path: Path) -> None:
    world = two_racks()
    answers = LeaderAnswers(
        lambda: Decided(snapshot=world.snapshot, plan=world.plan),
        metrics,
        identity="b",
        world_view=world.view,
    )
    body = msgspec.json.encode({"documents": [batch_job("a", 1, queue="team", gpu=8)], "namespace": "ml"})
    socket = tmp_path / "leader.sock"
    async with serving(answers.application(), socket):
        channel = LeaderChannel(socket)
        status, told = await channel.ask("/trials", {}, body)
        await channel.close()

    assert (status, msgspec.json.decode(told)["items"][0]["state"]) == (200, "admitted")


class Endless(OrderPolicy):
    """An order that answers to no question about one name."""

    name = "endless"
    terms = None

    def urgency(self, workload: Workload) -> int:
        return stand_still() if workload.name == "endless" else 0


async def test_a_plug_in_that_never_answers_costs_its_question_only(
    tmp_path: Path, keyring: Keyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_leader, "ANSWER_WITHIN", 4.0)
    world = two_racks()
    queues = {name: replace(each, order="endless") for name, each in world.snapshot.queues.items()}
    answers = LeaderAnswers(
        lambda: Decided(snapshot=replace(world.snapshot, queues=queues), plan=world.plan),
        metrics,
        identity="b",
        world_view=world.view,
    )
    socket = tmp_path / "leader.sock"
    with known(Endless):
        async with serving(answers.application(), socket):
            of = questions(0, keyring, channel=LeaderChannel(socket))

            async def state(name: str) -> str:
                document = batch_job(name, 1, queue="team", gpu=8)
                body = msgspec.json.encode({"documents": [document], "namespace": "ml"})
                told = await of.ask("/trials", {}, public="", forwarded=False, body=body)
                found: str = msgspec.json.decode(told)["items"][0]["state"]
                return found

            with pytest.raises(PluginFailed, match="Plug-in endless of queue team did not answer for 4 s"):
                await state("endless")
            assert await state("a") == "admitted"
            await of._channel.close()


async def test_the_nodes_are_told_where_they_are_known(tmp_path: Path) -> None:
    world = two_racks()
    answers = LeaderAnswers(
        lambda: Decided(snapshot=world.snapshot, plan=world.plan),
        metrics,
        identity="b",
        world_view=world.view,
    )
    socket = tmp_path / "leader.sock"
    async with serving(answers.application(), socket):
        channel = LeaderChannel(socket)
        status, content = await channel.ask("/nodes", {"limit": "2"})
        await channel.close()

    found = msgspec.json.decode(content, type=NodeList)
    assert (status, len(found.items)) == (200, 2)
    assert found.continue_ == found.items[-1].name
    assert found.items[0].accelerators[0].free == 8


async def test_a_replica_tells_of_all_others_and_of_those_that_do_not_answer(
    keyring: Keyring, tmp_path: Path
) -> None:
    async with leading(keyring, tmp_path) as url:

        async def found() -> dict[str, str]:
            return {"other": url, "lost": "https://127.0.0.1:1"}

        async def unknown() -> dict[str, str]:
            raise ApiError(message="no right", status=403)

        ask, path = questions(409, keyring).ask_replica, f"{PREFIX}/version"
        assert await other_replicas(found, ask, path) == (ReplicaBody(name="lost"), this_replica("a"))
        assert await other_replicas(unknown, ask, path) == ()


async def test_the_other_replicas_are_the_other_pods_of_the_controller() -> None:
    class FakeClient:
        async def get(self, path: str, **query: str) -> bytes:
            assert (path, query) == (
                "/api/v1/namespaces/muster-system/pods",
                {"labelSelector": "app.kubernetes.io/name=muster"},
            )
            pods = {
                "a": {"podIP": "10.0.0.1"},
                "b": {"podIP": "10.0.0.2"},
                "c": {"podIP": "fd00::3"},
                "d": {},
            }
            return msgspec.json.encode(
                {"items": [{"metadata": {"name": name}, "status": status} for name, status in pods.items()]}
            )

    settings = Settings(identity="a", pod_ip="10.0.0.1", read_listen=":8443")
    assert await addresses(FakeClient(), settings) == {  # type: ignore[arg-type]
        "b": "https://10.0.0.2:8443",
        "c": "https://[fd00::3]:8443",
    }
    assert await addresses(FakeClient(), Settings(identity="a")) == {}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "of",
    [{"address": ""}, {"holder": "b"}, {"age": 60.0}, {"token": None}],
    ids=["no address", "its own", "lost", "no token"],
)
async def test_a_leader_that_cannot_be_asked_is_named(keyring: Keyring, of: dict[str, object]) -> None:
    given = {"address": "https://127.0.0.1:1", **of}

    with pytest.raises(NotLeading, match=r"This replica \(b\) does not lead; [ab] does"):
        await asked(questions(409, keyring, **given))  # type: ignore[arg-type]


async def test_a_question_is_passed_on_once(keyring: Keyring) -> None:
    with pytest.raises(NotLeading):
        await asked(questions(409, keyring, address="https://127.0.0.1:1"), forwarded=True)


async def test_a_server_with_another_certificate_is_not_told_musters_token(
    keyring: Keyring, tmp_path: Path
) -> None:
    other = renewed(None, [HOST], datetime(2026, 11, 21, tzinfo=UTC))
    async with leading(other, tmp_path) as url:
        with pytest.raises(LeaderFailed, match="certificate"):
            await asked(questions(409, keyring, address=url))


async def test_a_leader_that_is_busy_or_fails_is_told_as_such(keyring: Keyring) -> None:
    with pytest.raises(TooBusy):
        await asked(questions(429, keyring))
    with pytest.raises(ChannelBroken):
        await asked(questions(500, keyring))
    with pytest.raises(LeaderFailed):
        await asked(questions(409, keyring, address="https://127.0.0.1:1"))


async def test_the_channel_tells_that_the_process_does_not_lead(tmp_path: Path) -> None:
    answers = LeaderAnswers(lambda: None, metrics, identity="b")
    socket = tmp_path / "leader.sock"
    async with serving(answers.application(), socket):
        channel = LeaderChannel(socket)
        status, _ = await channel.ask("/outlook", QUERY)
        told = await channel.ask("/metrics", {})
        await channel.close()
    lost = LeaderChannel(tmp_path / "nobody.sock")
    with pytest.raises(ChannelBroken):
        await lost.ask("/metrics", {})
    await lost.close()

    assert (status, told) == (409, (200, b"muster_leader 0.0\n"))


async def test_the_leader_is_told_who_asks_and_its_refusal_is_passed_on(
    keyring: Keyring, tmp_path: Path
) -> None:
    told: list[str | None] = []

    class BusyLeader(FakeLeader):
        async def ask(self, path: str, query: dict[str, str | None], **more: object) -> bytes:
            told.append(query[ASKER])
            raise LeaderBusy(why="The leader has 3 questions of zoë already.")

    async with leading(keyring, tmp_path, BusyLeader()) as url:
        of = questions(409, keyring, address=url)
        with pytest.raises(TooBusy, match=r"^The leader has 3 questions of zoë already\.$"):
            await of.ask("/outlook", {**QUERY, ASKER: "zoë"}, public=PUBLIC, forwarded=False)
        body = msgspec.json.encode({"quota": ["team.gpu=8"], "user": "bob"})
        with pytest.raises(TooBusy, match="3 questions of zoë"):
            await of.ask("/trials", {ASKER: "zoë"}, public=f"{PREFIX}/trials", forwarded=False, body=body)
    assert told == ["zoë", "zoë"]
