"""Whatever a command prints fits a terminal of 80 columns, tables and sentences, and uses a wide one."""

import asyncio
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import aiohttp
import click
import pytest
import yaml
from aiohttp import web
from msgspec import structs

from admission.cli.command_line import finish
from admission.cli.examples import commands_of
from admission.cli.kubectl_muster import kubectl_muster
from admission.cli.output import Output
from admission.cli.plugin.jobs import jobs_table
from admission.cli.plugin.pending import pending_table
from admission.cli.rendering import terminal
from admission.cli.rendering.explanation import sentence_of
from admission.cli.rendering.terminal import short_names
from queues.api.api_resources import JOB_FLOWS, NODE_DRAINS, RESERVATIONS, VOLCANO_JOBS
from queues.api.names import GROUP_MIN_MEMBER, QUEUE_LABEL
from queues.read_api.bodies import ReasonBody
from queues.sql.read.listed import Listing
from tests.builders.trials.worlds_in_memory import batch_job
from tests.fakes.fake_reader import FakeLeader, FakeReader, gpu_node, served
from tests.fakes.read_api.long_names import NAMES, LongNames, renamed
from tests.fakes.read_api.trial_server import TrialServer, crowded

GPU = "nvidia.com/gpu"
READ = "/apis/read.muster.dev/"
TEAM, OTHER = NAMES["team-a"], NAMES["team-b"]
NODE = NAMES["node-00001"]

#: Lines by command: what people ask for on a cluster whose names are long. ``{file}``: of one Job.
LINES: Final[dict[str, tuple[str, ...]]] = {
    "jobs": ("jobs -A --since 9d", "jobs -n nowhere -q dev --state running --mine"),
    "pending": ("pending -A", "pending --mine", "pending", "pending -A --limit 1", "pending -q trian"),
    "explain": (
        f"explain {NAMES['tune-3']} -n {NAMES['ml']}",
        f"explain {NAMES['bert']} -n {NAMES['ml']}",
        f"explain {NAMES['old']} -n {NAMES['ml']}",
        f"explain {NAMES['yolo']}-that-there-is-not -n {NAMES['ml']}",
        "explain service/x",
    ),
    "events": ("events -A", "events -n a-namespace-with-a-name-that-is-rather-long"),
    "who": ("who", "who -q dev"),
    "queues": ("queues", "queues --resource cpu", "queues --resource nonsense"),
    "quota show": (
        f"quota show {TEAM}",
        "quota show team-x",
    ),
    "quota history": ("quota history team-a --below", "quota history team-a --since 2026-11-21"),
    "quota set": (
        f"quota set {TEAM} --deserved gpu=8 --capability gpu=8 --max-run-time 72h --yes",
        f"quota set {TEAM} --deserved gpu=12 --reason 'two nodes fewer until the repair' --dry-run server",
        f"quota set {TEAM} --deserved gpu=1000",
        f"quota set {TEAM} --deserved gpus",
    ),
    "quota lend": (
        f"quota lend {TEAM} {OTHER} 4 --until 2d --reason 'paper deadline' --yes",
        f"quota lend {TEAM} {OTHER} --end --yes",
    ),
    "nodes": ("nodes", "nodes --racks", "nodes --faulty", f"nodes {NODE}-1"),
    "usage": ("usage --month last", "usage --from 2026-11-01 --to 2026-11-15 --by queue,user"),
    "reserve": (
        f"reserve {TEAM} --gpus 64 --from 2h --for 4h --dry-run server",
        f"reserve {TEAM} --gpus 64",
        "reserve --cancel research-foundation-models-20261126-1400",
    ),
    "reservations": ("reservations", "reservations --all", f"reservations -q {OTHER}"),
    "drain": (f"drain {NODE} --at 2h --for 2h --name a-long-name-of-a-nodedrain", f"drain {NODE}"),
    "undrain": ("undrain maintenance-of-a-rack-with-a-long-name",),
    "try": (
        "try -f {file} -n ml",
        "try -f {file} -n ml -q nowhere",
        "try --quota team.gpu=8 --quota team.capability.gpu=8",
        "try",
    ),
    "check": ("check {file}", "check /nowhere/job.yaml"),
    "version": ("version", "version --client"),
    "run": ("run a-hello-with-a-long-name -i busybox:1.37 -n ml-foundation-research-prod -- true",),
    "suspend": ("suspend a-training-with-a-long-name a-sweep -n ml",),
    "hold": ("hold job/a-training-with-a-long-name vcjob/a-sweep -n ml", "hold a-sweep -n ml"),
    "unhold": ("unhold vcjob/a-training-with-a-long-name -n ml",),
    "queue hold": (f"queue hold {TEAM} --reason 'the file system moves'",),
    "queue unhold": (f"queue unhold {TEAM}",),
    "resume": ("resume a-training-with-a-long-name -n ml",),
    "cancel": (
        "cancel a-training-with-a-long-name -n ml",
        "cancel nothing -n ml",
        "cancel a-sweep a-training-with-a-long-name -n ml",
    ),
    "queue create": ("queue create a-new-queue-of-a-team --deserved gpu=32 --parent nowhere", "queue create"),
    "queue pause": (f"queue pause {TEAM} --reason 'maintenance of the second row until noon'",),
    "queue resume": (f"queue resume {TEAM}",),
    "queue close": (f"queue close {TEAM}",),
    "queue open": (f"queue open {TEAM}",),
    "queue delete": (f"queue delete {TEAM} --yes",),
}
#: Those that print what others have said, or only where they serve.
NOT_HERE: Final = {"logs", "page"}


