"""Tables as kubectl prints them."""

import pytest
from msgspec import structs

from admission.cli.output import Output
from admission.cli.page.layout import form
from admission.cli.plugin.pending import pending_table
from admission.cli.rendering.terminal import amounts, short_names, table
from queues.read_api.bodies import PendingList, ReasonBody
from tests.fakes.fake_reader import waiting
from tests.fakes.read_api.fake_lists import NOW


def test_no_cell_commands_the_terminal_or_begins_a_line() -> None:
    text = table(["NAME", "WHY"], [["a\x1b[2Jb", "first\nsecond"], ["é└─", None]])
    assert text == "NAME     WHY\na\ufffd[2Jb   first\ufffdsecond\né└─      -\n"


def test_names_that_would_be_called_the_same_are_not_shortened() -> None:
    assert short_names("4 nvidia.com/gpu on topology.muster.dev/rack r1") == "4 gpu on rack r1"
    assert short_names("2 amd.com/gpu and 4 nvidia.com/gpu, 8 nvidia.com/gpu again: 1 rack.io/r") == (
        "2 amd.com/gpu and 4 nvidia.com/gpu, 8 nvidia.com/gpu again: 1 r"
    )
    assert (
        amounts({"amd.com/gpu": "1", "cpu": "4", "nvidia.com/gpu": "2"}) == "1 amd.com/gpu, 2 nvidia.com/gpu"
    )
    assert amounts({"nvidia.com/gpu": "2"}) == "2 gpu"


@pytest.mark.parametrize(
    "text",
    [
        "`kubectl annotate vcjob/b -n ml --overwrite muster.dev/after=vcjob/a:any`",
        "run it: kubectl label node n 1 example.com/pool",
        "its owner holds it back (annotation muster.dev/hold)",
        "its pods one by one (annotation scheduling.volcano.sh/group-min-member: 1)",
        "label muster.dev/queue-name",
    ],
)
def test_what_is_there_to_be_copied_is_not_shortened(text: str) -> None:
    assert short_names(f"4 nvidia.com/gpu in one example.com/rack: {text}") == f"4 gpu in one rack: {text}"


def test_a_list_of_waiting_work_tells_gpus_of_two_makers_apart_and_wrong_names_in_full() -> None:
    unknown = "no node offers nvidia.com/gpus; did you mean nvidia.com/gpu?"
    items = (
        structs.replace(
            waiting("a", 1), asks={"amd.com/gpu": "1"}, reason=ReasonBody(code="NoFit", message="no gpu")
        ),
        structs.replace(
            waiting("b", 2),
            asks={"nvidia.com/gpu": "1"},
            reason=ReasonBody(code="UnknownResource", message=unknown),
        ),
    )
    body = PendingList(now="2026-11-21T10:00:00Z", total=2, total_everywhere=2, items=items)
    first, title, second = pending_table(body, Output(headers=False), everywhere=False).splitlines()
    assert title == "Waiting does not help these:"
    assert " 1 amd.com/gpu " in first
    assert " 1 nvidia.com/gpu " in second
    assert second.endswith(unknown)


def test_the_page_tells_gpus_of_two_makers_apart_too() -> None:
    items = tuple(
        structs.replace(waiting(each, 1), asks={f"{each}.com/gpu": "1"}) for each in ("amd", "nvidia")
    )
    shown = form("forms.html", "waiting_table", items, NOW, 2)
    assert "1 amd.com/gpu" in shown
    assert "1 nvidia.com/gpu" in shown
    assert "1 gpu" in form("forms.html", "waiting_table", items[:1], NOW, 1)
