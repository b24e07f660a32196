"""Clusters that are too old for Muster: refused before anything is written."""

import json
from typing import Any, cast

import pytest

from admission.kube.client.client import Client
from admission.kube.install.install import Installation, ServerTooOld, install
from tests.tables import with_rows


class OldServer:
    """An API server that tells its version, and that is asked for nothing else."""

    def __init__(self, **version: str) -> None:
        self._version = version

    async def get(self, path: str) -> bytes:
        assert path == "/version", "the version comes first"
        return json.dumps(self._version).encode()

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} of a server that is too old")


@with_rows("version", "told")
async def test_an_older_cluster_is_refused_with_its_version_and_the_reason(
    version: dict[str, str], told: str
) -> None:
    lines: list[str] = []
    with pytest.raises(ServerTooOld) as refused:
        await install(cast(Client, OldServer(**version)), Installation(), lines.append)
    assert str(refused.value).startswith(
        f"The API server is {told}; expected Kubernetes 1.36 or newer, where MutatingAdmissionPolicy is stable"
    )
    assert lines == []
