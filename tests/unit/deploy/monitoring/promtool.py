"""``promtool test rules`` on the cases in ``alert_cases.yaml``."""

import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.prometheus.rules import Alert, files
from tests.waiting import LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Series under which an alert fires, and when."""

    alert: str
    #: Series → values, a minute apart, as promtool writes them.
    series: Mapping[str, str]
    #: It does not fire yet then, and does then.
    quiet: str
    fires: str
    summary: str
    labels: Mapping[str, str] = field(default_factory=dict)

    def document(self, alert: Alert) -> dict[str, Any]:
        """The case as promtool reads it."""
        expected = {
            "exp_labels": {"severity": alert.severity, **self.labels},
            "exp_annotations": {"summary": self.summary, "runbook_url": alert.runbook},
        }
        return {
            "name": self.alert,
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in self.series.items()],
            "alert_rule_test": [
                {"eval_time": self.quiet, "alertname": self.alert, "exp_alerts": []},
                {"eval_time": self.fires, "alertname": self.alert, "exp_alerts": [expected]},
            ],
        }


def run(promtool: Path, folder: Path, tests: Iterable[Mapping[str, Any]], *, every: str = "1m") -> str:
    """What promtool complains of; empty: all holds. ``every``: between two evaluations of the rules."""
    file = folder / "rules.test.yaml"
    document = {
        "rule_files": [str(path) for path in files()],
        "evaluation_interval": every,
        "tests": list(tests),
    }
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    done = subprocess.run(
        [promtool, "test", "rules", file], capture_output=True, text=True, timeout=LIMIT, check=False
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr
