"""Every view in a real browser: without complaints, for the keyboard, for screen readers, in the dark, on a phone."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import Tab
from tests.browser.pictures import VIEWS
from tests.browser.world import Shown, World, page_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

#: What axe finds that must not be there.
WORST = ("serious", "critical")


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """One page for all tests of this module: none changes its cluster."""
    world = World()
    world.add_nodes(24)
    world.plans()
    with page_of(world, tmp_path_factory.mktemp("page")) as shown:
        yield shown


@pytest.fixture(
    scope="module",
    params=["light", *(pytest.param(dress, marks=pytest.mark.long) for dress in ("dark", "phone"))],
)
def dressed(request: pytest.FixtureRequest, browser: "Browser", shown: Shown) -> Iterator[Tab]:
    options = {
        "light": {},
        "dark": {"color_scheme": "dark"},
        "phone": {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True},
    }
    tab = Tab(browser, **options[request.param])
    tab.show(shown)
    yield tab
    tab.context.close()


def _worst(page: "Page") -> list[tuple[str, str, list[str]]]:
    """What axe finds in a view that must not be there."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response
    assert found["passes"]
    return [
        (each["id"], each["help"], [node["html"][:200] for node in each["nodes"][:3]])
        for each in found["violations"]
        if each["impact"] in WORST
    ]


@pytest.mark.parametrize("path", VIEWS.values(), ids=VIEWS)
def test_a_view_opens_without_complaints_loads_nothing_from_elsewhere_and_can_be_read(
    dressed: Tab, path: str
) -> None:
    page = dressed.open(path)
    assert page.locator("h1").count() == 1
    assert page.title().endswith(" · Muster")
    assert dressed.complaints == []
    assert dressed.asked == {dressed.url.removeprefix("http://")}
    assert _worst(page) == []


@pytest.mark.parametrize("path", VIEWS.values(), ids=VIEWS)
@pytest.mark.long
def test_a_narrow_window_does_not_scroll_sideways(tab: Tab, path: str) -> None:
    page = tab.open(path)
    for width in (320, 390, 700, 1000, 1200):  # in the end as it was
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("path", VIEWS.values(), ids=VIEWS)
@pytest.mark.long
def test_the_keyboard_reaches_every_link_and_the_focus_is_seen(tab: Tab, path: str) -> None:
    page = tab.open(path)
    wanted = page.evaluate("document.querySelectorAll('a, summary').length")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    reached = 1
    for _ in range(2 * wanted):
        page.keyboard.press("Tab")
        here = page.evaluate(
            "(() => { const e = document.activeElement, s = getComputedStyle(e);"
            " return [e.tagName, s.outlineStyle, e === document.body || e.className === 'skip']; })()"
        )
        if here[2]:  # past the last one, or at the first one again
            break
        assert here[1] != "none", here
        reached += here[0] in ("A", "SUMMARY")
    assert reached == wanted


MISSING = {
    "no queue": "queues/tran",
    "no workload": "workloads/ml/nothing",
    "no node": "nodes/gpu-9999",
    "no view": "other",
}


@pytest.mark.parametrize("path", MISSING.values(), ids=MISSING)
def test_an_unknown_name_is_a_page_that_leads_on(dressed: Tab, path: str) -> None:
    page = dressed.page
    answer = page.goto(f"{dressed.url}/{path}")
    assert answer is not None
    assert answer.status == 404
    assert page.locator("h1").inner_text() == "Not found"
    assert page.title() == "Not found · Muster"
    assert page.locator("main a").count() > 0
    assert _worst(page) == []


def test_reserved_and_drained_nodes_look_different_from_free_ones(tab: Tab) -> None:
    page = tab.open("nodes")
    looks = page.evaluate(
        "['free', 'out', 'closed', 'ill'].map(kind => { const s = getComputedStyle("
        "document.querySelector('.legend .' + kind)); return s.stroke + s.strokeDasharray; })"
    )
    assert len(set(looks)) == 4
    assert page.locator(".rack").nth(1).locator("path.closed").count() > 0


def test_the_month_is_taken_away_as_csv(tab: Tab) -> None:
    page = tab.open("usage")
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV of the same numbers").click()
    assert download.value.suggested_filename == "usage-2026-11.csv"
    assert download.value.path().read_text().splitlines()[1].split(",")[2] == "team-a"
    assert tab.complaints == []


def test_the_skip_link_leads_to_the_content(tab: Tab) -> None:
    page = tab.open("pending")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("Tab")
    assert page.evaluate("document.getElementById('main').contains(document.activeElement)")


def test_nothing_inline_is_run(tab: Tab) -> None:
    page = tab.open("queues")
    ran = page.evaluate(
        "() => { const e = document.createElement('script'); e.textContent = 'window.ran = 1';"
        " document.body.append(e); return window.ran; }"
    )
    assert ran is None
    assert any("Content Security Policy" in each for each in tab.complaints)


def test_a_printed_view_has_no_navigation(tab: Tab) -> None:
    page = tab.open("queues")
    page.emulate_media(media="print")
    assert not page.locator("header").is_visible()
    assert page.get_by_role("heading", name="Queues").is_visible()
    page.emulate_media(media="screen")
