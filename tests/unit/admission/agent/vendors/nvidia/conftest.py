"""A node that the fake NVML plays in this process, and the reader of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from admission.agent.vendors.nvidia.nvidia import Nvidia
from tests.fakes.nvml.fake_nvml import FakeNvml


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = FakeNvml(tmp_path / "node")
    monkeypatch.setenv("FAKE_NVML_STATE", str(fake.file))
    return fake


@pytest.fixture
def nvidia(node: FakeNvml) -> Iterator[Nvidia]:
    reader = Nvidia(node.library, node.sysfs)
    yield reader
    reader.close()
    assert node.misuses == 0
