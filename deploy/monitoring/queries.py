"""Queries of dashboards: for the chosen clusters, with Grafana's variables replaced for Prometheus."""

import re
from collections.abc import Mapping
from typing import Final

_VARIABLE: Final = re.compile(r"\$(\w+)")
#: A metric, with the beginning of its selector if it has one.
_METRIC: Final = re.compile(r"\b(muster[_:][a-z0-9_:]+|up)\b(\{?)")
#: Series without the label match too, unless a cluster is chosen.
_CHOSEN: Final = 'cluster=~"$cluster"'


def of_chosen_clusters(expr: str) -> str:
    """The expression, counting only series of the clusters that are chosen in Grafana."""
    return _METRIC.sub(lambda match: f"{match[1]}{{{_CHOSEN}{',' if match[2] else '}'}", expr)


def replaced(expr: str, variables: Mapping[str, str], *, rate_interval: str = "1m") -> str:
    """The expression with these values. Raises KeyError: it has another variable."""
    values = {**variables, "__rate_interval": rate_interval}
    return _VARIABLE.sub(lambda match: values[match[1]], expr)
