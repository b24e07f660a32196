"""What the chart makes for the Prometheus operator and for Grafana."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from admission.kube.webhook.configuration import SECRET as SECRET_OF_MUSTER
from admission.kube.webhook.configuration import Callee
from tests.prometheus.rules import alerts
from tests.unit.deploy.chart_rendering import CHART, DEPLOY, SECRET, Key, given, rendered, values_file

ENABLED = given("monitoring.podMonitors.enabled=true")


def endpoint(made: dict[Key, Any], namespace: str = "muster-system", name: str = "muster") -> Any:
    """The only one of a PodMonitor."""
    (found,) = made["PodMonitor", namespace, name]["spec"]["podMetricsEndpoints"]
    return found


def test_metrics_that_are_open_are_read_where_health_is(helm_program: Path) -> None:
    made = rendered(helm_program, *SECRET, *ENABLED)
    assert endpoint(made) == {"port": "http", "path": "/metrics", "interval": "30s"}


def test_metrics_for_authorized_accounts_are_read_with_a_token_as_the_page_says(
    helm_program: Path, tmp_path: Path
) -> None:
    page = (DEPLOY.parent / "docs/how-to/monitor.md").read_text()
    (values,) = re.findall(r"```yaml\n(settings:.*?)```", page, re.DOTALL)
    arguments = values_file(tmp_path, yaml.safe_load(values))
    made = rendered(helm_program, *arguments, namespace="queues")
    found = endpoint(made, "queues")
    (container,) = made["Deployment", "queues", "muster"]["spec"]["template"]["spec"]["containers"]
    (port,) = [each["containerPort"] for each in container["ports"] if each["name"] == found["port"]]
    assert (port, found["scheme"], found["path"]) == (8443, "https", "/metrics")
    assert found["authorization"]["credentials"] == {"name": "muster-metrics", "key": "token"}
    assert found["tlsConfig"]["serverName"] in Callee(namespace="queues").names()
    assert found["tlsConfig"]["ca"]["secret"] == {"name": SECRET_OF_MUSTER, "key": "ca.crt"}
    agent = endpoint(made, "muster-agents", "muster-agent")
    assert (agent["port"], agent["honorLabels"]) == ("metrics", True), (
        "pods that have devices, not the agent's own"
    )


def test_the_authority_is_that_of_cert_manager_if_it_makes_the_certificates(helm_program: Path) -> None:
    token = ("settings.metricsAccess=authorized", "monitoring.podMonitors.tokenSecret.name=token")
    signed = ("webhook.certificates=cert-manager", "webhook.certManager.issuerRef.name=ca")
    made = rendered(helm_program, *SECRET, *ENABLED, *given(*token, *signed))
    certificate = made["Certificate", "muster-system", "muster"]["spec"]
    assert endpoint(made)["tlsConfig"]["ca"]["secret"]["name"] == certificate["secretName"]
    assert endpoint(made)["tlsConfig"]["serverName"] in certificate["dnsNames"]


def test_monitoring_is_made_of_the_files_of_the_chart(helm_program: Path) -> None:
    parts = ("podMonitors", "rules", "dashboards")
    values = given(*(f"monitoring.{part}.enabled=true" for part in parts))
    made = rendered(helm_program, *SECRET, *values)
    count = {kind: len([key for key in made if key[0] == kind]) for kind in ("PodMonitor", "PrometheusRule")}
    rules = sorted((CHART / "monitoring/rules").glob("*.yaml"))
    assert count == {"PodMonitor": 2, "PrometheusRule": len(rules)}
    for file in rules:
        rule = made["PrometheusRule", "muster-system", f"muster-{file.stem}"]
        assert rule["spec"] == yaml.safe_load(file.read_text())
    for file in (CHART / "monitoring/dashboards").glob("*.json"):
        board = made["ConfigMap", "muster-system", f"muster-{file.stem}"]
        assert board["data"] == {file.name: file.read_text()}


@pytest.mark.parametrize("base", ["https://git.example/muster/main/", "https://git.example/muster/main"])
def test_alerts_link_to_their_runbooks_where_users_read_them(helm_program: Path, base: str) -> None:
    values = given("monitoring.rules.enabled=true", f"monitoring.rules.runbookBase={base}")
    made = rendered(helm_program, *SECRET, *values)
    rules = [
        rule
        for key, document in made.items()
        if key[0] == "PrometheusRule"
        for group in document["spec"]["groups"]
        for rule in group["rules"]
    ]
    links = {rule["alert"]: rule["annotations"]["runbook_url"] for rule in rules if "alert" in rule}
    assert links == {one.name: f"https://git.example/muster/main/{one.runbook}" for one in alerts()}
