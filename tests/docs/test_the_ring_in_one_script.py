"""The script on the page about the ring runs, and prints what the page says."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/explanation/the-ring-in-one-script.md").read_text(encoding="utf-8")


def test_the_script_prints_what_the_page_says() -> None:
    (script,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (printed,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)

    found = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert (found.stderr, found.stdout) == ("", printed)
