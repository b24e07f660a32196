"""Reservations, drains and loans on the page: all of them, and those that concern one queue."""

from datetime import datetime

from msgspec import structs

from admission.cli.page.views import Planned, planned_of_queue, planned_view
from admission.cli.plugin.reservations import in_order
from queues.read_api.bodies import LoanInForceBody, QueueBody
from tests.fakes.fake_reader import queue as shown_queue
from tests.unit.admission.cli.page.shown import drain, loan, reservation

NOW = datetime.fromisoformat("2026-11-21T10:00:00+00:00").timestamp()


def queue(name: str, parent: str | None, *loans: LoanInForceBody) -> QueueBody:
    return structs.replace(shown_queue(name, parent), loans=loans)


LOAN = loan("a", "b")
QUEUES = [
    queue("root", None),
    queue("a", "root", LOAN),
    queue("a-train", "a"),
    queue("b", "root", LOAN),
    queue("c", "root"),
]
NODES = [f"n{number}" for number in range(5)]
PLANNED = Planned(
    lines=in_order(
        [
            drain("rack", "2026-11-21T16:00:00Z"),
            reservation("night", "a-train", "2026-11-21T09:30:00Z", "Active", nodes=NODES),
            reservation("of-c", "c", "2026-11-22T09:30:00Z", "Refused", reason="Invalid", message="too much"),
            reservation("over", "a", "2026-11-20T09:30:00Z", "Ended"),
        ]
    )
)


def test_all_that_is_planned_is_listed_in_order() -> None:
    html = str(planned_view(PLANNED, QUEUES, NOW))
    places = [html.index(f">{name}<") for name in ("night", "rack", "of-c")]
    assert places == sorted(places)
    assert ">over<" not in html
    assert 'title="2026-11-21T09:30:00Z">30m ago</time>' in html
    assert ">in 6h</time>" in html
    assert '<a href="/nodes/n0">n0</a>' in html
    assert '<span title="n3, n4">and 2 more</span>' in html
    assert "until deleted" in html
    assert "rack=&lt;r7&gt;" in html
    assert "(Invalid)" in html
    assert "too much" in html
    assert html.count("a deadline") == 1
    assert '<a href="/queues/a">a</a>' in html


def test_one_queue_shows_what_concerns_it() -> None:
    of_a = str(planned_of_queue(PLANNED, QUEUES, "a", NOW))
    assert ">night<" in of_a  # of a queue below it
    assert ">rack<" in of_a  # nodes are everybody's
    assert ">of-c<" not in of_a
    assert "a deadline" in of_a
    of_c = str(planned_of_queue(PLANNED, QUEUES, "c", NOW))
    assert ">of-c<" in of_c
    assert ">night<" not in of_c
    assert "Loans" not in of_c
    above = Planned(lines=[reservation("of-a", "a", "2026-11-22T09:30:00Z")])
    assert ">of-a<" in str(planned_of_queue(above, QUEUES, "a-train", NOW))
    assert str(planned_of_queue(Planned(), QUEUES, "c", NOW)) == ""


def test_what_may_not_be_listed_is_told() -> None:
    html = str(planned_view(Planned(gaps=("You may not list reservations.",)), [], NOW))
    assert "You may not list reservations." in html
    assert "Nothing is reserved" not in html
    assert "No queue that you may see lends or borrows by a loan now." in html
    assert "Nothing is reserved or drained." in str(planned_view(Planned(), [], NOW))


def test_a_loan_tells_why_it_does_not_count_in_full_and_no_name_that_is_hidden() -> None:
    hidden = loan(None, "b", counts="2", problem="a has lent more than it deserves")
    html = str(planned_view(Planned(), [queue("b", None, hidden)], NOW))
    assert "another queue" in html
    assert "a has lent more than it deserves" in html


def test_a_table_is_bounded() -> None:
    many = [reservation(f"r-{number}", "a", "2026-11-22T09:30:00Z") for number in range(300)]
    html = str(planned_view(Planned(lines=many), QUEUES, NOW))
    assert "200 of 300 are shown." in html
    assert ">r-200<" not in html
