"""The page of a real cluster in a real Chromium: it follows gangs while they start and end."""

import pytest

from tests.browser.chromium import chromium, missing
from tests.e2e.support.manifests import volcano_job
from tests.e2e.support.sandbox import Sandbox
from tests.e2e.users.test_page import served_page

#: Milliseconds for what happens in the cluster to be seen.
SOON = 300_000


def test_a_browser_follows_gangs_that_start_and_end(sandbox: Sandbox) -> None:
    if advice := missing():
        pytest.skip(advice)
    [node] = sandbox.add_nodes(1)
    sandbox.add_queue()
    member = sandbox.somebody("browser-member")
    with served_page(member) as address, chromium() as browser:
        page = browser.new_page()
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(address)
        base = page.url.rstrip("/")
        page.goto(f"{base}/workloads?namespace={sandbox.name}")
        page.get_by_text("No workload waits or runs here").wait_for(timeout=SOON)
        page.evaluate("window.same = true")

        sandbox.add(volcano_job(sandbox, "first", 2, 4))
        page.get_by_role("row", name="vcjob/first").get_by_text(node).wait_for(timeout=SOON)
        sandbox.add(volcano_job(sandbox, "second", 2, 4))
        page.get_by_role("row", name="vcjob/second").get_by_text("NoFit").wait_for(timeout=SOON)
        sandbox.delete("Job", "first")
        page.get_by_role("row", name="vcjob/second").get_by_text(node).wait_for(timeout=SOON)
        page.get_by_role("link", name="vcjob/first").wait_for(state="detached", timeout=SOON)

        assert page.evaluate("window.same")
        page.get_by_role("link", name="vcjob/second").click()
        page.get_by_role("heading", name="Stages").wait_for(timeout=SOON)
        assert complaints == []
