"""In how many worlds a law is tried."""

from typing import Final

from hypothesis import HealthCheck, settings

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
