"""Queries of dashboards as Prometheus takes them: with the variables of Grafana replaced."""

import re
from collections.abc import Mapping
from typing import Final

_VARIABLE: Final = re.compile(r"\$(\w+)")


def replaced(expr: str, variables: Mapping[str, str], *, rate_interval: str = "1m") -> str:
    """The expression with these values. Raises KeyError: it has another variable."""
    values = {**variables, "__rate_interval": rate_interval}
    return _VARIABLE.sub(lambda match: values[match[1]], expr)
