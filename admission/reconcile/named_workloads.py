"""Workloads as messages name them, ``kind/namespace/name``, and messages without those that a reader may not see. Pure.

Reasons name the workloads that others wait for or make room for, also those of other tenants. Every user who may read
an object reads its conditions and events; so these name workloads of its own namespace only.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from queues.plan import Reason

_NAMED: Final = re.compile(
    r"(?<![\w./-])(?P<kind>[a-z][a-z0-9]*)/(?P<namespace>[a-z0-9][a-z0-9-]*)/(?P<name>[a-z0-9][a-z0-9.-]*[a-z0-9]|[a-z0-9])"
)
_HIDDEN: Final = "another workload"
#: Several of them after one another, in a list of names as sentences have it.
_SEVERAL: Final = re.compile(
    rf"(?P<before>, )?\b{_HIDDEN}(?:(?:, | and ){_HIDDEN})+(?P<more> and [0-9]+ more| and (?=[a-z]+/))?"
)


def redacted(text: str, shows: Callable[[str, str], bool]) -> str:
    """The text without names of other workloads. ``shows``: whether those of a kind in a namespace may stay."""
    if "/" not in text:
        return text
    told = _NAMED.sub(lambda found: found[0] if shows(found["kind"], found["namespace"]) else _HIDDEN, text)
    return _SEVERAL.sub(_together, told)


def _together(found: re.Match[str]) -> str:
    """Several that are not named, as one word; the last of a list with named ones before has an *and*."""
    is_last = found["more"] is None
    before = "" if found["before"] is None else " and " if is_last else ", "
    return f"{before}other workloads{found['more'] or ''}"


def told_in(namespace: str, text: str) -> str:
    """A message as it is written into an object of a namespace; "": one that has none."""
    return redacted(text, lambda _, other: other == namespace)


def reason_told_in(namespace: str, reason: Reason) -> Reason:
    """The same, of a reason."""
    message = told_in(namespace, reason.message)
    return reason if message == reason.message else replace(reason, message=message)