class Long(LongNames):
    """Explanations and versions with long names too."""

    async def explain(self, *, name: str, namespace: str, **more: Any) -> Any:
        known = {long: short for short, long in NAMES.items()}
        asked = {"name": known.get(name, name), "namespace": known.get(namespace, namespace)}
        return tuple(renamed(each) for each in await super().explain(**asked, **more))

    async def queue_versions(self, *given: Any, **more: Any) -> Any:
        return renamed(await super().queue_versions(*given, **more))


class Server(TrialServer):
    """An API server that passes questions on to a replica of Muster too."""

    reader = ""

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.method != "GET" or not request.path.startswith(READ):
            return await super()._handle(request)
        async with (
            aiohttp.ClientSession() as session,
            session.get(self.reader + request.path_qs) as answer,
        ):
            content = await answer.read()
            return web.Response(body=content, status=answer.status, content_type="application/json")


Asking = Callable[..., Awaitable[tuple[str, str]]]


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server() as server:
        await server.add("root")
        await server.add(TEAM, parent="root", deserved={GPU: 16}, capability={GPU: 16})
        await server.add(OTHER, parent="root", deserved={GPU: 8}, loans=[])
        await put_closures(server)
        await put_flow(server)
        yield server


async def put_closures(server: Server) -> None:
    nodes = [f"{NODE}-{number}" for number in range(9)]
    spec = {"queue": TEAM, "resources": {GPU: "64"}, "from": "2999-11-20T14:00:00Z", "for": "4h30m"}
    for name, status in (("a", {}), ("b", {"phase": "Active", "nodes": nodes}), ("c", {"phase": "Ended"})):
        document = {"metadata": {"name": f"{TEAM}-2026112{name}-1400"}, "spec": spec, "status": status}
        await server.put(RESERVATIONS.path(), document)
    drained = {"nodeSelector": {"topology.example.com/rack": "row-4-rack-7"}, "at": "2999-11-20T14:00:00Z"}
    status = {"phase": "Planned", "reason": "NoNodes", "message": "no node has these labels"}
    document = {"metadata": {"name": "maintenance-of-rack-7"}, "spec": drained, "status": status}
    await server.put(NODE_DRAINS.path(), document)


async def put_flow(server: Server) -> None:
    names = ("prepare-the-data-of-the-week", "train-on-the-data-of-the-week")
    after = {"dependsOn": {"targets": [names[0]]}}
    waits = {"phase": "Waiting", "message": f"waits for Job weekly-{names[0]} to be completed; it is Pending"}
    document = {
        "metadata": {
            "name": "weekly",
            "namespace": "ml",
            "uid": "w",
            "creationTimestamp": "2026-11-20T10:00:00Z",
        },
        "spec": {"flows": [{"name": names[0]}, {"name": names[1], **after}]},
        "status": {"state": {"phase": "Running"}, "conditions": {f"weekly-{names[1]}": waits}},
    }
    await server.put(JOB_FLOWS.path("ml"), document)
    # A path below a collection is answered with the object of that name.
    server.objects[JOB_FLOWS.path("ml")] = {("", "weekly"): document}
    for name in ("a-training-with-a-long-name", "a-sweep"):
        job = {"metadata": {"name": name, "namespace": "ml", "uid": name}, "spec": {}, "status": {}}
        server.objects[VOLCANO_JOBS.path("ml")]["", name] = job


