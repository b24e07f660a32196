"""Writes the pages of ``docs/reference`` that follow from tables in the code.

    python -m deploy.reference_pages

A test compares them.
"""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader

from admission.agent.xids import XIDS, Xid, XidClass
from deploy.cli_page import cli_page
from deploy.kinds_page import kinds_page
from deploy.metrics_page import metrics_page
from queues.api.metadata_keys import TABLES
from queues.api.validation.scheduler_fields import scheduler_page

DOCS = Path(__file__).parents[1] / "docs"
_XIDS_HEAD: Final = """\
# XIDs

<!-- Written by `python -m deploy.reference_pages` from admission/agent/xids.toml; do not edit. -->

Error codes of NVIDIA's driver, and what each means for the device that has it. [Health](health.md#xids)
tells what the node agent does by class, and when it is over. A code that is not here is of class `unknown`.

| XIDs | class | meaning | source |
|---|---|---|---|
"""


def pages() -> dict[str, str]:
    """Path below ``docs`` → content."""
    return {
        "reference/annotations.md": annotations_page(),
        "reference/cli.md": cli_page(),
        "reference/kinds.md": kinds_page(),
        "reference/metrics.md": metrics_page(),
        "reference/scheduler-fields.md": scheduler_page(),
        "reference/xids.md": xids_page(),
    }


def annotations_page() -> str:
    """The page of all labels and annotations."""
    folder = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return folder.get_template("annotations.md.j2").render(tables=TABLES)


def xids_page() -> str:
    """The page of the XIDs that the node agent knows, from its table."""
    groups = [list(group) for _, group in groupby(sorted(XIDS.values(), key=_alike), key=_alike)]
    ordered = sorted(
        groups, key=lambda group: (list(XidClass).index(group[0].xid_class), min(each.code for each in group))
    )
    return _XIDS_HEAD + "".join(map(_row, ordered))


def _alike(known: Xid) -> tuple[str, str, str]:
    return known.xid_class, known.meaning, known.source


def _row(group: Sequence[Xid]) -> str:
    codes = ", ".join(str(code) for code in sorted(each.code for each in group))
    return f"| {codes} | `{group[0].xid_class}` | {group[0].meaning} | {group[0].source} |\n"


def main() -> None:
    """Write all pages."""
    for name, text in pages().items():
        (DOCS / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
