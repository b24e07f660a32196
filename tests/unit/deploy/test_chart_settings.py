"""Settings in the values of the chart: what Muster would refuse when it starts is refused when they are rendered."""

from pathlib import Path
from typing import Any

import pytest

from admission.settings import read
from queues.errors import InvalidSettings
from tests.tables import with_rows
from tests.unit.deploy.chart_rendering import SECRET, environment, given, refused, rendered, values_file

TOGETHER = "expected a sum below 15"
HALF = "expected at most half of leaseSeconds"


def variables(settings: dict[str, Any]) -> dict[str, str]:
    """As the chart writes them."""
    words = {"leaseSeconds": "LEASE_SECONDS", "retrySeconds": "RETRY_SECONDS"} | {
        "backoffSeconds": "BACKOFF_SECONDS",
        "backoffMaxSeconds": "BACKOFF_MAX_SECONDS",
        "retentionDecisionsDays": "RETENTION_DECISIONS_DAYS",
    }
    return {f"MUSTER_{words[name]}": str(value) for name, value in settings.items()}


@with_rows("settings", "told")
def test_what_muster_refuses_the_chart_refuses(
    helm_program: Path, tmp_path: Path, settings: dict[str, Any], told: str
) -> None:
    with pytest.raises(InvalidSettings):
        read(environment=variables(settings))
    assert told in refused(helm_program, *values_file(tmp_path, {"settings": settings}))


@with_rows("settings")
def test_what_muster_takes_the_chart_takes(
    helm_program: Path, tmp_path: Path, settings: dict[str, Any]
) -> None:
    wanted = variables(settings)
    read(environment=wanted)
    made = environment(rendered(helm_program, *values_file(tmp_path, {"settings": settings})))
    assert {name: made[name]["value"] for name in wanted} == wanted


def test_sections_without_a_value_are_as_by_default(helm_program: Path, tmp_path: Path) -> None:
    """All lines below them are comments."""
    empty = {"settings": None, "serviceAccount": None, "agent": {"image": None}}
    told = given("monitoring.podMonitors.enabled=true")
    made = rendered(helm_program, *values_file(tmp_path, empty), *told)
    assert made == rendered(helm_program, *SECRET, *told)