@pytest.fixture
async def ask(
    server: Server,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Asking]:
    """Asks on a terminal with so many columns; the answer is what is printed to each of both streams."""
    file = tmp_path / "job.yaml"
    # A line of `check` is for programs too, and is not broken: it has nothing to complain about.
    meta = {"labels": {QUEUE_LABEL: "team"}, "annotations": {GROUP_MIN_MEMBER: "3"}}
    file.write_text(yaml.safe_dump(batch_job("a-training-with-a-long-name", 3, meta=meta, gpu=8)))
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path)))
    reader: FakeReader = Long()
    leader = FakeLeader()
    leader.nodes = [gpu_node(f"{NODE}-{number}", "row-4-rack-7") for number in range(9)]
    async with (
        served(reader, leader=FakeLeader(crowded())) as trials,
        served(reader, leader=leader) as url,
    ):
        server.muster, server.reader = trials, url

        async def asked(line: str, columns: int = 80) -> tuple[str, str]:
            words = shlex.split(line.format(file=file))
            monkeypatch.setenv("MUSTER_SERVER", trials if words[0] == "try" else url)
            monkeypatch.setenv("COLUMNS", str(columns))
            monkeypatch.setattr(terminal, "is_terminal", lambda _: True)
            await asyncio.to_thread(finish, kubectl_muster, "kubectl muster", words)
            return capfd.readouterr()

        yield asked


def test_each_command_is_tried() -> None:
    """A new command has a line here, so that what it prints is known to fit."""
    names = {
        each.name.removeprefix("kubectl muster ")
        for each in commands_of(kubectl_muster, "kubectl muster")
        if not isinstance(each.command, click.Group)
    }
    assert set(LINES) | NOT_HERE >= names
    assert all(line.startswith(name) for name, lines in LINES.items() for line in lines)


@pytest.mark.parametrize("line", [line for lines in LINES.values() for line in lines])
async def test_what_a_command_prints_fits_80_columns(ask: Asking, line: str) -> None:
    out, err = await ask(line)
    assert "a fault of Muster" not in err
    assert out or err
    too_long = [each for each in (out + err).splitlines() if len(each) > 80 and " " in each.strip()]
    assert not too_long, "\n".join(too_long)


@pytest.mark.parametrize("names", [FakeReader, LongNames], ids=["short names", "long ones"])
async def test_reasons_are_whole_at_every_width(names: Callable[[], FakeReader]) -> None:
    """They go on below themselves; nothing is cut at the edge. One that never fits is in a group of its own."""
    advice = " ".join(["Wait until other work of the queue ends, or ask for less"] * 3)
    never = ReasonBody(code="NeverFits", message="9 gpu asked in one pod, the largest has 8", advice=advice)
    waiting = await names().pending(queue=None, namespace=None, limit=9)
    first, second, *_ = waiting.items
    full = structs.replace(first.reason, advice=advice)
    items = (
        structs.replace(first, reason=full),
        structs.replace(second, position=None, reason=never),
        second,
    )
    waiting = structs.replace(waiting, items=items)
    listed = await names().workloads(Listing(states=("pending", "admitted")), queue=None, limit=9)
    reason = next(one.reason for one in listed.items if one.reason)
    for width in range(80, 201):
        output = Output(width=width)
        table = pending_table(waiting, output, everywhere=True)
        jobs = jobs_table(listed, output, everywhere=True)
        assert max(map(len, (table + jobs).splitlines())) <= width
        in_line, _, stuck = table.partition("Waiting does not help these:\n")
        assert short_names(sentence_of(full)) in _reasons_in(in_line), width
        assert sentence_of(never) in _reasons_in(stuck), width
        assert f"{reason.code}: {short_names(reason.message)}" in _reasons_in(jobs), width


def _reasons_in(table: str) -> str:
    """The last column if it has a title, else all of it: reasons that go on below themselves, on one line."""
    lines = table.splitlines()
    begins = max(lines[0].find("MESSAGE"), 0)
    return " ".join(" ".join(line[begins:] for line in lines).split())


async def test_a_wide_terminal_is_used(ask: Asking) -> None:
    line = f"explain {NAMES['tune-3']} -n {NAMES['ml']}"
    narrow, wide = [(await ask(line, columns))[0] for columns in (80, 200)]

    assert len(narrow.splitlines()) > len(wide.splitlines())
    assert f"  {NAMES['train']}   nvidia.com/gpu   h100 " in wide
    assert "vcjob/ll…start-3" in narrow
    assert f"vcjob/{NAMES['llama-pretrain']}" in wide


async def test_reservations_keep_how_long_they_last_and_their_nodes(ask: Asking) -> None:
    out, _ = await ask("reservations")

    assert out.splitlines()[0].split() == ["NAME", "FOR", "WHAT", "BEGINS", "LASTS", "PHASE"]
    [nodes] = [index for index, line in enumerate(out.splitlines()) if line.startswith("    nodes ")]
    assert " 4h30m " in out.splitlines()[nodes - 1]
    assert out.rstrip().endswith(f"{NODE}-2, +6")
