"""In how many worlds a law is tried."""

from collections.abc import Callable
from typing import Any, Final

from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import SearchStrategy, tuples

#: Worlds in which a law is tried at least.
FEWEST: Final = 10


def in_worlds(number: int, *, may_be_large: bool = True) -> settings:
    """As many worlds as ``tried_of`` says. ``may_be_large``: drawing may give up many because they become too large."""
    return settings(
        max_examples=tried_of(number),
        suppress_health_check=[HealthCheck.too_slow, *([HealthCheck.data_too_large] if may_be_large else [])],
    )


def tried_of(number: int) -> int:
    """``make test`` tries an eighth of the worlds, the same each time; ``make test-all`` all, others each time."""
    repeated = settings.get_current_profile_name() == "repeatable"
    return max(FEWEST, number // 8) if repeated else number


def law_test(
    law: Callable[..., None], drawn: SearchStrategy[Any], tried: settings, *more: SearchStrategy[Any]
) -> Callable[[], None]:
    """A test that a law holds in worlds that are drawn. ``more``: what else the law is given."""

    def holds(given_to_it: tuple[Any, ...]) -> None:
        law(*given_to_it)

    # Hypothesis tells tests apart by their names.
    holds.__name__ = holds.__qualname__ = law.__name__
    return tried(given(tuples(drawn, *more))(holds))
