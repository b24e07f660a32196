"""Where there is no view, the page says what was not found, which right is missing, or that Muster does not answer."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from admission.cli.access.objects import Refused
from admission.cli.access.requests import Route, Unanswered
from admission.cli.command_line import CommandFailed
from admission.cli.page.problems import NoSuchView, problem_view, unknown
from admission.cli.page.views import Views
from tests.fakes.fake_reader import FakeReader, served
from tests.tables import with_rows


def unanswered(status: int, found: str, *, by_muster: bool) -> Unanswered:
    return Unanswered(status=status, tried="", found=found, hint="", by_muster=by_muster)


@pytest.mark.parametrize(
    ("error", "status", "title", "sentence"),
    [
        (KeyError("x"), 404, "Not found", "There is no such view."),
        (NoSuchView("There is no queue x."), 404, "Not found", "There is no queue x."),
        (unanswered(404, "There is no workload x", by_muster=True), 404, "Not found", "no workload x"),
        (
            unanswered(404, "no apiservice", by_muster=False),
            502,
            "Muster does not answer",
            "This page asks again by itself.",
        ),
        (unanswered(503, "Postgres is away", by_muster=True), 502, "Muster does not answer", "by itself"),
        (unanswered(429, "too many", by_muster=True), 502, "Muster does not answer", "too many"),
        (unanswered(401, "unknown", by_muster=False), 401, "You are not signed in", "unknown"),
        (
            unanswered(403, "ada may not get queue root", by_muster=True),
            403,
            "You may not see this",
            "ada may not get queue root",
        ),
        (
            Refused(status=403, tried="", found="you (ada) may not list nodes", hint=""),
            403,
            "You may not see this",
            "you (ada) may not list nodes",
        ),
        (CommandFailed(tried="Asking", found="refused"), 502, "Muster does not answer", "Asking: refused"),
        (ZeroDivisionError("1/0"), 500, "Fault", "This is a fault of Muster."),
    ],
)
def test_an_error_is_a_page_that_says_what_to_do(
    error: Exception, status: int, title: str, sentence: str
) -> None:
    found, view = problem_view(error)
    assert (found, view.title) == (status, title)
    assert f"<h1>{title}</h1>" in view.main
    assert sentence in view.main.striptags()


def test_names_like_an_unknown_one_are_offered_as_links() -> None:
    error = unknown("queue", "tain", ["train", "dev", "root"], "queues")
    assert str(error) == "There is no queue tain that you may see. Did you mean one of these?"
    assert '<a href="/queues/train">train</a>' in error.ways
    assert unknown("queue", "zzz", [f"q{number}" for number in range(99)], "queues").ways == ()
    assert len(unknown("queue", "zzz", ["a", "b"], "queues").ways) == 2


@pytest.fixture
async def views() -> AsyncIterator[Views]:
    async with served(FakeReader()) as url:
        yield Views(route=Route(server=url, kubeconfig="/nowhere"))


@with_rows("parts", "query", "sentence", "way")
async def test_an_unknown_name_says_where_to_look(
    views: Views, parts: tuple[str, ...], query: dict[str, str], sentence: str, way: str
) -> None:
    with pytest.raises(NoSuchView) as told:
        await asyncio.to_thread(views.show, parts, query)
    _, view = problem_view(told.value)
    assert sentence in view.main.striptags()
    assert f'href="{way}"' in view.main
