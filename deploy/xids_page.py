"""The page ``docs/reference/xids.md``: the XIDs that the node agent knows, from its table."""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from admission.agent.xids import XIDS, Xid, XidClass

_HEAD: Final = """\
# XIDs

<!-- Written by `python -m deploy.reference_pages` from admission/agent/xids.py; do not edit. -->

Error codes of NVIDIA's driver, and what each means for the device that has it. [Health](health.md#xids)
tells what the node agent does by class, and when it is over. A code that is not here is of class `unknown`.

| XIDs | class | meaning | source |
|---|---|---|---|
"""


def xids_page() -> str:
    """The whole page."""
    groups = [list(group) for _, group in groupby(sorted(XIDS.values(), key=_alike), key=_alike)]
    ordered = sorted(
        groups, key=lambda group: (list(XidClass).index(group[0].xid_class), min(each.code for each in group))
    )
    return _HEAD + "".join(map(_row, ordered))


def _alike(known: Xid) -> tuple[str, str, str]:
    return known.xid_class, known.meaning, known.source


def _row(group: Sequence[Xid]) -> str:
    codes = ", ".join(str(code) for code in sorted(each.code for each in group))
    return f"| {codes} | `{group[0].xid_class}` | {group[0].meaning} | {group[0].source} |\n"
