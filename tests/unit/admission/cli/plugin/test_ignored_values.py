"""Values that cannot be read are told beside the lists of what waits, and of one workload."""

from typing import Any

from msgspec import structs

from admission.cli.output import Output
from admission.cli.plugin.pending import ignored_lines
from admission.cli.rendering.explanation import workload_text
from tests.fakes.fake_reader import STORY, waiting


def test_what_waits_is_told_with_warnings_and_many_of_them_are_counted(golden: Any) -> None:
    said = structs.replace(waiting("a", 1), ignored_values=("one", "two"))
    assert ignored_lines([said, waiting("b", 2)]) == golden
    many = ignored_lines([said] * 4)
    assert (len(many), many[-1]) == (6, "Warning: 3 more values cannot be read.")


def test_one_workload_is_told_with_them() -> None:
    story = structs.replace(STORY, ignored_values=("one: found 1",))
    assert "Values that cannot be read\n  one: found 1\n" in workload_text(story, Output())
