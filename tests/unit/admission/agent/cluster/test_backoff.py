"""Pauses between attempts."""

import random

from admission.agent.cluster.backoff import BASE, LONGEST, RetryBackoff


def test_pauses_grow_from_a_second_to_a_minute_and_stay_there() -> None:
    backoff = RetryBackoff(random.Random(1))
    pauses = [backoff.after_failure() for _ in range(1000)]
    bounds = [min(LONGEST, BASE * 2**number) for number in range(20)]
    for pause, bound in zip(pauses, bounds, strict=False):
        assert bound / 2 <= pause <= bound
    assert all(LONGEST / 2 <= pause <= LONGEST for pause in pauses[6:])


def test_agents_that_fail_together_do_not_try_again_together() -> None:
    pauses = {round(RetryBackoff(random.Random(seed)).after_failure(), 3) for seed in range(100)}
    assert len(pauses) > 80


def test_after_a_success_the_pause_is_short_again() -> None:
    backoff = RetryBackoff(random.Random(1))
    for _ in range(9):
        backoff.after_failure()
    backoff.succeeded()
    assert backoff.after_failure() <= BASE


def test_the_api_server_is_waited_for_as_long_as_it_asks() -> None:
    assert RetryBackoff(random.Random(1)).after_failure(at_least=17) == 17
