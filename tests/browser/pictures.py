"""Takes the pictures of docs/how-to/page.md anew, from the small cluster of the tests.

python -m tests.browser.pictures
"""

import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.browser.chromium import chromium
from tests.browser.world import World, page_of

FOLDER: Final = Path(__file__).parents[2] / "docs/how-to/pictures"
#: Name of a picture → path of the view.
VIEWS: Final = {
    "queues": "queues",
    "queue": "queues/train",
    "waiting": "pending",
    "workloads": "workloads",
    "users": "users",
    "workload": "workloads/ml/tune-3?kind=job",
    "nodes": "nodes",
    "rack": "nodes/r000",
    "reservations": "reservations",
    "tenant": "queues/team-a",
    "charts": "charts?span=day",
    "month": "usage",
    "decisions": "decisions",
}
#: Further pictures: the same views in the dark, and on a phone.
DARK: Final = ("charts",)
PHONE: Final = ("queues",)


def main(folder: Path = FOLDER) -> None:
    """Write all pictures."""
    world = World()
    world.add_nodes(48)
    world.plans()
    with (
        tempfile.TemporaryDirectory() as temporary,
        page_of(world, Path(temporary)) as shown,
        chromium() as browser,
    ):
        for scheme, width, names in (
            ("light", 1200, tuple(VIEWS)),
            ("dark", 1200, DARK if folder == FOLDER else tuple(VIEWS)),
            ("phone", 390, PHONE if folder == FOLDER else tuple(VIEWS)),
        ):
            context = browser.new_context(
                viewport={"width": width, "height": 800 if scheme != "phone" else 844},
                color_scheme="dark" if scheme == "dark" else "light",
                device_scale_factor=1,
            )
            page = context.new_page()
            page.goto(shown.address)
            for name in names:
                page.goto(f"{shown.url}/{VIEWS[name]}")
                suffix = "" if scheme == "light" else f"-{scheme}"
                page.screenshot(path=folder / f"page-{name}{suffix}.png", full_page=True)
            context.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
