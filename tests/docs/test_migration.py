"""The commands of the pages about migration, as far as they need no cluster, print what the pages say."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.console_sessions import exchanges

HOW_TO = Path(__file__).parents[2] / "docs/how-to"
_FILE = re.compile(r"^```yaml\n# file: (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["migrate-from-kueue.md", "migrate-from-volcano.md"])
def test_commands_print_what_the_page_says(page: str, tmp_path: Path) -> None:
    for name, text in _FILE.findall((HOW_TO / page).read_text(encoding="utf-8")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    commands = list(exchanges(HOW_TO / page))
    assert commands
    path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for exchange in commands:
        done = subprocess.run(
            exchange.command, shell=True, cwd=tmp_path, env={**os.environ, **path}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
        assert exchange.matches(done.stdout), f"$ {exchange.command}\n{done.stdout}"
