"""Lists and live views in a real terminal, tmux, at two sizes: they fit, and redraw without left-overs."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec import structs

from tests.fakes.fake_reader import TEAM_B, FakeReader, served
from tests.fakes.read_api.long_names import LongNames
from tests.waiting import eventually

pytestmark = pytest.mark.skipif(
    shutil.which("tmux") is None, reason="tmux, a package of every distribution, is not installed"
)

SIZES = [(80, 24), (200, 50)]


class Terminal:
    """A tmux server of its own with one pane."""

    def __init__(self, folder: Path) -> None:
        self._socket = folder / "tmux"

    def run(self, words: str, columns: int, lines: int, url: str) -> None:
        """Start the plugin; the pane stays when it has ended."""
        environment = {
            "PYTHONPATH": os.pathsep.join(sys.path),
            "KUBECONFIG": "/nowhere/config",
            "MUSTER_SERVER": url,
            "LC_ALL": "C.UTF-8",
        }
        given = [part for name, value in environment.items() for part in ("-e", f"{name}={value}")]
        unset = "env -u NO_COLOR -u COLUMNS -u LINES"
        plugin = f"{unset} {sys.executable} -m admission.cli.kubectl_muster {words}; sleep 600"
        size = ("-x", str(columns), "-y", str(lines))
        self.tmux("-f", "/dev/null", "new-session", "-d", *size, *given, plugin)

    def tmux(self, *words: str) -> str:
        """What tmux answers."""
        line = ["tmux", "-u", "-S", str(self._socket), *words]
        return subprocess.run(line, capture_output=True, text=True, encoding="utf-8", check=False).stdout

    def screen(self, *more: str) -> list[str]:
        """The lines that are shown; with -e their colours too."""
        return self.tmux("capture-pane", "-p", *more).rstrip("\n").split("\n")

    async def shows(self, holds: Callable[[list[str]], bool], what: str) -> list[str]:
        """The screen as soon as it is so."""
        screen: list[str] = []

        def so() -> bool:
            screen[:] = self.screen()
            return holds(screen)

        await eventually(so, what)
        return screen


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path)
    yield terminal
    terminal.tmux("kill-server")


@pytest.mark.parametrize(("columns", "lines"), SIZES)
@pytest.mark.parametrize(
    ("words", "has"),
    [
        ("jobs -A --since 9d", ("QueueLimit: ", "failed", "-00001", "NODES")),
        ("pending -A", ("NoFit", "32 gpu", "start-3")),
        ("queues", ("1.33", "closed", "DESERVED")),
        ("queues --resource cpu", ("96", "128", "WAITING")),
        ("events -A", ("Preempted", "admit", "4 seats", "TIME")),
        ("who", ("GPU", "runner", "RUNNING")),
        ("quota show research-foundation-models", ("USED", "gpu", "72h")),
        ("quota history team-a", ("lent to team-b for the demo", "deserved[", "AFTER")),
    ],
)
async def test_with_long_names_the_reason_the_state_and_the_place_are_still_there(
    terminal: Terminal, words: str, has: tuple[str, ...], columns: int, lines: int
) -> None:
    async with served(LongNames()) as url:
        terminal.run(words, columns, lines, url)
        screen = await terminal.shows(lambda shown: all(each in "\n".join(shown) for each in has), str(has))
    assert max(map(len, screen)) <= columns
    # Reasons of events, and messages, may be cut at the end of their second line.
    assert not [line for line in screen if line.endswith("…") and not line.startswith("    ")]


@pytest.mark.parametrize(("columns", "lines"), SIZES)
async def test_a_view_is_redrawn_without_left_overs(
    terminal: Terminal, tmp_path: Path, columns: int, lines: int
) -> None:
    reader = FakeReader()
    async with served(reader) as url:
        terminal.run("queues --watch", columns, lines, url)
        before = await terminal.shows(lambda shown: any("team-b" in line for line in shown), "all queues")
        assert any("lost" in line for line in before)

        # Fewer and shorter lines than before.
        reader.tree = (structs.replace(TEAM_B, name="q", parent=None),)
        after = await terminal.shows(lambda shown: any(line.startswith("q ") for line in shown), "the change")

        (tmp_path / "other").mkdir()
        other = Terminal(tmp_path / "other")
        other.run("queues", columns, lines, url)
        try:
            fresh = await other.shows(lambda shown: any(line.startswith("q ") for line in shown), "one queue")
        finally:
            other.tmux("kill-server")
    assert after == fresh


async def test_what_does_not_fit_is_cut_at_the_end_of_the_screen(terminal: Terminal) -> None:
    async with served(FakeReader()) as url:
        terminal.run("queues --watch", 80, 5, url)
        shown = await terminal.shows(lambda screen: any("more lines" in line for line in screen), "the cut")
    assert shown[0].startswith("QUEUE")
    assert shown[-1].startswith("… ")
