"""Policies that write Kueue's names as Muster's: of which kinds, whatever is in the registry."""

from dataclasses import replace
from typing import Any

import pytest

from admission.kube.policies import kueue_names
from admission.workloads.kinds.operators.job_set import JOB_SET
from admission.workloads.kinds.operators.kubeflow import MPI_JOB
from admission.workloads.kinds.operators.spark import SPARK_APPLICATION


def of_operators() -> dict[str, Any]:
    policies = [each for each in kueue_names.kueue_policies() if "matchConstraints" in each["spec"]]
    [found] = [each for each in policies if each["metadata"]["name"] == "muster-kueue-operators"]
    spec: dict[str, Any] = found["spec"]
    return spec


def kinds(spec: dict[str, Any]) -> list[str]:
    return [name for rule in spec["matchConstraints"]["resourceRules"] for name in rule["resources"]]


def test_a_kind_whose_templates_are_at_no_fixed_place_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    without = replace(JOB_SET, templates=())
    monkeypatch.setattr(kueue_names, "OPERATOR_KINDS", (without, MPI_JOB, SPARK_APPLICATION))
    spec = of_operators()
    assert kinds(spec) == ["mpijobs"]
    [templates] = spec["variables"]
    assert "JobSet" not in templates["expression"]


def test_each_kind_of_the_registry_has_a_list_of_templates() -> None:
    spec = of_operators()
    assert {"jobsets", "mpijobs", "rayclusters"} <= set(kinds(spec))
    [templates] = spec["variables"]
    assert "?  :" not in templates["expression"]
