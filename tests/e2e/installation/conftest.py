"""The image's root file system, built once for all tests that look at it or run it."""

import subprocess
from pathlib import Path

import pytest

from deploy.image import root
from deploy.image.__main__ import cache_folder


@pytest.fixture(scope="session")
def image_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root file system of this machine's architecture."""
    architecture = subprocess.run(
        ["dpkg", "--print-architecture"], capture_output=True, text=True, check=True
    ).stdout.strip()
    folder = tmp_path_factory.mktemp("image") / "root"
    root.build(folder, cache_folder(), architecture, "0123abcd")
    return folder
