"""Loans are shown to both queues, and who lends only to those who may see it."""

from typing import Any

from admission.web.overview import in_sight, tree
from admission.web.queue_history import stated_loans
from admission.web.reader import EVERYTHING, Sight
from queues.quota.queue import Queue
from queues.sql.read.rows import QueueLine
from queues.workload import QueueName

GPU = "nvidia.com/gpu"
#: Of 2026-11-27T12:00:00Z.
END = 1795780800


def line(name: str, **spec: Any) -> QueueLine:
    return QueueLine(
        name=QueueName(name),
        parent=QueueName("root"),
        served=Queue(name=QueueName(name)),
        paused=False,
        closed=False,
        broken=False,
        changed_by="",
        document={"spec": {"deserved": {GPU: 16}, **spec}},
    )


LOAN = {"to": "b", "resources": {GPU: 20}, "until": "2026-11-27T12:00:00Z", "reason": "a deadline"}
LINES = (line("a", guarantee={"resource": {GPU: 4}}, loans=[LOAN]), line("b"), line("c"))


def shown(now: int = END - 1) -> dict[str, Any]:
    return {body.name: body for body in tree(LINES, now=now)}


def test_a_loan_is_shown_with_what_counts_to_the_queue_that_lends_and_to_the_other() -> None:
    found = shown()
    assert found["a"].loans == found["b"].loans
    assert found["c"].loans == ()
    (loan,) = found["a"].loans
    assert (loan.from_, loan.to, loan.amount, loan.counts, loan.until) == (
        "a",
        "b",
        "20",
        "12",
        LOAN["until"],
    )
    assert (loan.reason, loan.problem[:16]) == ("a deadline", "queue a has 12 n")


def test_a_loan_that_has_ended_is_not_shown() -> None:
    assert [body.loans for body in shown(END).values()] == [(), (), ()]


def test_who_lends_is_not_told_to_those_who_may_not_see_the_queue() -> None:
    mine = in_sight(shown()["b"], Sight(queues=frozenset({"b"})))
    (loan,) = mine.loans
    assert (loan.from_, loan.reason, loan.problem, loan.counts) == (None, "", "", "12")
    for sight in (EVERYTHING, Sight(queues=frozenset({"a", "b"}))):
        assert in_sight(shown()["b"], sight).loans[0].from_ == "a"


def test_what_is_no_loan_is_none() -> None:
    for loans in (
        None,
        "x",
        3,
        ["x", {}, {**LOAN, "until": "friday"}, {**LOAN, "to": 3}, {**LOAN, "resources": 7}],
    ):
        assert stated_loans({"loans": loans}) == ()
    for resources in ({GPU: "many"}, {GPU: -4}, {GPU: 0}, {GPU: None}, {GPU: []}):
        assert stated_loans({"loans": [{**LOAN, "resources": resources}]}) == ()
