"""Writes the pages of ``docs/reference`` that follow from tables in the code.

    python -m deploy.reference_pages

A test compares them.
"""

from pathlib import Path

from deploy.cli_page import cli_page
from deploy.kinds_page import kinds_page
from deploy.metrics_page import metrics_page
from deploy.xids_page import xids_page
from queues.api.metadata_keys.tables import reference_page
from queues.api.validation.scheduler_fields import scheduler_page

DOCS = Path(__file__).parents[1] / "docs"


def pages() -> dict[str, str]:
    """Path below ``docs`` → content."""
    return {
        "reference/annotations.md": reference_page(),
        "reference/cli.md": cli_page(),
        "reference/kinds.md": kinds_page(),
        "reference/metrics.md": metrics_page(),
        "reference/scheduler-fields.md": scheduler_page(),
        "reference/xids.md": xids_page(),
    }


def main() -> None:
    """Write all pages."""
    for name, text in pages().items():
        (DOCS / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
