"""How fast the page is with a large cluster: until something is painted, and how long an update keeps the browser busy.

python -m tests.bench --only page
"""

import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from msgspec import structs

from tests.bench.mark import Mark
from tests.browser.chromium import chromium, missing
from tests.browser.world import Shown, World, page_of

if TYPE_CHECKING:
    from playwright.sync_api import CDPSession, Page

NODES: Final = 1000
WAITING: Final = 5000
_ROUNDS: Final = 3
#: Half seconds for an update to come.
_PATIENCE: Final = 120


def play() -> list[Mark]:
    """First paint and updates of the two largest views."""
    if advice := missing():
        print(f"page: {advice}")
        return []
    world = World()
    world.add_nodes(NODES)
    world.waits(WAITING)
    marks = []
    with (
        tempfile.TemporaryDirectory() as folder,
        page_of(world, Path(folder)) as shown,
        chromium() as browser,
    ):
        # To wait for a condition, Playwright evaluates text, which the page itself may not.
        context = browser.new_context(viewport={"width": 1400, "height": 900}, bypass_csp=True)
        page = context.new_page()
        page.goto(shown.address)
        tools = context.new_cdp_session(page)
        tools.send("Performance.enable", {"timeDomain": "threadTicks"})
        for name, path in ((f"{NODES:,} nodes", "nodes"), (f"{WAITING:,} waiting", "pending")):
            painted = median(_first_paint(page, shown, path) for _ in range(_ROUNDS))
            _next_update(page)  # the first answer to the script
            busy = median(_update(page, tools, world, number) for number in range(_ROUNDS))
            marks += [
                Mark(
                    name=f"{name}: first paint", reached=painted, unit="ms", must=1000, aim=500, upwards=False
                ),
                Mark(
                    name=f"{name}: main thread per update",
                    reached=busy,
                    unit="ms",
                    must=100,
                    aim=50,
                    upwards=False,
                ),
            ]
    return marks


def _first_paint(page: "Page", shown: Shown, path: str) -> float:
    """Milliseconds from the click to the first content, with what the questions to the API take."""
    page.goto(f"{shown.url}/{path}")
    page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length > 0")
    return float(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))


def _update(page: "Page", tools: "CDPSession", world: World, number: int) -> float:
    """Milliseconds of the main thread for one update, with layout and paint: a gang ends, another comes."""
    begun = _busy(tools)
    _turn(world, number)
    _next_update(page)
    return 1000 * (_busy(tools) - begun)


def _next_update(page: "Page") -> None:
    """Have the view asked for again, and wait until that is painted. Seldom asked, or asking would be measured too."""
    before = _updates(page)
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    for _ in range(_PATIENCE):
        page.wait_for_timeout(500)
        if _updates(page) > before:
            page.wait_for_timeout(500)
            return
    raise TimeoutError("the page did not update")


def _turn(world: World, number: int) -> None:
    """What may differ between two updates: the first gang starts, two nodes are free, two others are taken."""
    world.reader.waiting = world.reader.waiting[1:]
    free, taken = (f"gpu-{number * 8 + index:04}" for index in (0, 6))
    one, other = world.nodes[free], world.nodes[taken]
    world.nodes[free] = structs.replace(other, name=one.name, rack=one.rack)
    world.nodes[taken] = structs.replace(one, name=other.name, rack=other.rack)
    world.changed()


def _updates(page: "Page") -> int:
    return int(page.evaluate("performance.getEntriesByName('muster-update').length"))


def _busy(tools: "CDPSession") -> float:
    """Seconds of a processor that the main thread has had."""
    metrics = {each["name"]: each["value"] for each in tools.send("Performance.getMetrics")["metrics"]}
    return float(metrics["TaskDuration"])
