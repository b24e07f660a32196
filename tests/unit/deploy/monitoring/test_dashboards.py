"""The dashboards as Grafana gets them. That their queries have data is tried in ``tests/e2e/monitoring``."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.prometheus.dashboards import DASHBOARDS, PanelQuery, queries, replaced, variables
from tests.prometheus.programs import NoPrometheus, programs
from tests.prometheus.rules import rules
from tests.unit.deploy.monitoring.test_rules import KNOWN


@pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=DASHBOARDS)
def test_panels_have_numbers_and_places_of_their_own(dashboard: dict[str, Any]) -> None:
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
        assert panel["description"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"]) > 0


def test_each_dashboard_has_an_identity_of_its_own() -> None:
    assert len({dashboard["uid"] for dashboard in DASHBOARDS.values()}) == len(DASHBOARDS) == 5
    assert all(len(dashboard["uid"]) <= 40 for dashboard in DASHBOARDS.values())


@pytest.mark.parametrize("query", list(queries()), ids=lambda query: f"{query.dashboard}: {query.panel}")
def test_queries_ask_for_what_there_is(query: PanelQuery) -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    known = {*variables(DASHBOARDS[query.dashboard]), "__rate_interval"}
    assert set(re.findall(r"\bmuster[_:][a-z0-9_:]+", query.expr)) <= KNOWN | recorded
    assert set(re.findall(r"\$(\w+)", query.expr)) <= known


@pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=DASHBOARDS)
def test_every_series_of_a_panel_is_of_the_chosen_clusters(dashboard: dict[str, Any]) -> None:
    assert variables(dashboard)[:2] == ["datasource", "cluster"]
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            asked = re.findall(r"\b(?:muster[_:][a-z0-9_:]+|up)\b(.{0,21})", target["expr"])
            assert asked
            assert set(asked) <= {'{cluster=~"$cluster"}', '{cluster=~"$cluster",'}, target["expr"]


def test_prometheus_reads_every_query(tmp_path: Path) -> None:
    try:
        promtool = programs()["promtool"]
    except NoPrometheus as error:
        pytest.skip(str(error))
    chosen = {"cluster": ".*", "queue": "a", "resource": ".*"}
    asked = [
        {"record": "asked", "expr": replaced(query.expr, chosen), "labels": {"n": f"{number}"}}
        for number, query in enumerate(queries())
    ]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": asked}]}), encoding="utf-8")
    done = subprocess.run([promtool, "check", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
