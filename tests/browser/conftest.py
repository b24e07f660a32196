"""A browser for the tests of this folder, and the page of a small cluster. Without a Chromium they are skipped."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.chromium import chromium, missing
from tests.browser.world import Shown, World, page_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """One browser for the tests of a module: while it is there, no other loop runs in this process."""
    if advice := missing():
        pytest.skip(advice)
    with chromium() as browser:
        yield browser


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[Shown]:
    """The page of a small cluster, which a test may change."""
    world = World()
    world.add_nodes(24)
    with page_of(world, tmp_path) as shown:
        yield shown


class Tab:
    """A tab of the browser, with everything that it complained about."""

    def __init__(self, browser: "Browser", **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1200, "height": 800}, **options})
        self.page: Page = self.context.new_page()
        self.url = ""
        #: Messages of the console, errors of scripts, and answers that are none.
        self.complaints: list[str] = []
        #: Hosts that anything was asked of.
        self.asked: set[str] = set()
        self.page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("request", lambda request: self.asked.add(request.url.split("/")[2]))

    def show(self, shown: Shown) -> None:
        """Begin with the page of a world."""
        self.url = shown.url
        self.page.goto(shown.address)

    def open(self, path: str) -> "Page":
        """The view of a path. Complaints of what was shown before are forgotten."""
        self.complaints.clear()
        answer = self.page.goto(f"{self.url}/{path}")
        assert answer is not None
        assert answer.status == 200, path
        return self.page


@pytest.fixture(scope="module")
def desk(browser: "Browser") -> Iterator[Tab]:
    """A tab as on a desk, in the light. One for all tests of a module: another takes a second of processor time."""
    tab = Tab(browser)
    yield tab
    tab.context.close()


@pytest.fixture
def tab(desk: Tab, shown: Shown) -> Tab:
    """That tab, with the page of this test."""
    desk.show(shown)
    return desk
