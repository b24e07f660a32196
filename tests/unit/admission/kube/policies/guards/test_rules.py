"""A policy that denies looks twice only at a request that breaks a rule."""

from typing import Any

import pytest

from admission.kube.policies.guards.rules import guard, rule, variable
from admission.kube.policies.mutating import PolicyOptions
from admission.kube.policies.validating import validating_policies
from queues.api.api_resources import PODS, Document

OPTIONS = PolicyOptions(identity="muster")
POLICIES = [each for each in validating_policies(OPTIONS) if each["kind"] == "ValidatingAdmissionPolicy"]


def test_a_request_that_keeps_all_rules_is_left_out_by_the_condition(golden: Any) -> None:
    rules = [rule("variables.a == variables.ab", "'…'"), rule("x || y", "'…'")]
    variables = [variable("a", "object.a"), variable("ab", "object.ab")]
    policy, _ = guard(
        "some", [PODS.rule(["CREATE"])], rules, OPTIONS, concerns="is || was", variables=variables
    )
    (condition,) = policy["spec"]["matchConditions"]
    assert " ".join(condition["expression"].split()) == golden


@pytest.mark.parametrize("policy", POLICIES, ids=lambda each: str(each["metadata"]["name"]))
def test_conditions_have_no_variables(policy: Document) -> None:
    assert not any("variables." in each["expression"] for each in policy["spec"]["matchConditions"])
