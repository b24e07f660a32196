"""The rule files: each alert fires under the series that it is about, and has a page that says what to do."""

import re
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from admission.figures.catalogue import AGENT, CONTROLLER
from tests.prometheus.programs import NoPrometheus, programs
from tests.prometheus.rules import alerts, files, rules, seconds_of, shortened
from tests.unit.deploy.monitoring.promtool import Case, run

ROOT = Path(__file__).parents[4]
RUNBOOKS = ROOT / "docs" / "runbooks"
CASES = [
    Case(**case)
    for case in yaml.safe_load(Path(__file__).with_name("alert_cases.yaml").read_text(encoding="utf-8"))
]
#: Metrics as they appear in expressions; of a histogram its parts.
KNOWN = {
    name
    for metric in (*CONTROLLER, *AGENT)
    for name in (
        [metric.name]
        if metric.kind != "histogram"
        else [f"{metric.name}_{part}" for part in ("bucket", "sum", "count")]
    )
}


#: Alerts about what Prometheus is told to scrape, or about what others measure: no fault of Muster causes them.
OF_OTHERS = {
    *("MusterAgentAway", "MusterBackupLate", "MusterCheckSilent", "MusterSeveralLeaders"),
    *("MusterGpuHot", "MusterGpuMemoryFull", "MusterGpuUtilisationHigh", "MusterGpuUtilisationLow"),
}


@pytest.fixture(scope="module")
def promtool() -> Path:
    try:
        return programs()["promtool"]
    except NoPrometheus as error:
        pytest.skip(str(error))


def test_each_alert_fires_when_it_should_and_says_so(promtool: Path, tmp_path: Path) -> None:
    by_name = {alert.name: alert for alert in alerts()}
    assert {case.alert for case in CASES} == by_name.keys()
    assert run(promtool, tmp_path, (case.document(by_name[case.alert]) for case in CASES)) == ""


def test_a_case_that_does_not_hold_is_noticed(promtool: Path, tmp_path: Path) -> None:
    [alert] = [alert for alert in alerts() if alert.name == CASES[0].alert]
    document = CASES[0].document(alert)
    document["alert_rule_test"][1]["exp_alerts"] = []
    assert "FAILED" in run(promtool, tmp_path, [document])


def test_a_quiet_cluster_fires_nothing(promtool: Path, tmp_path: Path) -> None:
    healthy = {
        'muster_leader{instance="a"}': "1x100",
        'muster_leader{instance="b"}': "0x100",
        'muster_turn_age_seconds{instance="a"}': "1x100",
        'muster_serving_process_up{instance="a",role="webhook"}': "1x100",
        'muster_serving_process_up{instance="b",role="webhook"}': "0x100",
        'muster_transaction_seconds_count{instance="a",outcome="unavailable"}': "3x100",
        'muster_decisions_total{what="drop"}': "1x100",
        'muster_informer_silent_seconds{kind="pods"}': "30x100",
        'muster_certificate_expiry_timestamp_seconds{role="read",certificate="serving"}': "5184000x100",
        'muster_certificate_lifetime_seconds{role="read",certificate="serving"}': "5184000x100",
        'up{job="muster-agent",instance="n1"}': "1x100",
    }
    document = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in healthy.items()],
        "alert_rule_test": [
            {"eval_time": "90m", "alertname": alert.name, "exp_alerts": []} for alert in alerts()
        ],
    }
    assert run(promtool, tmp_path, [document]) == ""


#: What a healthy cluster shows of all that alerts count.
HEALTHY = {
    'muster_leader{instance="a"}': "1x400",
    "muster_turn_age_seconds": "1x400",
    'muster_serving_process_up{role="webhook"}': "1x400",
    'muster_serving_process_up{role="read"}': "1x400",
    'muster_transaction_seconds_count{instance="a",outcome="committed"}': "0+100x400",
    'muster_api_writes_total{resource="pods",outcome="ok"}': "0+10000x400",
    'muster_turn_phase_seconds_bucket{phase="decide",le="1.0"}': "0+100000x400",
    'muster_turn_phase_seconds_bucket{phase="decide",le="+Inf"}': "0+100000x400",
}


