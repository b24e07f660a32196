"""How long a workload rests after evictions: so long it is not evicted again, by any rule."""

from typing import Final

#: Seconds for which a workload is left alone after its start if it was evicted once; a day at most.
_AFTER_EVICTION: Final = 3600
DAY: Final = 86_400


def rest_after(evictions: int) -> int:
    """Seconds for which a workload is left alone after its next start: an hour, then two, four, and so on, a day at
    most. 0: it was never evicted."""
    return min(_AFTER_EVICTION << min(evictions - 1, DAY.bit_length()), DAY) if evictions else 0
