"""The stages of a workload as a table: when it was created, seen, admitted, released, bound, running."""

from collections.abc import Sequence
from typing import Final

from admission.cli.output import Output
from admission.cli.rendering.table import table
from admission.read_api.bodies import StageBody
from queues.text_format import counted, short_duration

#: Admissions that are shown without ``-o wide``.
_ADMISSIONS: Final = 2
#: What is said of the time before a stage; others: ``+0.4s``.
_BEFORE: Final = {"admitted": "waited ", "adopted": "waited ", "evicted": "ran "}


def stages_text(stages: Sequence[StageBody], output: Output) -> str:
    """The table, with the admission of each stage if there are several; "": nothing is known."""
    if not stages:
        return ""
    admissions = list(dict.fromkeys(each.admission for each in stages if each.admission is not None))
    earlier = set() if output.is_wide else set(admissions[:-_ADMISSIONS])
    several = len(admissions) > 1
    rows = [
        (
            *((each.admission,) if several else ()),
            each.stage,
            each.at if output.is_wide else f"{each.at[:19]}Z",
            took(each),
        )
        for each in stages
        if each.admission not in earlier
    ]
    columns = [*(["ADMISSION"] if several else []), "STAGE", "TIME", "TOOK"]
    text = table(columns, rows, headers=output.headers, right="ADMISSION")
    more = f"{counted(len(earlier), 'earlier admission')}: -o wide shows them\n" if earlier else ""
    return text + more


def took(stage: StageBody) -> str | None:
    """``waited 3m12s``, ``+0.4s``. None if there is nothing to count from."""
    seconds = stage.after_seconds
    if seconds is None:
        return None
    text = f"{seconds:.1f}s" if seconds < 10 else short_duration(int(seconds))
    return f"{_BEFORE.get(stage.stage, '+')}{text}"
