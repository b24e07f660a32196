"""What the annotation ``muster.dev/after`` may say."""

import pytest

from queues.api.reading.dependencies import read_dependencies, unusable_dependency
from queues.dependencies import Dependency
from queues.kind_names import KindName

JOB, VOLCANO_JOB = KindName("job"), KindName("vcjob")
FORM = "KIND/NAME, with :ok or :any where wanted, separated by commas: job/prepare, vcjob/train:any"


def test_success_is_waited_for_unless_any_end_will_do() -> None:
    assert read_dependencies("job/a,job/b:ok, vcjob/b.c:any ").named == (
        Dependency(JOB, "a"),
        Dependency(JOB, "b"),
        Dependency(VOLCANO_JOB, "b.c", any_end=True),
    )
    assert read_dependencies(None).named == ()


@pytest.mark.parametrize(
    ("text", "found", "expected"),
    [
        ("", "''", FORM),
        ("job/a,", "''", FORM),
        ("train", "'train'", FORM),
        ("Job/a", "'Job/a'", FORM),
        ("job/A", "'job/A'", FORM),
        ("job/a/b", "'job/a/b'", FORM),
        ("job/a:done", "'job/a:done'", "job/a:ok or job/a:any"),
        ("job/a:any:any", "'job/a:any:any'", "job/a:ok or job/a:any"),
        ("job/a,job/a:any", "job/a twice", "each name once"),
        (",".join(f"job/a{number}" for number in range(21)), "21 names", "at most 20"),
    ],
)
def test_what_cannot_be_read_is_named_and_none_of_it_counts(text: str, found: str, expected: str) -> None:
    named, problem = read_dependencies(text)
    assert named == ()
    assert problem is not None
    assert (problem.found, problem.expected) == (found, expected)
    assert str(problem) == f"metadata.annotations[muster.dev/after]: found {found}, expected {expected}"


def test_twenty_names_can_be_read() -> None:
    assert len(read_dependencies(",".join(f"job/a{number}" for number in range(20))).named) == 20


def test_a_kind_that_never_waits_and_the_own_name_are_of_no_use() -> None:
    named = read_dependencies("job/a,deployment/web").named
    kinds = {"job", "vcjob"}
    problem = unusable_dependency(named, "vcjob", "a", kinds)
    assert problem == ("deployment/web", "a kind whose objects wait in queues: job and vcjob")
    assert unusable_dependency(named[:1], "job", "a", kinds) == ("job/a, its own name", "other workloads")
    assert unusable_dependency(named[:1], "vcjob", "a", kinds) is None
