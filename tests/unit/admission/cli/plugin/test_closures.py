"""``kubectl muster reserve``, ``reservations``, ``drain`` and ``undrain``: what is sent, and what is told."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import msgspec
import pytest

from admission.cli.access import objects as access_objects
from admission.cli.access import queue_objects
from admission.cli.access.objects import ObjectForbidden, ObjectNotFound, Refused
from admission.cli.command_line import CommandFailed
from admission.cli.plugin import reserve as draining
from admission.cli.plugin import reserve as objects
from admission.cli.plugin.reservations import (
    reservations,
)
from admission.cli.plugin.reserve import drain, reserve, undrain
from tests.tables import with_rows

GPU = "nvidia.com/gpu"

#: Of times to come.
YEAR = time.gmtime().tm_year + 2


class Server:
    """Answers by method and last part of the path; keeps what was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **answers: Any) -> None:
        self.sent: list[tuple[str, str, Any, dict[str, str]]] = []
        self._answers = answers
        for module in (objects, queue_objects):
            monkeypatch.setattr(module, "send", self.send)
        monkeypatch.setattr(access_objects, "read", self.read)
        monkeypatch.setattr(draining, "read", self.read)

    def send(self, route: Any, method: str, path: str, body: Any = None, *, tried: str, **query: str) -> Any:
        self.sent.append((method, path, body, query))
        answer = self._answers.get(path.rpartition("/")[2].replace("-", "_"), {})
        if isinstance(answer, int):
            refusal = {403: ObjectForbidden, 404: ObjectNotFound}.get(answer, Refused)
            raise refusal(status=answer, tried=tried, found=f"HTTP {answer}", hint="")
        return answer

    def read(self, route: Any, path: str, form: Any, *, tried: str, **query: str) -> Any:
        return msgspec.json.decode(
            msgspec.json.encode(self.send(route, "GET", path, tried=tried, **query)), type=form
        )


def run(command: click.Command, *arguments: str) -> None:
    command.main(list(arguments), standalone_mode=False)


def in_hours(hours: float) -> str:
    return f"{datetime.fromtimestamp(time.time(), UTC) + timedelta(hours=hours):%Y-%m-%dT%H:%M:%SZ}"


def reservation(name: str, hours: float, **status: Any) -> dict[str, Any]:
    spec = {"queue": "team", "resources": {GPU: "64"}, "from": in_hours(hours), "for": "4h"}
    return {"metadata": {"name": name}, "spec": spec, "status": status}


NODES = [f"n{number}" for number in range(8)]


def rack_drain() -> dict[str, Any]:
    return {
        "metadata": {"name": "rack"},
        "spec": {"nodeSelector": {"rack": "r7"}, "at": in_hours(30.5)},
        "status": {"phase": "Planned", "nodes": ["n9"]},
    }


def test_what_is_reserved_is_told_in_a_table_that_fits(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planned = reservation("night", 2.01, phase="Planned")
    active = reservation("day", -1.01, phase="Active", nodes=NODES)
    ended = reservation("before", -9, phase="Ended")
    Server(
        monkeypatch, reservations={"items": [planned, active, ended]}, nodedrains={"items": [rack_drain()]}
    )
    run(reservations)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", "day", "night", "rack"]
    assert lines[1].split() == ["day", "team", "64", "gpu", "60m", "ago", "4h", "Active", "n0,n1,n2,+5"]
    assert lines[2].split() == ["night", "team", "64", "gpu", "in", "120m", "4h", "Planned", "-"]
    assert lines[3].split() == ["rack", "maintenance", "rack=r7", "in", "30h", "-", "Planned", "n9"]
    assert max(map(len, lines)) <= 80


def test_who_may_not_list_is_told_what_to_ask_for(monkeypatch: pytest.MonkeyPatch) -> None:
    Server(monkeypatch, reservations=403)
    with pytest.raises(CommandFailed, match=r"You may not list reservations\.\nAsk for the role"):
        run(reservations)


def test_a_reservation_is_sent_as_it_was_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = Server(monkeypatch)
    run(
        reserve,
        *("team", "--gpus", "64", "--from", f"{YEAR}-11-27T14:00", "--for", "4h", "--flavor", "h100"),
        "--dry-run=server",
    )
    looked, (method, path, body, query) = server.sent
    assert looked[:2] == ("GET", "/apis/scheduling.volcano.sh/v1beta1/queues/team")
    assert (method, path) == ("POST", "/apis/muster.dev/v1alpha1/reservations")
    assert query["dryRun"] == "All"
    assert body["metadata"] == {"name": f"team-{YEAR}1127-1400"}
    assert body["spec"] == {
        "queue": "team",
        "resources": {GPU: "64"},
        "from": f"{YEAR}-11-27T14:00:00Z",
        "for": "14400s",
        "flavor": "h100",
    }
    assert capsys.readouterr().out == (
        f"reservation team-{YEAR}1127-1400 would be created: 64 {GPU} for queue team "
        f"from {YEAR}-11-27T14:00:00Z for 4h\n"
    )


@with_rows("status", "line")
def test_what_the_server_refuses_is_told(status: int, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Server(monkeypatch, reservations=status)
    with pytest.raises(CommandFailed, match=line):
        run(reserve, "team", "--gpus", "8", "--from", "1h", "--for", "1h", "--name", "night")


def test_a_rack_is_drained_by_its_label(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    levels = [
        {"nodeLabel": "block"},
        {"nodeLabel": "example.com/rack"},
        {"nodeLabel": "kubernetes.io/hostname"},
    ]
    topologies = {"items": [{"metadata": {"name": "net"}, "spec": {"levels": levels}}]}
    server = Server(monkeypatch, topologies=topologies, nodes={"items": [{}, {}]})
    run(drain, "--rack", "r7", "--at", f"{YEAR}-11-28T06:00")
    assert server.sent[1][3] == {"labelSelector": "example.com/rack=r7"}
    assert server.sent[2][2]["spec"] == {
        "at": f"{YEAR}-11-28T06:00:00Z",
        "nodeSelector": {"example.com/rack": "r7"},
    }
    assert capsys.readouterr().out == (
        f"nodedrain r7-{YEAR}1128-0600 created: 2 nodes out of service from {YEAR}-11-28T06:00:00Z\n"
    )


def test_nothing_is_drained_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    Server(monkeypatch, nodes={"items": []}, n1=404)
    with pytest.raises(CommandFailed, match="No node has the label rack=r9"):
        run(drain, "-l", "rack=r9", "--at", "1h")
    with pytest.raises(CommandFailed, match="There is no node n1"):
        run(drain, "n1", "--at", "1h")


def test_a_drain_is_ended_by_its_name_or_its_only_node(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = {"metadata": {"name": "fix"}, "spec": {"nodes": ["n1"]}}
    two = {"metadata": {"name": "both"}, "spec": {"nodes": ["n2", "n3"]}}
    Server(monkeypatch, nodedrains={"items": [one, two]}, n1=404, n2=404, n4=404)
    run(undrain, "fix", "n1")
    assert capsys.readouterr().out == "nodedrain fix deleted\nnodedrain fix deleted\n"
    with pytest.raises(CommandFailed, match="Node n2 is drained together with others by both"):
        run(undrain, "n2")
    with pytest.raises(CommandFailed, match="There is no nodedrain n4, and none of a node n4"):
        run(undrain, "n4")
