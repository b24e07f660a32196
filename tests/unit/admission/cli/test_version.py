"""``kubectl muster version``."""

from importlib.metadata import version

from tests.fakes.fake_reader import FakeReader
from tests.fakes.plugin import Plugin


async def test_versions_are_told_as_far_as_they_are_known(plugin: Plugin) -> None:
    here = version("muster")
    assert await plugin.asking("version")("--client") == (0, f"Client      {here}\n", "")
    async with plugin.served(FakeReader(), "version") as ask:
        code, out, err = await ask()
    assert (code, out) == (1, f"Client      {here}\nServer      {here}\nKubernetes  unknown\n")
    assert "The version of Kubernetes is not known: " in err
