"""In how many worlds a law is tried."""

from typing import Final

from hypothesis import HealthCheck, settings

#: Worlds in which a law is tried at least.
FEWEST: Final = 10


def in_worlds(number: int, *, may_be_large: bool = True) -> settings:
    """``make test`` tries a quarter of them, the same each time; ``make test-all`` tries all, others each time.

    ``may_be_large``: drawing may give up many worlds because they become too large.
    """
    repeated = settings.get_current_profile_name() == "repeatable"
    return settings(
        max_examples=max(FEWEST, number // 4) if repeated else number,
        suppress_health_check=[HealthCheck.too_slow, *([HealthCheck.data_too_large] if may_be_large else [])],
    )
