"""The example plug-ins: small packages whose own tests pass, and that keep what the interface asks."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from admission.containment.made_up_clusters import made_up_clusters
from admission.containment.plugin_check import check_plugin
from queues.plugins.registry import known_policies
from tests.builders.plugin_policies import installed
from tests.waiting import LIMIT

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted(path.parent for path in (ROOT / "deploy/examples/plugins").glob("*/pyproject.toml"))
#: Lines of a package with its tests.
MOST_LINES = 150


def test_both_are_there() -> None:
    assert [path.name for path in EXAMPLES] == ["accelerator-scores", "deadline-order"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_short_and_passes_its_own_tests(example: Path) -> None:
    assert sum(len(path.read_text().splitlines()) for path in example.glob("*.py")) <= MOST_LINES
    found = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            str(example),
            str(example),
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(example), str(ROOT)))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_installed_by_its_entry_point_and_keeps_the_interface(
    example: Path, tmp_path: Path
) -> None:
    project = tomllib.loads((example / "pyproject.toml").read_text())["project"]
    ((name, value),) = project["entry-points"]["muster.plugins"].items()
    module = value.partition(":")[0]
    text = {f"{module}.py": (example / f"{module}.py").read_text()}
    with installed(tmp_path, module, text, **{name: value}):
        plugin = known_policies()[name]
        assert plugin.problem == ""
        found = check_plugin(plugin, "", made_up_clusters(3), LIMIT)
    assert found.problem == ""
    assert found.with_it.admitted > 0
    assert found.with_it.decisions > 6
