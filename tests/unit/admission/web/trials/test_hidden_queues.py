"""What is left of a trial's answer without queues that the user may not see."""

from admission.web.trials.hidden_queues import named_in, without_queues
from tests.tables import with_rows

HIDDEN = frozenset(("att-b", "att-b1", "gpu"))


@with_rows("text", "left")
def test_sentences_keep_the_parts_that_name_no_hidden_queue(text: str, left: str) -> None:
    assert without_queues({"message": text}, HIDDEN) == {"message": left}


def test_facts_that_name_a_hidden_queue_are_left_out() -> None:
    reasons = [
        {"queue": "att-b1", "facts": {"above": {"queue": "att-b", "used": 32}}},
        {"queue": "att-a", "facts": {"queue": "att-a", "used": 3}},
    ]
    assert without_queues(reasons, HIDDEN) == [{"queue": None, "facts": {}}, reasons[1]]
    assert without_queues(reasons, frozenset()) is reasons


def test_queues_are_found_wherever_they_are_named() -> None:
    answer = {"message": "3 of att-b1 are evicted, queue att-b.", "items": [{"queue": "att-c"}, 5, None]}
    assert named_in(answer, {"att-b", "att-b1", "att-c", "att"}) == {"att-b", "att-b1", "att-c"}
