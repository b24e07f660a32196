"""The page follows what happens while somebody looks at it, and stays where that person is."""

import json
from typing import TYPE_CHECKING

import pytest

from admission.web.app import PREFIX
from queues.api.api_resources import RESERVATIONS
from tests.browser.conftest import Tab
from tests.browser.world import Shown
from tests.fakes.fake_reader import waiting

if TYPE_CHECKING:
    from playwright.sync_api import Browser

#: Milliseconds for a change to be seen.
SOON = 300_000


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


def test_a_search_by_the_keyboard_stays_while_others_come(tab: Tab, shown: Shown) -> None:
    page = tab.open("pending")
    page.get_by_label("Name, namespace, queue or user").fill("llama")
    page.keyboard.press("Enter")
    page.wait_for_url("**/pending?search=llama")
    assert page.locator("tbody tr").count() == 1
    shown.world.starts("other")
    shown.world.starts("llama-2")
    page.get_by_role("link", name="vcjob/llama-2").wait_for(timeout=SOON)
    assert page.locator("tbody tr").count() == 2
    assert tab.complaints == []


@pytest.mark.long
def test_what_was_unfolded_stays_unfolded(tab: Tab, shown: Shown) -> None:
    page = tab.open("charts")
    page.get_by_text("gpu in use as a table").click()
    shown.world.reader.behind = "Postgres was away"
    with page.expect_response(lambda answer: "charts" in answer.url, timeout=SOON):
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
    tab = Tab(browser)
    tab.show(shown)
    pages = [tab.context.new_page() for _ in range(8)]
    for page in pages:
        page.goto(f"{shown.url}/pending")
        page.bring_to_front()
        assert page.locator("h1").inner_text() == "Waiting workloads"
    shown.world.starts("gang")
    pages[-1].get_by_role("link", name="vcjob/gang").wait_for(timeout=SOON)
    tab.context.close()


def test_it_says_so_when_the_command_has_ended(browser: "Browser", shown: Shown) -> None:
    tab = Tab(browser)
    tab.show(shown)
    page = tab.open("pending")
    tab.context.set_offline(True)
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.get_by_text("This page's server does not answer").wait_for(timeout=SOON)
    assert page.get_by_role("link", name="job/tune-3").count() == 1
    tab.context.set_offline(False)
    page.get_by_text("does not answer").wait_for(state="detached", timeout=SOON)
    tab.context.close()


def test_no_row_is_lost_in_an_update(tab: Tab, shown: Shown) -> None:
    """Rows that are told apart by their links are moved; those of tables without links, or with the same one several
    times, are not."""
    page = tab.open("pending")
    reader = shown.world.reader
    first = reader.waiting
    others = tuple(waiting(f"gang-{number}", number, queue="train") for number in range(6))
    for wanted in (
        (*first, *others),  # more at the end
        (*others[::-1], *first),  # all moved
        (others[2], *first[1:], others[0]),  # some gone, some moved
        (*others[:3], *others[:3]),  # the same link twice: no key
        (others[3], others[1], others[1], others[5]),  # some of both
        others,
        first,
    ):
        reader.waiting = wanted
        with page.expect_response(lambda answer: answer.url.endswith("/pending"), timeout=SOON):
            shown.world.changed()
        expected = [f"{one.kind}/{one.name}" for one in wanted]
        page.wait_for_function(
            "wanted => JSON.stringify([...document.querySelectorAll('tbody tr')]"
            ".map(row => row.querySelector('a').textContent)) === wanted",
            arg=json.dumps(expected, separators=(",", ":")),
            timeout=SOON,
        )
    assert tab.complaints == []


@pytest.mark.long
def test_no_row_is_lost_that_has_no_link(tab: Tab, shown: Shown) -> None:
    """Reservations of one queue all have its link first."""
    page = tab.open("reservations")
    rows = page.locator("table").first.locator("tbody tr")
    assert rows.count() == 0
    shown.world.plans()
    shown.world.changed()
    page.get_by_role("cell", name="train-week").wait_for(timeout=SOON)
    assert rows.count() == 4
    more = {**shown.world.reservations[0], "metadata": {"name": "train-first"}}
    more["spec"] = {**more["spec"], "from": "2026-11-21T08:00:00Z"}
    shown.world.reservations.insert(0, more)
    shown.world.changed()
    page.get_by_role("cell", name="train-first").wait_for(timeout=SOON)
    assert rows.evaluate_all("rows => rows.map(row => row.cells[0].innerText)") == [
        "train-first",
        "train-night",
        "rack-r001",
        "fans",
        "train-week",
    ]
    del shown.world.reservations[:2]
    shown.world.changed()
    page.get_by_role("cell", name="train-night").wait_for(state="detached", timeout=SOON)
    assert rows.count() == 3


def test_what_is_gone_is_not_shown_from_before(tab: Tab, shown: Shown) -> None:
    page = tab.open("queues/lost")
    reader = shown.world.reader
    reader.tree = tuple(queue for queue in reader.tree if queue.name != "lost")
    shown.world.changed()
    page.get_by_text("There is no queue lost that you may see.").wait_for(timeout=SOON)
    page.wait_for_function("document.title === 'Not found · Muster'", timeout=SOON)


def test_a_right_that_is_missing_is_told(tab: Tab, shown: Shown) -> None:
    shown.world.forbidden.add(f"{PREFIX}/nodes")
    answer = tab.page.goto(f"{tab.url}/nodes")
    assert answer is not None
    assert answer.status == 403
    assert "You may not see this" in tab.page.locator("h1").inner_text()
    shown.world.forbidden.add(RESERVATIONS.path(None))
    page = tab.open("reservations")
    assert (
        page.get_by_text("You may not list reservations: ask for the role muster-queue-viewer.").count() == 1
    )


def test_what_fails_is_told_in_the_page(tab: Tab, shown: Shown) -> None:
    page = tab.open("pending")
    shown.world.reader.down = True
    page.reload()
    assert "connection refused" in page.get_by_role("alert").inner_text()
    assert page.locator("h1").inner_text() == "Muster does not answer"
    shown.world.reader.down = False
    page.get_by_role("link", name="job/tune-3").wait_for(timeout=SOON)
    assert page.title() == "Waiting workloads · Muster"
