"""``muster convert`` makes of Kueue's objects the queues that the vectors are judged with."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from queues.api.convert.convert import convert_documents
from queues.api.types.queue import QueueDocument
from queues.quota.queue import ROOT, Limits, Queue
from queues.quota.tree import QueueTree
from queues.quota.usage import Usage
from queues.resources import amount, scale
from queues.workload import FlavorName, QueueName
from tests.builders.quota import available
from tests.vectors import preemption, quota_tree
from tests.vectors.cases import load

HERE = Path(__file__).parent
VERSION = "kueue.x-k8s.io/v1beta2"


def cases() -> list[Any]:
    every = [(kind, case) for kind in ("quota_tree", "preemption") for case in load(HERE / f"{kind}.json")]
    return [pytest.param(case, id=f"{kind}: {case['case']}") for kind, case in every]


def quantity(resource: str, units: int) -> str:
    """An amount of a vector as Kueue's users write it."""
    return f"{units}m" if resource == "cpu" else str(units)


def groups(member: dict[str, Any]) -> list[dict[str, Any]]:
    """Flavors of a queue or cohort, in one resource group."""
    flavors: dict[str, list[dict[str, Any]]] = {}
    for key, quota in (member.get("quotas") or {}).items():
        flavor, _, resource = key.partition("/")
        written = {"name": resource, "nominalQuota": quantity(resource, quota.get("nominal") or 0)}
        for name, field in (("borrowing_limit", "borrowingLimit"), ("lending_limit", "lendingLimit")):
            if quota.get(name) is not None:
                written[field] = quantity(resource, quota[name])
        flavors.setdefault(flavor, []).append(written)
    entries = [{"name": name, "resources": resources} for name, resources in flavors.items()]
    return [{"coveredResources": [], "flavors": entries}] if entries else []


def kueue_objects(case: dict[str, Any]) -> list[dict[str, Any]]:
    every = [*case["queues"], *quota_tree.cohorts(case)]
    flavors = {key.partition("/")[0] for each in every for key in each.get("quotas") or {}}
    objects: list[dict[str, Any]] = [
        {"kind": "ResourceFlavor", "metadata": {"name": name}, "spec": {"nodeLabels": {"flavor": name}}}
        for name in flavors
    ]
    for each in case["queues"]:
        spec = {
            "cohortName": _lower(each.get("parent")),
            "resourceGroups": groups(each),
            "namespaceSelector": {},
        }
        spec["preemption"] = each.get("preemption") or {}
        objects.append(
            {"kind": "ClusterQueue", "metadata": {"name": f"vector-{_lower(each['name'])}"}, "spec": spec}
        )
    for each in quota_tree.cohorts(case):
        spec = {"parentName": _lower(each.get("parent")), "resourceGroups": groups(each)}
        objects.append({"kind": "Cohort", "metadata": {"name": _lower(each["name"])}, "spec": spec})
    for each in objects:
        if each["kind"] == "Cohort":
            each["metadata"]["name"] = f"cohort-{each['metadata']['name']}"
        for field in ("cohortName", "parentName"):
            if each["spec"].get(field):
                each["spec"][field] = f"cohort-{each['spec'][field]}"
    return [{"apiVersion": VERSION, **each} for each in objects]


def _lower(name: str | None) -> str:
    return (name or "").lower().replace("_", "-")


def converted(case: dict[str, Any]) -> dict[QueueName, Queue]:
    done = convert_documents([("case.yaml", yaml.safe_dump_all(kueue_objects(case)))])
    assert [str(each) for each in done.differences if each.severity == "error"] == []
    queues = [QueueDocument.read(each).to_domain() for each in done.documents if each["kind"] == "Queue"]
    return {queue.name: queue for queue in queues}


def in_vector_units(limits: Limits) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """Guarantee, deserved and capability as the vectors count: cpu in thousandths, all else whole."""
    kinds = (dict(limits.guarantee), dict(limits.deserved), dict(limits.capability))
    return tuple(  # type: ignore[return-value]
        {name: units if name == "cpu" else units // scale(name) for name, units in kind.items()}
        for kind in kinds
    )


@pytest.mark.parametrize("case", cases())
def test_limits_and_parents_are_those_of_the_vectors(case: dict[str, Any]) -> None:
    wanted, found = quota_tree.queues(case), converted(case)
    assert {_lower(name) for name in wanted} == set(found)
    for name, queue in wanted.items():
        made = found[QueueName(_lower(name))]
        assert made.parent == _lower(queue.parent or ROOT)
        assert {
            flavor: (dict(limits.guarantee), dict(limits.deserved), dict(limits.capability))
            for flavor, limits in queue.flavors.items()
        } == {flavor: in_vector_units(limits) for flavor, limits in made.flavors.items()}


@pytest.mark.parametrize("case", cases())
def test_preemption_policies_are_those_of_the_vectors(case: dict[str, Any]) -> None:
    found = converted(case)
    for each in case["queues"]:
        rules, policy = (
            each.get("preemption") or {},
            found[QueueName(f"vector-{_lower(each['name'])}")].policy,
        )
        assert policy.within_queue == preemption._WITHIN[rules.get("withinClusterQueue", "Never")]
        assert policy.reclaim == preemption._RECLAIM[rules.get("reclaimWithinCohort", "Never")]
        borrows = (rules.get("borrowWithinCohort") or {}).get("policy", "Never") != "Never"
        assert (policy.borrow_max_priority is not None) == borrows


@pytest.mark.parametrize("case", load(HERE / "quota_tree.json"), ids=lambda case: case["case"])
def test_what_is_available_in_converted_queues_is_what_kueue_has_available(case: dict[str, Any]) -> None:
    tree = QueueTree.build(converted(case), None)
    assert not tree.problems
    usage = Usage(tree)
    names = {each["name"]: QueueName(f"cohort-{_lower(each['name'])}") for each in quota_tree.cohorts(case)}
    names |= {each["name"]: QueueName(f"vector-{_lower(each['name'])}") for each in case["queues"]}

    def account(key: str) -> Any:
        return quota_tree.Account(FlavorName(key.partition("/")[0]), key.partition("/")[2])

    def units(key: str, written: int) -> int:
        resource = key.partition("/")[2]
        return amount(resource, quantity(resource, written))

    for queue, book in (case.get("usage") or {}).items():
        usage.add(names[queue], {account(key): units(key, each) for key, each in book.items()})
    for queue, book in case["available"].items():
        for key, each in book.items():
            left = max(0, available(usage, names[queue], account(key)) or 0)
            assert left == units(key, max(0, each)), (queue, key)
