"""The page follows what happens while somebody looks at it, and stays where that person is."""

from typing import TYPE_CHECKING

from tests.browser.conftest import Tab
from tests.browser.world import Shown

if TYPE_CHECKING:
    from playwright.sync_api import Browser

#: Milliseconds for a change to be seen.
SOON = 30_000


def test_gangs_come_and_go_without_loading_the_page_again(tab: Tab, shown: Shown) -> None:
    page = tab.open("pending")
    page.evaluate("window.same = true")
    for number in range(3):
        shown.world.starts(f"gang-{number}")
        page.get_by_role("link", name=f"vcjob/gang-{number}").wait_for(timeout=SOON)
    shown.world.ends("gang-1")
    page.get_by_role("link", name="vcjob/gang-1").wait_for(state="detached", timeout=SOON)
    assert page.get_by_role("link", name="vcjob/gang-2").count() == 1
    assert page.evaluate("window.same")
    assert tab.complaints == []


def test_the_focus_stays_on_its_workload_when_others_come_and_go(tab: Tab, shown: Shown) -> None:
    page = tab.open("pending")
    link = page.get_by_role("link", name="vcjob/llama-pretrain")
    link.focus()
    shown.world.ends("tune-3")
    page.get_by_role("link", name="job/tune-3").wait_for(state="detached", timeout=SOON)
    assert page.evaluate("document.activeElement.textContent") == "vcjob/llama-pretrain"


def test_what_was_unfolded_stays_unfolded(tab: Tab, shown: Shown) -> None:
    page = tab.open("charts")
    page.get_by_text("gpu in use as a table").click()
    shown.world.reader.behind = "Postgres was away"
    with page.expect_response(lambda answer: "charts" in answer.url, timeout=30_000):
        shown.world.changed()
    page.locator("#main[data-least]").wait_for()
    assert page.locator("details[open]").count() == 1


def test_a_selection_is_left_alone(tab: Tab, shown: Shown) -> None:
    page = tab.open("pending")
    page.evaluate(
        "() => { const r = document.createRange(); r.selectNodeContents(document.querySelector('h1'));"
        " getSelection().addRange(r); }"
    )
    shown.world.starts("later")
    page.wait_for_timeout(1500)  # it must not come: there is nothing to wait for
    assert page.get_by_role("link", name="vcjob/later").count() == 0
    page.evaluate("getSelection().removeAllRanges()")
    page.get_by_role("link", name="vcjob/later").wait_for(timeout=SOON)


def test_many_tabs_listen_without_keeping_one_another_out(browser: "Browser", shown: Shown) -> None:
    tab = Tab(browser, shown)
    pages = [tab.context.new_page() for _ in range(8)]
    for page in pages:
        page.goto(f"{shown.url}/pending")
        page.bring_to_front()
        assert page.locator("h1").inner_text() == "Waiting workloads"
    shown.world.starts("gang")
    pages[-1].get_by_role("link", name="vcjob/gang").wait_for(timeout=SOON)
    tab.context.close()


def test_it_says_so_when_the_command_has_ended(browser: "Browser", shown: Shown) -> None:
    tab = Tab(browser, shown)
    page = tab.open("pending")
    tab.context.set_offline(True)
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.get_by_text("has ended. What is shown is from before.").wait_for(timeout=SOON)
    assert page.get_by_role("link", name="job/tune-3").count() == 1
    tab.context.set_offline(False)
    page.get_by_text("has ended").wait_for(state="detached", timeout=SOON)
    tab.context.close()


def test_what_fails_is_told_in_the_page(tab: Tab, shown: Shown) -> None:
    page = tab.open("pending")
    shown.world.reader.down = True
    page.reload()
    assert "connection refused" in page.get_by_role("alert").inner_text()
    shown.world.reader.down = False
    page.get_by_role("link", name="job/tune-3").wait_for(timeout=SOON)
