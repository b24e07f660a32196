"""The page for people who come from Slurm: each line of its tables does what it says."""

import re
import shlex
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from aiohttp import web

from queues.api.api_resources import PODS, QUEUES, VOLCANO_JOBS
from tests.fakes.fake_api_server import FakeApiServer
from tests.fakes.fake_reader import FakeReader
from tests.fakes.plugin import Asking, Plugin
from tests.fakes.read_api.fake_lists import NOW

PAGE = Path(__file__).parents[2] / "docs/how-to/from-slurm.md"
TABLES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


class Cluster(FakeApiServer):
    """Says of what is made that it runs."""

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        answer = await super()._handle(request)
        if request.method != "POST":
            return answer
        made = self.requests[-1].body
        made = {
            **made,
            "metadata": {"name": "made", **made["metadata"], "uid": "u"},
            "status": {"phase": "Running"},
        }
        self.objects[request.path]["", made["metadata"]["name"]] = made
        return web.json_response(made)


@pytest.fixture
async def server() -> AsyncIterator[Cluster]:
    server = Cluster()
    train = {"metadata": {"name": "train", "uid": "u", "namespace": "default"}, "spec": {"tasks": []}}
    server.objects[VOLCANO_JOBS.path("default")]["", "train"] = train
    server.objects[PODS.path("default")]["", "train-0"] = {"metadata": {"name": "train-0"}}
    server.objects[QUEUES.path()]["", "team-a"] = {"metadata": {"name": "team-a", "uid": "u"}, "spec": {}}
    server.objects[""]["", "apis"] = {"groups": []}
    async with server:
        yield server


@pytest.fixture
async def ask(
    server: Cluster, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[Asking]:
    (tmp_path / "kubectl").write_text("#!/bin/sh\n")
    (tmp_path / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    now = datetime.fromisoformat(NOW).timestamp()
    monkeypatch.setattr("admission.cli.plugin.usage.time", SimpleNamespace(time=lambda: now))
    async with Plugin(capfd, monkeypatch, tmp_path).served(FakeReader(), server=server) as ask:
        yield ask


def test_the_page_has_the_lines_that_are_tried() -> None:
    lines = re.findall(r"^\| (`.*`) \| `(.*)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    tried = [(slurm, here) for table in TABLES.values() for slurm, here, _ in table]
    assert [(slurm, here) for slurm, here in lines if slurm != "`#SBATCH`"] == tried


@pytest.mark.parametrize(("line", "changes"), [row[1:] for row in TABLES["commands"]], ids=str)
async def test_a_command_does_what_slurms_does(
    ask: Asking, server: Cluster, line: str, changes: list[str]
) -> None:
    words = shlex.split(line)
    assert words[:2] == ["kubectl", "muster"]
    hold = "true" if words[2] == "unhold" else "false"
    train = server.objects[VOLCANO_JOBS.path("default")]["", "train"]
    train["metadata"]["annotations"] = {"muster.dev/hold": hold}
    code, _, err = await ask(*words[2:])
    assert code == 0, err
    made = [
        " ".join((each.verb, each.path.rpartition("/")[2], *(["dryRun"] if "dryRun" in each.query else ())))
        for each in server.requests
        if each.verb in ("POST", "PATCH", "DELETE")
    ]
    assert made == changes


@pytest.mark.parametrize(("options", "made"), [row[1:] for row in TABLES["directives"]], ids=str)
async def test_a_directive_is_an_option(ask: Asking, options: str, made: dict[str, Any]) -> None:
    name = () if options == "train" else ("hello",)
    code, out, err = await ask("run", *name, "-i", "train:1", *options.split(), "--dry-run", "-o", "yaml")
    assert code == 0, err
    document = yaml.safe_load(out)
    for path, value in made.items():
        found = document
        if path == "limits":
            found = document["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["resources"]["limits"]
        for key in path.split(".") if path != "limits" else ():
            found = found[key]
        assert found == value, path
