"""The Cluster of CloudNativePG that the chart makes, with further fields that an administrator gives."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.deploy.chart_rendering import DEPLOY, given, rendered, secret_of, values_file

FROM_BACKUP = {"source": "before", "recoveryTarget": {"targetImmediate": True}}


def cluster(program: Path, folder: Path, **values: Any) -> Any:
    """Its spec."""
    told = values_file(folder, {"database": {"cloudNativePG": {"enabled": True, **values}}}, database=False)
    return rendered(program, *told)["Cluster", "muster-system", "muster-postgres"]["spec"]


def test_a_database_of_the_operator_is_used_by_its_secret(helm_program: Path) -> None:
    made = rendered(helm_program, *given("database.cloudNativePG.enabled=true"))
    spec = made["Cluster", "muster-system", "muster-postgres"]["spec"]
    assert spec["bootstrap"] == {"initdb": {"database": "muster", "owner": "muster"}}
    assert (spec["instances"], spec["storage"]) == (3, {"size": "20Gi"})
    assert secret_of(made) == ("muster-postgres-app", "uri")


def test_further_fields_override_those_of_the_chart(helm_program: Path, tmp_path: Path) -> None:
    spec = cluster(
        helm_program,
        tmp_path,
        storage={"size": "50Gi"},
        spec={"instances": 5, "storage": {"storageClass": "fast"}, "enablePDB": False},
    )
    assert spec["instances"] == 5
    assert spec["storage"] == {"size": "50Gi", "storageClass": "fast"}
    assert spec["enablePDB"] is False
    assert "initdb" in spec["bootstrap"]


def test_a_recovery_takes_the_place_of_an_empty_database(helm_program: Path, tmp_path: Path) -> None:
    spec = cluster(helm_program, tmp_path, spec={"bootstrap": {"recovery": FROM_BACKUP}})
    # The operator writes the Secret with the DSN for these.
    assert spec["bootstrap"] == {"recovery": {**FROM_BACKUP, "database": "muster", "owner": "muster"}}


def test_the_owner_of_a_database_that_is_recovered_is_a_value(helm_program: Path, tmp_path: Path) -> None:
    spec = cluster(helm_program, tmp_path, spec={"bootstrap": {"recovery": {"owner": "ledger"}}})
    assert spec["bootstrap"] == {"recovery": {"database": "muster", "owner": "ledger"}}


def test_for_a_restore_there_may_be_no_replica(helm_program: Path, tmp_path: Path) -> None:
    made = rendered(helm_program, *values_file(tmp_path, {"replicas": 0}))
    assert made["Deployment", "muster-system", "muster"]["spec"]["replicas"] == 0
    budget = made["PodDisruptionBudget", "muster-system", "muster"]["spec"]
    assert budget["maxUnavailable"] == 1


SYNCHRONOUS = {"method": "any", "number": 1, "dataDurability": "required"}


def test_commits_wait_for_a_standby_as_the_page_demands(helm_program: Path, tmp_path: Path) -> None:
    page = (DEPLOY.parent / "docs/how-to/postgres-ha.md").read_text()
    (example,) = [
        each for each in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "kind: Cluster" in each
    ]
    parameters = {"parameters": {"shared_buffers": "1GB"}}
    made = cluster(helm_program, tmp_path, instances=2, spec={"postgresql": parameters})
    assert made["postgresql"] == yaml.safe_load(example)["spec"]["postgresql"]
    assert made["postgresql"]["synchronous"] == SYNCHRONOUS


@pytest.mark.parametrize(
    ("values", "postgresql"),
    [
        ({"instances": 1}, None),
        ({"spec": {"instances": 1}}, None),
        ({"instances": 1, "spec": {"instances": 3}}, {"synchronous": SYNCHRONOUS}),
        ({"spec": {"minSyncReplicas": 1, "maxSyncReplicas": 1}}, None),
        (
            {"spec": {"postgresql": {"synchronous": {"method": "first", "number": 2}}}},
            {"synchronous": {"method": "first", "number": 2}},
        ),
    ],
)
def test_how_a_commit_is_replicated_is_a_value(
    helm_program: Path, tmp_path: Path, values: dict[str, Any], postgresql: Any
) -> None:
    assert cluster(helm_program, tmp_path, **values).get("postgresql") == postgresql
