"""``kubectl muster version``."""

import asyncio
from importlib.metadata import version

import pytest

from admission.cli.failures import finish
from admission.cli.kubectl_muster import kubectl_muster
from tests.fakes.fake_reader import FakeReader, served


async def test_versions_are_told_as_far_as_they_are_known(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere/config")

    async def said(*words: str) -> tuple[int, str, str]:
        code = await asyncio.to_thread(finish, kubectl_muster, "kubectl muster", ("version", *words))
        out, err = capfd.readouterr()
        return code, out, err

    here = version("muster")
    assert await said("--client") == (0, f"Client      {here}\n", "")
    async with served(FakeReader()) as url:
        code, out, err = await said("--server", url)
    assert (code, out) == (1, f"Client      {here}\nServer      {here}\nKubernetes  unknown\n")
    assert "The version of Kubernetes is not known: " in err
