"""The dashboards as Grafana gets them. That their queries have data is tried in ``tests/e2e/monitoring``."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.monitoring.dashboards import DASHBOARDS, FOLDER, texts
from deploy.monitoring.panels import Dashboard, Panel, of_chosen_clusters, replaced
from deploy.monitoring.prometheus import NoPrometheus, programs
from deploy.monitoring.rules import rules
from tests.unit.deploy.monitoring.test_rules import KNOWN

EVERY = [(name, panel) for name, dashboard in DASHBOARDS.items() for panel in dashboard.panels]
IDS = [f"{name}: {panel.title}" for name, panel in EVERY]


@pytest.mark.parametrize("name", texts())
def test_a_file_is_what_the_code_says(name: str) -> None:
    written = (FOLDER / name).read_text(encoding="utf-8")
    assert written == texts()[name], "run python -m deploy.monitoring.dashboards"
    assert {path.name for path in FOLDER.iterdir()} == texts().keys()


@pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=DASHBOARDS)
def test_panels_have_numbers_and_places_of_their_own(dashboard: Dashboard) -> None:
    document: dict[str, Any] = json.loads(json.dumps(dashboard.document()))
    panels = document["panels"]
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
    assert len({dashboard.uid for dashboard in DASHBOARDS.values()}) == len(DASHBOARDS)
    assert all(len(dashboard.uid) <= 40 for dashboard in DASHBOARDS.values())


@pytest.mark.parametrize(("name", "panel"), EVERY, ids=IDS)
def test_queries_ask_for_what_there_is(name: str, panel: Panel) -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    variables = {variable.name for variable in DASHBOARDS[name].variables}
    for query in panel.queries:
        assert set(re.findall(r"\bmuster[_:][a-z0-9_:]+", query.expr)) <= KNOWN | recorded
        assert set(re.findall(r"\$(\w+)", query.expr)) <= variables | {"__rate_interval"}


@pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=DASHBOARDS)
def test_every_series_of_a_panel_is_of_the_chosen_clusters(dashboard: Dashboard) -> None:
    document: dict[str, Any] = json.loads(json.dumps(dashboard.document()))
    assert [each["name"] for each in document["templating"]["list"]][:2] == ["datasource", "cluster"]
    for panel in document["panels"]:
        for target in panel["targets"]:
            asked = re.findall(r"\b(?:muster[_:][a-z0-9_:]+|up)\b(.{0,21})", target["expr"])
            assert asked
            assert set(asked) <= {'{cluster=~"$cluster"}', '{cluster=~"$cluster",'}, target["expr"]


def test_prometheus_reads_every_query(tmp_path: Path) -> None:
    try:
        promtool = programs()["promtool"]
    except NoPrometheus as error:
        pytest.skip(str(error))
    queries = [
        {
            "record": "asked",
            "expr": replaced(
                of_chosen_clusters(query.expr), {"cluster": ".*", "queue": "a", "resource": ".*"}
            ),
            "labels": {"n": f"{n}"},
        }
        for n, query in enumerate(query for _, panel in EVERY for query in panel.queries)
    ]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": queries}]}), encoding="utf-8")
    done = subprocess.run([promtool, "check", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