def of_cluster(cluster: str, series: Mapping[str, str]) -> list[dict[str, str]]:
    """The series as promtool reads them, with the label ``cluster``."""
    split = [(*name.removesuffix("}").partition("{"), values) for name, values in series.items()]
    return [
        {"series": f'{metric}{{cluster="{cluster}",{labels}}}', "values": values}
        for metric, _, labels, values in split
    ]


def test_an_alert_of_one_cluster_is_not_hidden_by_another(promtool: Path, tmp_path: Path) -> None:
    by_name = {alert.name: alert for alert in alerts()}
    documents = []
    for case in CASES:
        document = case.document(by_name[case.alert])
        document["input_series"] = of_cluster("east", HEALTHY) + of_cluster("west", case.series)
        document["alert_rule_test"][1]["exp_alerts"][0]["exp_labels"]["cluster"] = "west"
        documents.append(document)
    assert run(promtool, tmp_path, documents) == ""


def no_leader(*, at: str, **labels: str) -> dict[str, Any]:
    """MusterNoLeader fires at that time, with these labels."""
    [case, *_] = [case for case in CASES if case.alert == "MusterNoLeader"]
    [alert] = [alert for alert in alerts() if alert.name == case.alert]
    return {**replace(case, fires=at, labels=labels).document(alert)["alert_rule_test"][1]}


def test_a_muster_that_was_never_scraped_has_no_leader(promtool: Path, tmp_path: Path) -> None:
    document = {"interval": "1m", "input_series": [], "alert_rule_test": [no_leader(at="2m")]}
    assert run(promtool, tmp_path, [document]) == ""


def test_a_cluster_of_which_nothing_is_left_is_known_for_a_day(promtool: Path, tmp_path: Path) -> None:
    gone = {'muster_leader{instance="a"}': "1x10 stale"}
    document = {
        "interval": "1m",
        "input_series": [
            *of_cluster("east", {'muster_leader{instance="a"}': "1x2000"}),
            *of_cluster("west", gone),
        ],
        "alert_rule_test": [
            no_leader(at="20m", cluster="west"),
            no_leader(at="24h", cluster="west"),
            {"eval_time": "24h15m", "alertname": "MusterNoLeader", "exp_alerts": []},
        ],
    }
    assert run(promtool, tmp_path, [document], every="5m") == ""


DAY = 86_400


@pytest.mark.parametrize(
    ("lives", "left", "fires"),
    [
        # cert-manager renews when a third is left.
        (90 * DAY, 30 * DAY, False),
        (90 * DAY, 15 * DAY, False),
        (90 * DAY, 13 * DAY, True),
        (7 * DAY, 7 * DAY, False),
        (7 * DAY, 2 * DAY, False),
        (7 * DAY, 1 * DAY, True),
        # Muster's own.
        (60 * DAY, 20 * DAY, False),
        (60 * DAY, 11 * DAY, True),
        (365 * DAY, 15 * DAY, False),
        (365 * DAY, 13 * DAY, True),
        (90 * DAY, -DAY, True),
    ],
)
def test_a_certificate_is_told_of_when_its_renewal_is_late_for_its_life(
    lives: int, left: int, fires: bool, promtool: Path, tmp_path: Path
) -> None:
    labels = 'role="webhook",certificate="serving"'
    query = 'count(ALERTS{alertname="MusterCertificateExpires",alertstate="firing"}) or vector(0)'
    document = {
        "interval": "1m",
        "input_series": [
            {"series": f"muster_certificate_expiry_timestamp_seconds{{{labels}}}", "values": f"{left}x40"},
            {"series": f"muster_certificate_lifetime_seconds{{{labels}}}", "values": f"{lives}x40"},
        ],
        "promql_expr_test": [
            {"expr": query, "eval_time": "30m", "exp_samples": [{"labels": "{}", "value": int(fires)}]}
        ],
    }
    assert run(promtool, tmp_path, [document]) == ""


#: Samples of counters, half a minute apart: transactions of an idle leader, and some that Postgres did not serve.
COMMITTED = "0+15x60"
HARMLESS = {
    "one that failed": "0x10 1x50",
    "one a minute, as when a backup holds an old partition": " ".join(f"{n // 2}" for n in range(60)),
    "a failover of half a minute": "0x10 20x50",
}


