"""Pods that wait one by one under one owner are one line of ``kubectl muster pending``."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from admission.cli.plugin.pending import together
from queues.read_api.bodies import OwnerBody, ReasonBody, WaitingBody

WEB = OwnerBody(kind="deployment", name="web")


def item(name: str, owner: OwnerBody | None = None, **more: Any) -> WaitingBody:
    pod = WaitingBody(
        kind="pod",
        namespace="ml",
        name=name,
        uid=name,
        queue="train",
        position=1,
        priority=0,
        created="2026-11-21T09:00:00Z",
        pods=1,
        minimum=1,
        asks={"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "2"},
        owner=owner,
        reason=ReasonBody(code="NoFit", message="no room"),
    )
    return structs.replace(pod, **more)


def names(items: list[WaitingBody]) -> list[str]:
    return [f"{each.kind}/{each.name}" for each in items]


def test_pods_of_one_owner_are_one_line_with_all_that_they_ask() -> None:
    older = item("web-b", WEB, position=4, created="2026-11-21T08:00:00Z")
    lone, other = item("lone"), item("x", OwnerBody(kind="statefulset", name="db"))
    web, *rest = together([item("web-a", WEB, position=2), lone, older, item("web-c", WEB), other])
    assert names([web, *rest]) == ["deployment/web (3 pods)", "pod/lone", "pod/x"]
    assert (web.position, web.pods, web.created) == (2, 3, "2026-11-21T08:00:00Z")
    assert web.asks == {"cpu": "1500m", "memory": "3Gi", "nvidia.com/gpu": "6"}


def test_owners_of_one_name_in_other_queues_namespaces_or_of_other_kinds_stay_apart() -> None:
    different = [
        item("a", WEB),
        item("b", WEB, queue="other"),
        item("c", WEB, namespace="other"),
        item("d", OwnerBody(kind="statefulset", name="web")),
    ]
    assert together(different) == different


def test_the_reason_is_that_of_the_first_and_others_are_counted() -> None:
    limit = ReasonBody(code="QueueLimit", message="full")

    def message(*reasons: Any) -> Any:
        found = together([item(str(index), WEB, reason=each) for index, each in enumerate(reasons)])
        return found[0].reason and found[0].reason.message

    no_fit = item("a").reason
    assert message(no_fit, no_fit) == "no room"
    assert message(no_fit, limit) == "no room (1 pod waits for another reason)"
    assert message(no_fit, limit, None) == "no room (2 pods wait for another reason)"
    assert message(None, no_fit) is None


@given(st.lists(st.sampled_from(["", "web", "db"]), max_size=12))
def test_no_pod_is_lost_and_no_request(owners: list[str]) -> None:
    items = [
        item(str(index), OwnerBody(kind="deployment", name=owner) if owner else None)
        for index, owner in enumerate(owners)
    ]
    found = together(items)
    assert sum(each.pods for each in found) == len(items)
    assert sum(int(each.asks["nvidia.com/gpu"]) for each in found) == 2 * len(items)
