"""``kubectl muster try``: what people see, and how wrong files are told."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from admission.forecast.learned import Learned
from tests.builders.trials.worlds_in_memory import (
    WorldInMemory,
    batch_job,
    pod,
    stored,
    two_racks,
    volcano_job,
)
from tests.fakes.fake_reader import FakeLeader, FakeReader
from tests.fakes.plugin import Asking, Plugin
from tests.tables import with_rows


@pytest.fixture
def world() -> WorldInMemory:
    return two_racks()


@pytest.fixture
async def ask(plugin: Plugin, world: WorldInMemory) -> AsyncIterator[Asking]:
    async with plugin.served(FakeReader(), "try", leader=FakeLeader(world)) as ask:
        yield ask


def written(tmp_path: Path, *documents: Any) -> str:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    return str(file)


async def test_one_that_starts_is_told_where_and_from_which_quota(
    golden: Any, ask: Asking, tmp_path: Path
) -> None:
    code, out, err = await ask("-f", written(tmp_path, batch_job("a", 2, queue="team", gpu=8)), "-n", "ml")

    assert (code, err) == (0, "")
    assert out == golden


async def test_one_that_evicts_others_names_them(ask: Asking, world: WorldInMemory, tmp_path: Path) -> None:
    world.store(stored(batch_job("low", 4, queue="other", gpu=8), "low"))
    world.settle()

    code, out, _ = await ask("-f", written(tmp_path, batch_job("a", 2, queue="team", gpu=8)), "-n", "ml")

    assert code == 0
    assert "job/a (namespace ml, queue team) would start once others have made room" in out
    assert (
        "Evicted for it: 1:\n  WORKLOAD   NAMESPACE   QUEUE   CODE\n  job/low    ml          other   Reclaimed"
        in out
    )


async def test_one_that_waits_is_told_why_and_what_would_let_it_in(ask: Asking, tmp_path: Path) -> None:
    code, out, _ = await ask("-f", written(tmp_path, batch_job("a", 4, queue="team", gpu=8)), "-n", "ml")

    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "job/a (namespace ml, queue team) would wait", "what never fits is not in line"
    assert "Expected start" not in out
    never = "  NeverFits: 32 nvidia.com/gpu asked, queue team may use 24. "
    alone = 'let them start one by one (annotation scheduling.volcano.sh/group-min-member: "1"): up to 3 of 4'
    assert f"{never}If each pod can work alone, {alone} at a time" in lines
    assert "  - 3 pods instead of 4" in lines
    assert "  - 8 nvidia.com/gpu more capability in team" in lines


async def test_several_documents_of_several_files_and_of_standard_input(
    ask: Asking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    file = written(tmp_path, batch_job("a", 1, queue="team", gpu=1), config)
    listed = tmp_path / "list.json"
    items = [volcano_job("b", 1, queue="team", gpu=1), batch_job("c", 1, gpu=1)]
    listed.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))

    code, out, _ = await ask("-f", file, "-f", str(listed), "-n", "ml", "-o", "json")
    body = json.loads(out)
    assert code == 0
    assert [(each["name"], each["state"]) for each in body["items"]] == [
        ("a", "admitted"),
        ("b", "admitted"),
        ("c", "unmanaged"),
    ]
    _, out, _ = await ask("-f", file, "-f", str(listed), "-n", "ml")
    assert "job/c (namespace ml) would not wait: it names no queue" in out
    assert "Not tried, for objects of these kinds wait in no queue: v1 ConfigMap" in out


async def test_what_would_be_refused_is_told_with_its_exit_code(ask: Asking, tmp_path: Path) -> None:
    code, out, _ = await ask("-f", written(tmp_path, pod("a", group="ring", gpu=1)), "-n", "ml")

    assert code == 1
    assert out.splitlines()[0] == "pod/a (namespace ml) would be refused"
    assert "PodGroup ring is not among the documents" in out


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("kind: [", "line 2: did not find expected node content"),
        ("just text", "expected an object of Kubernetes"),
        ("", "there is no document"),
        ("\tkind: Job", "a tab in the indentation, expected spaces"),
        ("a: 1\n---\n" * 65, "65 documents, expected at most 64 at a time"),
        (f"a: '{'x' * 300_000}'", "KiB of documents, expected at most 256 KiB"),
        ("metadata: {namespace: vision}", "an object in namespace vision, but -n names ml"),
        (
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}",
            "found apps/v1 Deployment, expected one of",
        ),
    ],
)
async def test_a_wrong_file_is_told_in_one_line(ask: Asking, tmp_path: Path, content: str, told: str) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(content)

    code, out, err = await ask("-f", str(file), "-n", "ml")

    assert code != 0
    assert out == ""
    assert told in " ".join(err.split()) + "\n"
    assert "Traceback" not in err


async def test_a_missing_file_and_an_unknown_queue_are_told(ask: Asking, tmp_path: Path) -> None:
    code, _, err = await ask("-f", str(tmp_path / "nowhere.yaml"))
    assert (code, "No such file" in err) == (1, True)
    file = written(tmp_path, batch_job("a", 1, gpu=1))
    code, _, err = await ask("-f", file, "-n", "ml", "-q", "nowhere")
    assert (code, err) == (1, "Error: There is no queue nowhere.\n")
    code, _, err = await ask("-f", file, "-n", "ml", "-q", "taem")
    assert (code, err) == (1, "Error: There is no queue taem.\nDid you mean team?\n")


async def test_a_queue_that_a_file_names_and_that_there_is_not_is_an_error(
    ask: Asking, tmp_path: Path
) -> None:
    for make, queue, meant in (
        (batch_job, "taem", ". Did you mean team?"),
        (volcano_job, "taem", ". Did you mean team?"),
        (batch_job, "nowhere", ". Name a queue that exists"),
    ):
        file = written(tmp_path, make("a", 1, queue=queue, gpu=1))
        code, out, _ = await ask("-f", file, "-n", "ml")
        assert code == 1
        told = f"queue {queue} does not exist{meant}"
        assert f"  UnknownQueue: {told}" in out.splitlines()


@with_rows("limit", "complaint")
async def test_quota_that_could_not_be_set_is_refused(ask: Asking, limit: str, complaint: str) -> None:
    code, out, err = await ask("--quota", limit)
    assert (code, out) == (1, "")
    assert err.startswith(complaint)


async def test_a_resource_that_no_node_has_is_worth_a_warning(ask: Asking) -> None:
    code, _, err = await ask("--quota", "team.amd.com/gpu=8")
    assert (code, err) == (0, "Warning: no usable node has amd.com/gpu now.\n")


async def test_other_quota_is_told_by_workload(golden: Any, ask: Asking, world: WorldInMemory) -> None:
    for name, pods in (("a", 3), ("b", 1)):
        world.store(stored(batch_job(name, pods, queue="team", gpu=8), name))
        world.settle()

    code, out, err = await ask("--quota", "team.gpu=32", "--quota", "team.capability.gpu=32")

    assert (code, err) == (0, "")
    assert out == golden


async def test_objects_are_tried_with_a_change(ask: Asking, tmp_path: Path) -> None:
    file = written(tmp_path, batch_job("a", 4, queue="team", gpu=8))
    _, out, _ = await ask("-f", file, "-n", "ml", "--quota", "team.capability.gpu=32", "-o", "yaml")
    body = yaml.safe_load(out)
    assert body["items"][0]["state"] == "admitted"
    assert body["comparison"]["counts"] == {}


@with_rows("words", "told")
async def test_wrong_changes_are_told_in_one_line(ask: Asking, words: list[str], told: str) -> None:
    code, out, err = await ask(*words)
    assert (code, out) == (2, "")
    assert told in err
    assert "Traceback" not in err


@pytest.fixture
async def foretold(plugin: Plugin, world: WorldInMemory) -> AsyncIterator[Asking]:
    """Of a cluster that is full: its Job declares to run for an hour, and another one waits for it."""
    for name, hours in (("long", "1h"), ("next", "30m")):
        document = batch_job(
            name, 4, queue="other", gpu=8, meta={"annotations": {"muster.dev/run-time": hours}}
        )
        document["metadata"]["labels"] = {"muster.dev/queue-name": "other"}
        world.store(stored(document, name))
        world.settle()
    leader = FakeLeader(world)
    leader.learned = Learned(world.snapshot)
    async with plugin.served(FakeReader(), "try", leader=leader) as ask:
        yield ask


async def test_when_one_that_waits_should_start_is_told(foretold: Asking, tmp_path: Path) -> None:
    file = written(tmp_path, batch_job("a", 4, queue="other", gpu=8))

    _, out, _ = await foretold("-f", file, "-n", "ml")
    assert re.search(r"^  Expected start not known yet: 0 runs have ended so far; .*assum.*$", out, re.M)

    _, out, _ = await foretold("-f", file, "-n", "ml", "-o", "json")
    (item,) = json.loads(out)["items"]
    assert item["expected"]["basis"] == "prior"
    assert item["expected"]["notYet"]
