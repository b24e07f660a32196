"""The rule files of ``deploy/chart/monitoring/rules``, as values."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

FOLDER: Final = Path(__file__).parents[2] / "deploy/chart/monitoring/rules"
_UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION: Final = re.compile(r"(\d+)(ms|s|m|h|d|w)")
#: A range or a subquery: [5m], [30d:1m].
_RANGE: Final = re.compile(r"\[(\w+)(?::(\w*))?\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alerting rule."""

    name: str
    expr: str
    severity: str
    summary: str
    #: Page below the repository.
    runbook: str


def files() -> list[Path]:
    """All rule files, by name."""
    return sorted(FOLDER.glob("*.yaml"))


def rules() -> Iterator[dict[str, Any]]:
    """Every rule of every file, as written."""
    for file in files():
        for group in yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]:
            yield from group["rules"]


def alerts() -> list[Alert]:
    """Every alerting rule, in the order of the files."""
    return [
        Alert(
            name=rule["alert"],
            expr=rule["expr"],
            severity=rule["labels"]["severity"],
            summary=rule["annotations"]["summary"],
            runbook=rule["annotations"]["runbook_url"],
        )
        for rule in rules()
        if "alert" in rule
    ]


def seconds_of(duration: str) -> float:
    """Seconds of a duration as Prometheus writes it: ``1h30m``. Raises ValueError."""
    parts = _DURATION.findall(duration)
    if not parts or "".join(number + unit for number, unit in parts) != duration:
        raise ValueError(f"found {duration!r}, expected a duration such as 5m")
    return float(sum(int(number) * _UNITS[unit] for number, unit in parts))


def shortened(text: str, factor: float, *, shortest_range: float) -> dict[str, Any]:
    """A rule file in which everything takes ``factor`` of its time: to see alerts fire without waiting for minutes.

    ``shortest_range``: seconds; no range gets shorter, for a rate needs two samples. Thresholds stay as they are.
    """
    document: dict[str, Any] = yaml.safe_load(text)

    def shorter(duration: str, least: float) -> str:
        return f"{max(round(seconds_of(duration) * factor * 1000), round(least * 1000), 1)}ms"

    def shorter_range(match: re.Match[str]) -> str:
        step = match[2]
        inner = "" if step is None else ":" if not step else f":{shorter(step, 1.0)}"
        return f"[{shorter(match[1], shortest_range)}{inner}]"

    for group in document["groups"]:
        if "interval" in group:
            group["interval"] = shorter(group["interval"], 1.0)
        for rule in group["rules"]:
            rule["expr"] = _RANGE.sub(shorter_range, rule["expr"])
            for field in ("for", "keep_firing_for"):
                if field in rule:
                    rule[field] = shorter(rule[field], 0.0)
    return document
