"""The helm that renders the chart."""

from pathlib import Path

import pytest

from deploy.local.helm import helm


@pytest.fixture(scope="session")
def helm_program() -> Path:
    """The program; built if there is none."""
    return helm()
