"""Grafana's JSON for dashboards of one style: a data source to choose, rows of panels, Prometheus queries."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

#: Of Grafana 12; newer versions migrate it.
SCHEMA_VERSION: Final = 41
#: Columns of Grafana's grid, and the height of a panel in it.
_COLUMNS: Final = 24
_HEIGHT: Final = 8
_STAT_HEIGHT: Final = 4
_DATA_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_VARIABLE: Final = re.compile(r"\$(\w+)")
#: A metric, with the beginning of its selector if it has one.
_METRIC: Final = re.compile(r"\b(muster[_:][a-z0-9_:]+|up)\b(\{?)")
#: Series without the label match too, unless a cluster is chosen.
_CHOSEN: Final = 'cluster=~"$cluster"'


@dataclass(frozen=True, slots=True)
class Query:
    """A PromQL expression, of all clusters, and the legend of its series."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel."""

    title: str
    #: What to make of it.
    description: str
    queries: tuple[Query, ...]
    #: Grafana's name of the unit.
    unit: str = "short"
    #: timeseries, stat, heatmap
    kind: str = "timeseries"
    stacked: bool = False
    #: Columns, of 24.
    width: int = 12

    @property
    def height(self) -> int:
        """Rows of the grid."""
        return _STAT_HEIGHT if self.kind == "stat" else _HEIGHT


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A list of the values of a label to choose from."""

    name: str
    #: Metric and label that it has its values from.
    metric: str
    label: str
    #: Several may be chosen, or all.
    several: bool = True


#: Every dashboard has it. Empty where the series have no such label.
CLUSTER: Final = Variable(name="cluster", metric="muster_leader", label="cluster")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """One dashboard."""

    uid: str
    title: str
    description: str
    panels: tuple[Panel, ...]
    variables: tuple[Variable, ...] = ()

    def document(self) -> dict[str, Any]:
        """As Grafana imports it."""
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.description,
            "tags": ["muster"],
            "schemaVersion": SCHEMA_VERSION,
            "version": 1,
            "editable": True,
            "graphTooltip": 1,
            "refresh": "30s",
            "time": {"from": "now-6h", "to": "now"},
            "timezone": "browser",
            "templating": {
                "list": [_data_source_variable(), _variable(CLUSTER), *map(_variable, self.variables)]
            },
            "annotations": {"list": []},
            "links": [
                {
                    "type": "dashboards",
                    "tags": ["muster"],
                    "asDropdown": True,
                    "title": "Muster",
                    "includeVars": True,
                    "keepTime": True,
                }
            ],
            "panels": list(_placed(self.panels)),
        }


def stat(title: str, expr: str, description: str, *, unit: str = "short", width: int = 4) -> Panel:
    """A single number."""
    query = (Query(expr, "{{resource}}"),)
    return Panel(title=title, description=description, queries=query, unit=unit, kind="stat", width=width)


def graph(
    title: str,
    description: str,
    *queries: tuple[str, str],
    unit: str = "short",
    stacked: bool = False,
    width: int = 12,
) -> Panel:
    """Lines over time; ``queries``: expression and legend."""
    found = tuple(Query(expr, legend) for expr, legend in queries)
    return Panel(title=title, description=description, queries=found, unit=unit, stacked=stacked, width=width)


def quantiles(title: str, description: str, histogram: str, by: str, *, at: Sequence[float]) -> Panel:
    """Quantiles of a histogram of seconds. ``histogram``: its buckets, with a selector; ``by``: labels, or none."""
    labels = "".join(f"{{{{{label.strip()}}}}} " for label in by.split(",") if label)
    grouped = f"le, {by}" if by else "le"
    queries = (
        (
            f"histogram_quantile({each}, sum by ({grouped}) (rate({histogram}[$__rate_interval])))",
            f"{labels}p{each * 100:g}",
        )
        for each in at
    )
    return graph(title, description, *queries, unit="s")


def _data_source_variable() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _variable(variable: Variable) -> dict[str, Any]:
    metric = variable.metric if variable is CLUSTER else of_chosen_clusters(variable.metric)
    query = f"label_values({metric}, {variable.label})"
    return {
        "name": variable.name,
        "label": variable.name.capitalize(),
        "type": "query",
        "datasource": _DATA_SOURCE,
        "definition": query,
        "query": {"query": query, "refId": "variable"},
        "refresh": 2,
        "sort": 1,
        "multi": variable.several,
        "includeAll": variable.several,
        **({"allValue": ".*", "current": {"text": "All", "value": "$__all"}} if variable.several else {}),
    }


def _placed(panels: Iterable[Panel]) -> Iterable[dict[str, Any]]:
    x = y = tallest = 0
    for number, panel in enumerate(panels, start=1):
        if x + panel.width > _COLUMNS:
            x, y, tallest = 0, y + tallest, 0
        tallest = max(tallest, panel.height)
        yield _panel(panel, number, {"x": x, "y": y, "w": panel.width, "h": panel.height})
        x += panel.width


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit}
    if not any(query.expr.startswith("-") for query in panel.queries):
        defaults["min"] = 0
    options: dict[str, Any] = {}
    if panel.kind == "timeseries":
        stacking = {"mode": "normal" if panel.stacked else "none", "group": "A"}
        defaults["custom"] = {
            "fillOpacity": 25 if panel.stacked else 5,
            "stacking": stacking,
            "showPoints": "never",
        }
        options = {
            "legend": {"displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    elif panel.kind == "stat":
        options = {
            "reduceOptions": {"calcs": ["lastNotNull"]},
            "colorMode": "none",
            "graphMode": "area",
            "textMode": "auto",
        }
    elif panel.kind == "heatmap":
        options = {"calculate": False, "yAxis": {"unit": panel.unit}, "color": {"scheme": "Blues"}}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": _DATA_SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": _DATA_SOURCE,
                "expr": of_chosen_clusters(query.expr),
                "legendFormat": query.legend or "__auto",
                **({"format": "heatmap"} if panel.kind == "heatmap" else {}),
            }
            for index, query in enumerate(panel.queries)
        ],
    }


def of_chosen_clusters(expr: str) -> str:
    """The expression, counting only series of the clusters that are chosen in Grafana."""
    return _METRIC.sub(lambda match: f"{match[1]}{{{_CHOSEN}{',' if match[2] else '}'}", expr)


def replaced(expr: str, variables: Mapping[str, str], *, rate_interval: str = "1m") -> str:
    """The expression with these values. Raises KeyError: it has another variable."""
    values = {**variables, "__rate_interval": rate_interval}
    return _VARIABLE.sub(lambda match: values[match[1]], expr)