@pytest.mark.parametrize("unavailable", HARMLESS.values(), ids=HARMLESS)
def test_transactions_that_fail_now_and_then_are_no_outage(
    unavailable: str, promtool: Path, tmp_path: Path
) -> None:
    counted = "muster_transaction_seconds_count"
    document = {
        "interval": "30s",
        "input_series": [
            {"series": f'{counted}{{instance="a",outcome="committed"}}', "values": COMMITTED},
            {"series": f'{counted}{{instance="a",outcome="unavailable"}}', "values": unavailable},
        ],
        "alert_rule_test": [
            {
                "eval_time": f"{half / 2:g}m".replace(".5m", "m30s"),
                "alertname": "MusterPostgresUnreachable",
                "exp_alerts": [],
            }
            for half in range(60)
        ],
    }
    assert run(promtool, tmp_path, [document]) == ""


def test_the_page_shows_a_configuration_that_prometheus_reads(promtool: Path, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "monitor.md").read_text(encoding="utf-8")
    # The others are values of the chart.
    blocks = re.findall(r"^```yaml\n((?:scrape_configs|rule_files).*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    jobs = 0
    for block in blocks:
        # Debian's Prometheus is built without the discovery of pods.
        configuration, found = re.subn(r"kubernetes_sd_configs: .*", "static_configs: []", block)
        jobs += found
        file = tmp_path / "prometheus.yml"
        file.write_text(configuration, encoding="utf-8")
        done = subprocess.run(
            [promtool, "check", "config", "--syntax-only", file], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert jobs == 3


def test_rules_ask_for_metrics_that_there_are() -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    for rule in rules():
        asked = set(re.findall(r"\bmuster[_:][a-z0-9_:]+", rule["expr"]))
        assert asked <= KNOWN | recorded, rule


def test_each_alert_has_a_page_and_each_page_an_alert() -> None:
    pages = {alert.runbook: alert for alert in alerts()}
    assert len(pages) == len(alerts())
    found = {f"docs/runbooks/{page.name}" for page in RUNBOOKS.glob("*.md")} - {"docs/runbooks/README.md"}
    assert found == pages.keys()
    index = (RUNBOOKS / "README.md").read_text(encoding="utf-8")
    for path, alert in pages.items():
        text = (ROOT / path).read_text(encoding="utf-8")
        assert text.startswith(f"# {alert.name}\n\n*Severity: {alert.severity}."), path
        assert f"| {alert.name} | {alert.severity} | [{Path(path).stem}]({Path(path).name}) |" in index
        headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
        assert headings == ["What it means", "How to check", "What to do"], path


def test_each_alert_about_a_fault_of_muster_is_caused_in_a_running_muster() -> None:
    folder = ROOT / "tests" / "e2e" / "monitoring"
    caused = {
        name
        for module in folder.glob("test_alerts_*.py")
        for name in re.findall(r'\.fires\("(\w+)"', module.read_text(encoding="utf-8"))
    }
    assert caused == {alert.name for alert in alerts()} - OF_OTHERS


def test_severities_are_few_and_names_are_muster_s() -> None:
    assert {alert.severity for alert in alerts()} == {"critical", "warning"}
    assert all(re.fullmatch(r"Muster[A-Z][A-Za-z]+", alert.name) for alert in alerts())


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("1h30m", 5400), ("100ms", 0.1), ("2d", 172_800)])
def test_durations_are_read_as_prometheus_writes_them(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "m5", "5m x"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a duration"):
        seconds_of(text)


def test_a_file_is_shortened_but_for_its_thresholds(golden: Any) -> None:
    text = """
groups:
- name: g
  interval: 1m
  rules:
  - alert: A
    expr: increase(a_total[10m]) > 60 and max_over_time(b[1h:1m]) > 2
    for: 5m
  - record: b
    expr: rate(c[30s])
"""
    [group] = shortened(text, 1 / 60, shortest_range=5)["groups"]
    assert group["interval"] == "1000ms"
    assert group["rules"][0] == golden
    assert group["rules"][1]["expr"] == "rate(c[5000ms])"


def test_no_file_is_left_out() -> None:
    assert [file.name for file in files()] == ["devices.yaml", "muster.yaml", "queues.yaml", "slos.yaml"]
