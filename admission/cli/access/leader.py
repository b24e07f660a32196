"""Questions that only the leader answers. The Service forwards to any replica, so the question is repeated."""

import time
from collections.abc import Mapping
from typing import Final

from admission.cli.access.read_api import Route, Unanswered, fetch

_ATTEMPTS: Final = 12
_PAUSE_SECONDS: Final = 0.25
_NOT_LEADING: Final = 409


def from_leader(route: Route, path: str, query: Mapping[str, str | None] | None = None) -> bytes:
    """Ask until the leader answers. Raises CommandFailed."""
    for attempt in range(_ATTEMPTS):
        try:
            return fetch(route, path, query)
        except Unanswered as error:
            if error.status != _NOT_LEADING or route.server is not None or attempt == _ATTEMPTS - 1:
                raise
        time.sleep(_PAUSE_SECONDS)
    raise AssertionError
