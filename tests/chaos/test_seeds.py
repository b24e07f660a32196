"""A dozen seeds of the chaos runs; ``make chaos`` plays hundreds."""

import subprocess
import sys
from pathlib import Path


def test_a_dozen_runs_under_random_faults_break_no_law(tmp_path: Path) -> None:
    # A process of its own: replicas are forked from one that has neither a loop nor threads.
    command = [
        sys.executable,
        "-m",
        "tests.chaos",
        "--seeds",
        "12",
        "--lanes",
        "2",
        "--folder",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-4000:]}"
