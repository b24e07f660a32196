"""The dashboards of ``deploy/chart/monitoring/dashboards``, as Grafana gets them."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

FOLDER: Final = Path(__file__).parents[2] / "deploy/chart/monitoring/dashboards"
#: By the name of the file.
DASHBOARDS: Final[dict[str, dict[str, Any]]] = {
    path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))
}
_VARIABLE: Final = re.compile(r"\$(\w+)")


class PanelQuery(NamedTuple):
    """A PromQL expression of a panel."""

    dashboard: str
    panel: str
    expr: str


def queries() -> Iterator[PanelQuery]:
    """Those of all dashboards."""
    for name, dashboard in DASHBOARDS.items():
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                yield PanelQuery(name, panel["title"], target["expr"])


def variables(dashboard: Mapping[str, Any]) -> list[str]:
    """Names of what may be chosen."""
    return [variable["name"] for variable in dashboard["templating"]["list"]]


def replaced(expr: str, chosen: Mapping[str, str], *, rate_interval: str = "1m") -> str:
    """The expression with these values. Raises KeyError: it has another variable."""
    values = {**chosen, "__rate_interval": rate_interval}
    return _VARIABLE.sub(lambda match: values[match[1]], expr)
