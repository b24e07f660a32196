"""What users name or write, within bounds or with the obstacle that says what is wrong."""

from collections.abc import Callable

import pytest

from queues.api.reading.user_values import (
    LONGEST_MESSAGE,
    MOST_PODS,
    UserValues,
    duration,
    index,
    is_uid,
    number,
    resource_problem,
    shortened,
)
from queues.errors import InvalidQuantity
from queues.reason_codes import ReasonCode
from queues.resources import BEYOND_NODES, amount, quantity, request
from queues.text_format import LONGEST_SECONDS
from queues.workload import UNUSABLE_QUEUE


@pytest.mark.parametrize("text", ["team-a", "a", "a.b-c.d", "x" * 253])
def test_the_name_of_a_queue_is_a_dns_name(text: str) -> None:
    values = UserValues()
    assert values.queue("queue", text) == text
    assert values.obstacle is None


@pytest.mark.parametrize(
    "text", ["Team_A", "x" * 254, "x" * 200_000, "../\n", "a\0b", "?", "-a", "a.", "\ufffd"]
)
def test_a_name_that_no_queue_can_have_is_an_obstacle(text: str) -> None:
    values = UserValues()
    assert values.queue("queue", text) == UNUSABLE_QUEUE
    assert values.obstacle is not None
    code, message = values.obstacle
    assert code is ReasonCode.INVALID_SPEC
    assert message.startswith("queue: found '")
    assert "expected the name of a queue" in message
    assert len(message) < 300


def test_no_queue_can_be_called_as_the_one_that_cannot_be_used() -> None:
    assert UserValues().queue("queue", UNUSABLE_QUEUE) == UNUSABLE_QUEUE


def test_the_first_value_that_cannot_be_used_is_told() -> None:
    values = UserValues()
    assert values.task("first", "No Task") == ""
    assert values.label_key("second", "a b") is None
    assert values.word("third", "x" * 254) is None
    assert values.obstacle is not None
    assert values.obstacle.message.startswith("first: found 'No Task', expected a DNS label")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2h30m", 9000),
        ("0", 0),
        ("99999999999h", LONGEST_SECONDS),
        ("9" * 63 + "h", LONGEST_SECONDS),
        ("9" * 400 + "h", None),
        ("9" * 300_000, None),
        ("1h" * 100_000, None),
        ("-1h", None),
        ("inf", None),
        ("NaN", None),
        ("", None),
        (None, None),
    ],
)
def test_a_duration_has_an_end(text: str | None, seconds: int | None) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("7", 7),
        (str(MOST_PODS - 1), MOST_PODS - 1),
        (str(MOST_PODS), None),
        ("3000000000", None),
        ("-1", None),
    ],
)
def test_an_index_is_one_that_a_pod_can_have(text: str, found: int | None) -> None:
    assert index(text) == found


@pytest.mark.parametrize("text", ["9" * 19, "9" * 300_000, "1e3", "1.5", "", None])
def test_a_number_is_one_that_a_bigint_holds(text: str | None) -> None:
    assert number(text) is None


@pytest.mark.parametrize(
    "read", [quantity, lambda text: request("cpu", text), lambda text: amount("nvidia.com/gpu", text)]
)
@pytest.mark.parametrize(
    "text", ["9" * 300_000 + "x", " " * 300_000 + "1", "1e400", "1e-400", "NaN", "9" * 65]
)
def test_a_quantity_that_is_none_is_refused_at_once(read: Callable[[str], object], text: str) -> None:
    with pytest.raises(InvalidQuantity):
        read(text)


def test_a_request_is_counted_up_to_what_no_node_has() -> None:
    assert request("memory", "9" * 20 + "Ei") == BEYOND_NODES
    assert request("memory", "-" + "9" * 20 + "Ei") == -BEYOND_NODES


def test_long_texts_are_cut_and_stay_different() -> None:
    one, other = (
        shortened("x" * 300_000 + "a", LONGEST_MESSAGE),
        shortened("x" * 300_000 + "b", LONGEST_MESSAGE),
    )
    assert one != other
    assert len(one) == len(other) == LONGEST_MESSAGE
    assert shortened("short") == "short"


@pytest.mark.parametrize("name", ["x" * 400, "a\0b", "nvidia.com/gpu#0", "", "a/b/c", "-/x"])
def test_a_resource_has_a_name_that_the_api_server_takes(name: str) -> None:
    assert resource_problem({name: 1}) is not None
    assert resource_problem({"cpu": 1, "nvidia.com/gpu": 1, "hugepages-2Mi": 1}) is None


def test_a_uid_is_short() -> None:
    assert is_uid("6b4de2f6-0d0a-4d8f-9d0a-3f1f6a6f1f10")
    assert not is_uid("x" * 6000)
    assert not is_uid("a\0b")
