"""The policies that follow from the documents: which kinds they are about, and that each request is looked at once."""

from typing import Any

import pytest

from admission.kube.policies.cel import JOB_CONTROLLER
from admission.kube.policies.policy_documents import (
    PolicyOptions,
    agent_policies,
    guard,
    mutating_policies,
    validating_policies,
)
from admission.workloads.kinds import known_kinds
from queues.api.api_resources import JOB_FLOWS, VOLCANO_CRON_JOBS, Document
from queues.api.workload_kinds import PASSING_KINDS

OPTIONS = PolicyOptions(identity="muster")
MUTATING, VALIDATING = (
    {
        document["metadata"]["name"]: document["spec"]
        for document in documents
        if "failurePolicy" in document["spec"]
    }
    for documents in (
        mutating_policies(OPTIONS),
        [*validating_policies(OPTIONS), *agent_policies("agent", "agents")],
    )
)


def kinds(spec: Document) -> set[tuple[str, str]]:
    rules = spec["matchConstraints"]["resourceRules"]
    return {(group, name) for rule in rules for group in rule["apiGroups"] for name in rule["resources"]}


def expressions(value: Any) -> list[str]:
    match value:
        case dict():
            return [text for key, inner in value.items() for text in expressions(inner) if key != "message"]
        case list():
            return [text for inner in value for text in expressions(inner)]
        case _:
            return [value] if isinstance(value, str) else []


def test_each_kind_that_muster_writes_on_is_kept_by_one_policy() -> None:
    keeping = [
        spec for name, spec in MUTATING.items() if name.startswith("muster-keep") or name == "muster-kinds"
    ]
    written = (
        [support.resource for support in known_kinds().supports]
        + [VOLCANO_CRON_JOBS, JOB_FLOWS]
        + [description.resource for description in PASSING_KINDS]
    )
    served = {(kind.group, kind.plural) for kind in written}
    # A rule about several groups names their resources together.
    assert sorted(kind for spec in keeping for kind in kinds(spec) & served) == sorted(served)


def test_what_differs_between_clusters_is_in_the_policies() -> None:
    other = mutating_policies(PolicyOptions(identity="me", scheduler="binder", aliases=("one", "two")))
    texts = "\n".join(expressions(other))
    assert "in ['one', 'two']" in texts
    assert "'binder'" in texts
    assert f"in ['me', '{JOB_CONTROLLER}']" in texts
    assert "default-scheduler" not in texts


@pytest.mark.parametrize("spec", [*MUTATING.values(), *VALIDATING.values()], ids=[*MUTATING, *VALIDATING])
def test_nothing_of_a_template_is_left_in_an_expression(spec: Document) -> None:
    assert not [text for text in expressions(spec) if "${" in text or "<%" in text]


@pytest.mark.parametrize("spec", VALIDATING.values(), ids=list(VALIDATING))
def test_conditions_have_no_variables_and_name_whose_requests_they_are_about(spec: Document) -> None:
    (condition,) = spec["matchConditions"]
    assert "variables." not in condition["expression"]
    assert condition["expression"].lstrip("(").startswith("request.userInfo.username ")


def test_a_request_that_keeps_all_rules_is_left_out_by_the_condition(golden: Any) -> None:
    entry = {
        "concerns": "is || was",
        "variables": {"a": "object.a", "ab": "object.ab"},
        "validations": [{"expression": "variables.a == variables.ab"}, {"expression": "x || y"}],
    }
    condition = guard("muster", entry)["matchConditions"]["breaks-a-rule"]
    assert " ".join(condition.split()) == golden
