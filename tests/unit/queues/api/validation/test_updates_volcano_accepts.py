"""Updates that Volcano accepts are accepted, but for those on the list in the documentation."""

from pathlib import Path
from typing import Any

import pytest

from admission.kube.policies.policy_documents import PolicyOptions, validating_policies
from queues.api.check.document import documents_of
from queues.api.types.podgroup import PodGroup
from queues.api.types.volcano_job import VolcanoJob
from queues.api.validation.known import Known
from queues.api.validation.validation import kind_of, violations_of
from tests.builders.valid_documents import JOB as JOB_TEXT
from tests.builders.valid_documents import POD_GROUP as POD_GROUP_TEXT
from tests.builders.valid_documents import TREE, changed, of_kind

ROOT = Path(__file__).parents[5]
Document = dict[str, Any]


JOB, POD_GROUP = changed(JOB_TEXT), changed(POD_GROUP_TEXT)
JOB_SPEC = JOB["spec"]
SVC = changed(JOB, ("metadata", "name", "n" * 50), ("spec", "tasks", 0, "name", "worker"))
CLAIM = changed(JOB, ("spec", "volumes", [{"mountPath": "/a", "volumeClaim": {}}]))
CRON = of_kind("CronJob", {"schedule": "@daily", "jobTemplate": {"spec": JOB_SPEC}})
TEMPLATE = of_kind("JobTemplate", JOB_SPEC)
FLOW = of_kind("JobFlow", {"flows": [{"name": "a"}]})
TIERS = {"highestTierAllowed": 1, "highestTierName": "rack"}
#: Result → (object, change) for each kind; None: a policy refuses it, which other tests try.
ON_THE_LIST: dict[str, list[tuple[Document, tuple[Any, ...]]] | None] = {
    "a pod's name of more than 63 characters": [(SVC, ("spec", "tasks", 0, "replicas", 10**6))],
    "a class of the system as `priorityClassName`": None,
    "`volumeClaimName` beside `volumeClaim`": [(CLAIM, ("spec", "volumes", 0, "volumeClaimName", "b"))],
    "another `muster.dev/user`": None,
    "a queue that does not exist, is closed, is `root` or has children": [
        (POD_GROUP, ("spec", "queue", queue)) for queue in ("nowhere", "root")
    ],
    "amounts or selectors that cannot be read": [
        (POD_GROUP, ("spec", "minResources", {"cpu": "much"})),
        (POD_GROUP, ("spec", "subGroupPolicy", [{"name": "a", "labelSelector": {"matchLabel": {}}}])),
    ],
    "both `highestTierAllowed` and `highestTierName`": [(POD_GROUP, ("spec", "networkTopology", TIERS))],
    "a Job that would be refused": [
        (CRON, ("spec", "jobTemplate", "spec", "tasks", [])),
        (TEMPLATE, ("spec", "tasks", [])),
    ],
    "a schedule in which no Job can start": [(CRON, ("spec", "schedule", "every day"))],
    "a name of a Job that is too long, or is none": [(FLOW, ("spec", "flows", [{"name": "A"}]))],
}


def test_the_list_is_the_documented_one() -> None:
    page = (ROOT / "docs/how-to/migrate-from-volcano.md").read_text()
    rows = page[page.index("## Updates that Volcano accepts") :].splitlines()
    listed = [row.split("|")[1].strip() for row in rows if row.startswith("|")][2:]
    assert listed == list(ON_THE_LIST)


@pytest.mark.parametrize("result", [result for result, tried in ON_THE_LIST.items() if tried])
def test_what_is_on_the_list_is_refused_with_its_field(result: str) -> None:
    for before, change in ON_THE_LIST[result] or ():
        known = Known(queues=TREE)
        assert not [each for each in violations_of(before, Known()) if not each.tolerable]
        refused = [
            each for each in violations_of(changed(before, change), known, old=before) if not each.tolerable
        ]
        assert refused
        assert all(each.path.startswith(("spec", "metadata")) for each in refused)


def test_what_a_policy_refuses_is_on_the_list() -> None:
    """No other rule of a policy is about updates of Volcano's kinds."""
    documents = validating_policies(PolicyOptions(identity="muster"))
    policies = {each["metadata"]["name"]: each for each in documents if "validations" in each["spec"]}
    rules = [
        rule["messageExpression"]
        for rule in policies["muster-guard-volcano"]["spec"]["validations"]
        if not rule["expression"].startswith("!(request.operation == 'CREATE'")
    ]
    words = ("priorityClassName", "muster.dev/user", "job updates may not")
    assert all(any(word in rule for word in words) for rule in rules)


def updates(document: Document) -> list[Document]:
    """Changes that Volcano accepts, of any Job."""
    tasks = document["spec"]["tasks"]
    found = [
        changed(document, ("metadata", "labels", {"a": "b"})),
        changed(document, ("metadata", "annotations", {"a": "b"})),
        changed(document, ("spec", "priorityClassName", "high")),
        changed(document, ("spec", "minAvailable", 1)),
        changed(document, ("spec", "minAvailable", None)),
    ]
    for index, task in enumerate(tasks):
        at = ("spec", "tasks", index)
        replicas = task.get("replicas") or 0
        if not task.get("partitionPolicy"):
            freed = changed(document, (*at, "minAvailable", None), ("spec", "minAvailable", None))
            found.append(changed(freed, (*at, "replicas", replicas + 1)))
            if replicas > 1:
                found.append(changed(freed, (*at, "replicas", replicas - 1)))
                found.append(changed(document, (*at, "minAvailable", replicas)))
        found.append(changed(document, (*at, "template", "metadata", "creationTimestamp", None)))
    return found


EXAMPLES = [
    pytest.param(document.value, id=f"{path.stem}-{document.number}")
    for path in sorted((ROOT / "tests/unit/queues/api/check/accepted_examples").glob("*.yaml"))
    for document in documents_of(path.read_text())
    if kind_of(document.value) in (VolcanoJob, PodGroup)
]


@pytest.mark.parametrize("document", [JOB, *EXAMPLES])
def test_updates_that_volcano_accepts_are_accepted(document: Document) -> None:
    if kind_of(document) is PodGroup:
        assert violations_of(changed(document, ("spec", "minMember", 7)), Known(), old=document) == []
        return
    for update in updates(document):
        refused = [each for each in violations_of(update, Known(), old=document) if not each.tolerable]
        assert refused == []
