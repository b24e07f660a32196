"""Pauses between attempts."""

import random

import pytest

from admission.agent.cluster.backoff import BASE, LONGEST, RetryBackoff
from queues.errors import TooManyRequests


def test_pauses_grow_from_a_second_to_a_minute_and_stay_there() -> None:
    backoff = RetryBackoff("trying", random.Random(1))
    pauses = [backoff.pause() for _ in range(1000)]
    bounds = [min(LONGEST, BASE * 2**number) for number in range(20)]
    for pause, bound in zip(pauses, bounds, strict=False):
        assert bound / 2 <= pause <= bound
    assert all(LONGEST / 2 <= pause <= LONGEST for pause in pauses[6:])


def test_agents_that_fail_together_do_not_try_again_together() -> None:
    pauses = {round(RetryBackoff("trying", random.Random(seed)).pause(), 3) for seed in range(100)}
    assert len(pauses) > 80


def test_after_a_success_the_pause_is_short_again() -> None:
    backoff = RetryBackoff("trying", random.Random(1))
    for _ in range(9):
        backoff.pause()
    backoff.succeeded()
    assert backoff.pause() <= BASE


def test_the_api_server_is_waited_for_as_long_as_it_asks_and_the_log_has_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    backoff = RetryBackoff("trying", random.Random(1))
    asks = TooManyRequests(method="GET", path="/", status=429, reason="full", retry_after=170.0)
    assert [backoff.failed(asks), backoff.failed(asks)] == [170, 170]
    backoff.succeeded()
    first, last = (record.getMessage() for record in caplog.records)
    assert first.startswith("trying fails, and is tried again: ")
    assert last == "trying succeeds again"
