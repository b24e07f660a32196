"""``kubectl muster version``."""

from importlib.metadata import version

from admission.cli.plugin.version import lines_of
from queues.read_api.bodies import ReplicaBody
from tests.fakes.fake_reader import FakeReader
from tests.fakes.plugin import Plugin


async def test_versions_are_told_as_far_as_they_are_known(plugin: Plugin) -> None:
    here = version("muster")
    assert await plugin.asking("version")("--client") == (0, f"Client      {here}\n", "")
    async with plugin.served(FakeReader(), "version") as ask:
        code, out, err = await ask()
    assert (code, out) == (1, f"Client      {here}\nServer      {here}\nKubernetes  unknown\n")
    assert "The version of Kubernetes is not known: " in err


def replica(name: str, *plugins: str, version: str | None = "1") -> ReplicaBody:
    return ReplicaBody(name=name, version=version, plugins=plugins)


def test_each_plug_in_is_told_with_the_replicas_that_have_it_unless_all_do() -> None:
    replicas = [replica("a", "deadline 1", "scores 1"), replica("b", "deadline 1"), replica("c", version="2")]
    assert list(lines_of(replicas[:2], "1")) == [
        ("Plug-in", "deadline 1"),
        ("Plug-in", "scores 1, on a only"),
    ]
    assert list(lines_of([*replicas, replica("d", version=None)], "1")) == [
        ("Replica", "c: 2"),
        ("Replica", "d: no answer"),
        ("Plug-in", "deadline 1, on a and b only"),
        ("Plug-in", "scores 1, on a only"),
    ]
