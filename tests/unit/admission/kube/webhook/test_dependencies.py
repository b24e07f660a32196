"""What is said at once about work that comes after other work."""

from typing import Any

import pytest

from admission.kube.webhook.dependencies import dependency_violations
from queues.api.api_resources import JOBS, POD_GROUPS, VOLCANO_JOBS, ApiResource, Document

MADE = "2026-11-30T10:00:00Z"


def an_object(name: str, after: str | None, resource: ApiResource = JOBS, reason: str = "") -> Document:
    """An object in a queue; ``reason``: what its status says of why it waits."""
    annotations = {} if after is None else {"muster.dev/after": after}
    metadata = {"name": name, "annotations": annotations, "creationTimestamp": MADE}
    status: Document = {"conditions": [{"type": "muster.dev/Admitted", "status": "False", "reason": reason}]}
    if resource is VOLCANO_JOBS:
        status = {"state": {"phase": "Pending", "reason": reason}}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {**metadata, "labels": {"muster.dev/queue-name": "team"}},
        "status": status,
    }


async def said(
    document: Document, *others: Document, old: Document | None = None
) -> tuple[list[str], list[str]]:
    """Refusals and warnings about an object in a namespace with these others."""

    async def find(resource: ApiResource, namespace: str, name: str) -> Any:
        assert namespace == "ns"
        kind = (resource.api_version, resource.kind, name)
        return next((e for e in others if (e["apiVersion"], e["kind"], e["metadata"]["name"]) == kind), None)

    found = await dependency_violations(document, old, "ns", find)
    assert all(each.path == "metadata.annotations[muster.dev/after]" for each in found)
    messages = [(each.tolerable, f"{each.found} | {each.expected}") for each in found]
    return [text for mild, text in messages if not mild], [text for mild, text in messages if mild]


async def test_what_cannot_be_read_is_refused_and_another_kind_may_come() -> None:
    assert (await said(an_object("b", "a")))[0] == [
        "'a' | KIND/NAME, with :ok or :any where wanted, separated by commas: job/prepare, vcjob/train:any"
    ]
    assert (await said(an_object("b", "job/b")))[0] == ["job/b, its own name | other workloads"]
    refusals, warnings = await said(an_object("b", "deployment/web"))
    assert refusals == []
    assert warnings[0].startswith("deployment/web | a kind whose objects wait in queues: ")
    assert await said(an_object("b", None)) == ([], [])


async def test_a_name_without_a_known_end_is_a_warning() -> None:
    outside = an_object("outside", None)
    outside["metadata"]["labels"] = {}
    group = {**outside, "apiVersion": POD_GROUPS.api_version, "kind": POD_GROUPS.kind}
    new = an_object("b", "job/a, job/missing, job/outside, podgroup/outside")
    assert await said(new, an_object("a", None), outside, group) == (
        [],
        [
            "job/missing, which does not exist | one that exists, or has ended in a queue; else this waits until there "
            "is one",
            "job/outside, which is in no queue | work in a queue, whose end is known; else this waits without end",
        ],
    )


@pytest.mark.parametrize("kind", [JOBS, VOLCANO_JOBS], ids=["job", "vcjob"])
async def test_a_cycle_is_refused_if_the_others_wait_for_a_name_that_nothing_has(kind: ApiResource) -> None:
    word = "job" if kind is JOBS else "vcjob"
    new = an_object("b", f"{word}/a")
    waits = an_object("a", "job/b", kind, "DependencyMissing")
    told = f"job/b and {word}/a, each after the next and the last after the first | no cycle"
    assert await said(new, waits) == ([told], [])
    for reason in (
        "",
        "NoFit",
        "WaitsForDependency",
    ):  # it runs, or it waits for one that had the name before
        assert await said(new, an_object("a", "job/b", kind, reason)) == ([], [])
    middle = an_object("a", "job/c", kind, "WaitsForDependency")
    [longer], _ = await said(new, middle, an_object("c", "job/b", reason="DependencyMissing"))
    assert longer.startswith(f"job/b, {word}/a and job/c, each after the next")


async def test_a_cycle_with_one_that_states_no_reason_yet_is_refused_if_it_can_mean_no_other() -> None:
    before, after = an_object("b", None), an_object("b", "job/a")
    undecided = {**an_object("a", "job/b:any"), "spec": {"suspend": True}}
    assert (await said(after, undecided, old=before))[0]
    _, [warning] = await said(after, undecided)
    assert warning.endswith("that it means an earlier job/b, which has ended; else both wait without end")
    assert await said(after, {**undecided, "spec": {"suspend": False}}) == ([], [])
    assert await said(after, {**an_object("a", "job/b", reason="NoFit"), "spec": {"suspend": True}}) == (
        [],
        [],
    )


async def test_a_change_that_closes_a_cycle_is_refused_if_the_others_came_later() -> None:
    before, after = an_object("b", None), an_object("b", "job/a")
    waits = an_object("a", "job/b", reason="WaitsForDependency")
    assert (await said(after, waits, old=before))[0]
    waits["metadata"]["creationTimestamp"] = "2026-11-30T09:59:59Z"
    assert await said(after, waits, old=before) == ([], [])
