"""A real Chromium for the tests of the page: Debian's, driven by Playwright, which downloads none of its own."""

import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from playwright.sync_api import Browser

#: What there is to do where there is no browser.
_ADVICE: Final = (
    "no Chromium: install one (Debian: apt-get install chromium) or name one with CHROMIUM=/path/to/chromium"
)


def chromium_path() -> str | None:
    """The browser's program; None: there is none."""
    named = os.environ.get("CHROMIUM")
    return named if named else shutil.which("chromium") or shutil.which("chromium-browser")


def missing() -> str:
    """What there is to do before there is a browser for tests; "": nothing."""
    if importlib.util.find_spec("playwright") is None:
        return "no Playwright: `make venv` installs it, from requirements.lock"
    return "" if chromium_path() is not None else _ADVICE


@contextmanager
def chromium() -> Iterator["Browser"]:
    """A browser without a window. It loads nothing from the network: pages of this machine only."""
    from playwright.sync_api import sync_playwright

    path = chromium_path()
    assert path is not None, _ADVICE
    with sync_playwright() as playwright:
        # In containers there is no room for a sandbox, and little shared memory.
        arguments = [
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        ]
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        try:
            yield browser
        finally:
            browser.close()
