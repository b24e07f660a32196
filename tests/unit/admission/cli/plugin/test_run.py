"""``kubectl muster run``: the document that the options make, and what contradicts itself."""

from typing import Any

import pytest
import yaml

from queues.api.api_resources import JOBS, PRIORITY_CLASSES
from queues.api.validation.validation import violations_of
from tests.fakes.fake_api_server import FakeApiServer
from tests.fakes.plugin import Asking, Plugin
from tests.tables import with_rows

HELLO = "run hello -i busybox:1.37"


@pytest.fixture
def ask(plugin: Plugin, api_server: FakeApiServer) -> Asking:
    plugin.monkeypatch.setenv("COLUMNS", "400")
    return plugin.at(api_server)


@with_rows("options")
async def test_a_dry_run_prints_the_document_that_would_be_made(
    golden: Any, ask: Asking, api_server: FakeApiServer, options: str
) -> None:
    code, out, err = await ask(f"{HELLO} --dry-run -o yaml {options}")
    document = yaml.safe_load(out)

    assert (code, err, api_server.requests) == (0, "", [])
    assert violations_of(document) == []
    assert document == golden


@with_rows("options", "said")
async def test_options_that_contradict_one_another_are_refused(
    ask: Asking, api_server: FakeApiServer, options: str, said: str
) -> None:
    code, out, err = await ask(f"{HELLO} {options}")
    assert (code, out, api_server.requests) == (2, "", [])
    assert said in err


async def test_the_api_server_can_be_asked_for_its_verdict(ask: Asking, api_server: FakeApiServer) -> None:
    code, out, _ = await ask(f"{HELLO} -n ml --array 4 --dry-run server -o json")
    assert (code, out) == (0, '{\n  "kind": "Status",\n  "status": "Success"\n}\n')
    (seen,) = api_server.requests
    assert (seen.verb, seen.path, seen.query) == ("POST", JOBS.path("ml"), {"dryRun": "All"})


async def test_a_gang_that_never_fits_is_offered_as_an_array(ask: Asking, plugin: Plugin) -> None:
    said = ("spec.tasks[0].replicas: found 200 cpu asked, expected less: it never fits",)
    plugin.monkeypatch.setattr(
        "admission.cli.plugin.run.send_with_warnings", lambda *_, **__: ({"kind": "Job"}, said)
    )
    offer = "--array 200 --at-a-time M in place of --replicas"
    for options, is_offered in (("-r 200", True), ("-r 1", False), ("--array 200", False)):
        _, _, err = await ask(f"{HELLO} -n ml {options}")
        assert (offer in err) is is_offered, options


async def test_a_name_alone_is_looked_for_among_all_kinds(ask: Asking, api_server: FakeApiServer) -> None:
    await api_server.put("", {"metadata": {"name": "apis"}, "groups": []})
    await api_server.put(JOBS.path("ml"), {"metadata": {"name": "prepare", "uid": "u"}})
    code, _, err = await ask(f"{HELLO} -n ml --after prepare:any")
    assert code == 0, err
    (made,) = api_server.seen("POST")
    assert made.body["metadata"]["annotations"] == {"muster.dev/after": "job/prepare:any"}
    code, _, err = await ask(f"{HELLO} -n ml --after nothing")
    assert code != 0
    assert "There is no workload nothing in namespace ml" in err


async def test_an_array_is_made_in_its_namespace(ask: Asking, api_server: FakeApiServer) -> None:
    code, out, _ = await ask(f"{HELLO} -n ml --array 4")
    assert (code, out) == (0, "job/hello created; `kubectl muster explain hello -n ml` tells how it is\n")
    assert [each.query for each in api_server.seen("POST")] == [{}]


async def test_a_shell_offers_priority_classes(plugin: Plugin, api_server: FakeApiServer) -> None:
    import asyncio

    from admission.cli.completion import candidates

    for name, value in (("urgent", 1000), ("usual", 10), ("late", -5)):
        await api_server.put(PRIORITY_CLASSES.path(), {"metadata": {"name": name}, "value": value})
    plugin.at(api_server)

    found = await asyncio.to_thread(candidates, ("run", "hello", "--priority", "u"))
    assert found == [("urgent", "priority 1000"), ("usual", "priority 10")]
