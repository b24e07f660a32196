"""Names, amounts and times in sentences for people."""

from collections.abc import Sequence

from queues.quota.accounts import Account
from queues.resources import show
from queues.workload import NO_FLAVOR

#: So many names are told before "and N more".
_NAMED = 3


def amount(account: Account, units: int) -> str:
    """``8 nvidia.com/gpu of flavor h100``."""
    flavor = f" of flavor {account.flavor}" if account.flavor != NO_FLAVOR else ""
    return f"{show(account.resource, units)} {account.resource}{flavor}"


def names(every: Sequence[str]) -> str:
    """``a, b and 3 more``."""
    more = len(every) - _NAMED
    told = list(every[:_NAMED]) + ([f"{more} more"] if more > 0 else [])
    return told[0] if len(told) == 1 else f"{', '.join(told[:-1])} and {told[-1]}"


def many(count: int, what: str) -> str:
    """``1 pod``, ``2 pods``."""
    return f"{count} {what}" + ("" if count == 1 else "s")


def duration(seconds: int) -> str:
    """``40 min``, ``2 h 5 min``, ``3 d 4 h``: rounded up to what matters."""
    if seconds < 60:
        return f"{max(seconds, 0)} s"
    minutes = -(-seconds // 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "min")]
    told = [f"{count} {unit}" for count, unit in parts if count]
    return " ".join(told[:2])
