"""``kubectl muster queues --contexts``: each cluster is asked by itself, and what all use is summed."""

import json
from collections.abc import AsyncIterator

import pytest
import yaml

from admission.cli.objects import queues_over_clusters
from deploy.local.processes import free_port
from tests.fakes.fake_reader import FakeReader, served
from tests.fakes.plugin import Asking, Plugin


@pytest.fixture
async def said(plugin: Plugin) -> AsyncIterator[Asking]:
    """The plugin with a kubeconfig of three clusters, of which the last one is down."""
    async with served(FakeReader()) as east, served(FakeReader()) as west:
        servers = {"east": east, "west": west, "down": f"http://127.0.0.1:{free_port()}"}
        kubeconfig = {
            "clusters": [{"name": name, "cluster": {"server": url}} for name, url in servers.items()],
            "users": [{"name": "me", "user": {"token": "secret"}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": "me"}} for name in servers],
        }
        (plugin.folder / "config").write_text(yaml.safe_dump(kubeconfig))
        plugin.monkeypatch.setenv("KUBECONFIG", str(plugin.folder / "config"))
        yield plugin.asking("queues")


async def test_a_queue_has_a_line_for_each_cluster_and_the_sum(said: Asking) -> None:
    code, out, err = await said("--contexts", "east,west", "train", "--resource", "gpu")
    assert (code, err) == (0, "")
    one = json.loads((await said("--contexts", "east", "train", "-o", "json"))[1])["items"][0]
    of_gpus = next(each for each in one["accounts"] if each["resource"] == "nvidia.com/gpu")
    head, east, west, both, *_ = (line.split() for line in out.splitlines())
    assert head[:4] == ["QUEUE", "CLUSTER", "STATE", "USED(gpu)"]
    assert (east[:2], west[:2], both[:2]) == (["train", "east"], ["train", "west"], ["train", "all"])
    assert east[2:] == west[2:]
    assert int(of_gpus["used"]) > 0
    assert (east[3], both[3]) == (of_gpus["used"], str(2 * int(of_gpus["used"])))
    assert int(both[-1]) == 2 * one["admitted"]
    assert max(map(len, out.splitlines())) <= 80


async def test_a_cluster_that_does_not_answer_is_one_line_and_the_others_are_shown(said: Asking) -> None:
    code, out, err = await said("--contexts", "down,east")
    assert code == 1
    [line] = err.splitlines()
    assert line.startswith("Error: down: Asking Muster at http://127.0.0.1:")
    assert "connection refused" in line
    assert "east" in out
    code, out, err = await said("--contexts", "east,nowhere", "-o", "json")
    assert code == 1
    assert [each["cluster"] for each in json.loads(out)["unanswered"]] == ["nowhere"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--contexts", "east,"), "expected names of contexts, each once"),
        (("--contexts", "east,east"), "expected names of contexts, each once"),
        (("--contexts", ",".join(map(str, range(33)))), "found 33 names, expected at most 32"),
        (("--contexts", "east", "--context", "west"), "excludes --context"),
        (("--contexts", "east", "--sort-by", ".name"), "exclude each other"),
    ],
)
async def test_what_cannot_be_asked_is_told_before_any_cluster_is_asked(
    said: Asking, words: tuple[str, ...], told: str
) -> None:
    code, out, err = await said(*words)
    assert (code, out) == (2, "")
    assert told in err


async def test_an_old_answer_is_told_with_its_cluster(said: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues_over_clusters, "age_of", lambda _: ("The data is 3m old.", 3))
    code, out, err = await said("--contexts", "east,west")
    assert (code, err) == (3, "east: The data is 3m old.\nwest: The data is 3m old.\n")
    assert out


async def test_a_queue_that_no_cluster_has_is_told(said: Asking) -> None:
    code, out, err = await said("--contexts", "east,west", "trian")
    assert (code, out) == (1, "")
    assert err.startswith("Error: There is no queue trian.")
