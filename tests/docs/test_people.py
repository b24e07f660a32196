"""The pages of each kind of person and of accounting: what is asked there is answered so. Others: ``test_commands``."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from admission.kube.writers.status_loop import STARTS_EVERY
from admission.reconcile import expected_starts
from tests.console_sessions import exchanges
from tests.fakes.fake_reader import FakeReader
from tests.fakes.plugin import Plugin

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {
    name: DOCS / "how-to" / f"{name}.md" for name in ("my-job-waits", "run-a-tenant", "run-the-platform")
}
#: Lines of one screen; a page is a path, what is beside it is on other pages.
LONGEST = 120


@pytest.mark.parametrize("name", [*PAGES, "accounting"])
async def test_what_is_asked_is_answered_as_the_page_says(
    name: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        "admission.cli.plugin.usage.time.time", datetime(2026, 11, 21, 10, tzinfo=UTC).timestamp
    )
    commands = list(exchanges(DOCS / "how-to" / f"{name}.md"))
    assert len(commands) >= 3
    async with Plugin(capfd, monkeypatch, tmp_path).served(FakeReader()) as ask:
        for exchange in commands:
            words = exchange.command.split()
            assert words[:2] == ["kubectl", "muster"]
            code, out, err = await ask(*words[2:])
            assert (code, err) == (0, ""), exchange.command
            assert exchange.matches(out), f"$ {exchange.command}\n{out}"


@pytest.mark.parametrize("name", PAGES)
def test_the_index_leads_to_each_in_one_step(name: str) -> None:
    assert f"](how-to/{name}.md)" in (DOCS / "README.md").read_text(encoding="utf-8")
    assert f"](docs/how-to/{name}.md)" in (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert len(PAGES[name].read_text(encoding="utf-8").splitlines()) <= LONGEST


def test_how_seldom_objects_are_told_of_their_start_is_what_the_code_does() -> None:
    page = (DOCS / "explanation/expected-start.md").read_text(encoding="utf-8")
    assert (expected_starts.BETWEEN, expected_starts.SOON) == (600, 120), "ten minutes, two minutes"
    assert f"- The {expected_starts.MOST} workloads that should start first" in page
    assert f"{60 / STARTS_EVERY:g} a minute at most" in page


@pytest.mark.parametrize("page", ["how-to/my-job-waits.md", "explanation/expected-start.md"])
def test_what_an_object_says_is_shown_as_it_is_written(page: str) -> None:
    blocks = re.findall(
        r"^```\n(.*?)^```$", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    told = [
        start for block in blocks if (start := expected_starts.start_in(" ".join(block.split()))) is not None
    ]
    assert len(told) == 1
