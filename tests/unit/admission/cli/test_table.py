"""Tables as kubectl prints them."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from admission.cli.output import Output
from admission.cli.page.layout import form
from admission.cli.plugin.pending import pending_table, together
from admission.cli.rendering.terminal import amounts, short_names, table
from queues.read_api.bodies import OwnerBody, PendingList, ReasonBody, WaitingBody
from tests.fakes.fake_reader import waiting
from tests.fakes.read_api.fake_lists import NOW
from tests.tables import with_rows


def test_no_cell_commands_the_terminal_or_begins_a_line() -> None:
    text = table(["NAME", "WHY"], [["a\x1b[2Jb", "first\nsecond"], ["é└─", None]])
    assert text == "NAME     WHY\na\ufffd[2Jb   first\ufffdsecond\né└─      -\n"


def test_names_that_would_be_called_the_same_are_not_shortened() -> None:
    assert short_names("4 nvidia.com/gpu on topology.muster.dev/rack r1") == "4 gpu on rack r1"
    assert short_names("2 amd.com/gpu and 4 nvidia.com/gpu, 8 nvidia.com/gpu again: 1 rack.io/r") == (
        "2 amd.com/gpu and 4 nvidia.com/gpu, 8 nvidia.com/gpu again: 1 r"
    )
    assert (
        amounts({"amd.com/gpu": "1", "cpu": "4", "nvidia.com/gpu": "2"}) == "1 amd.com/gpu, 2 nvidia.com/gpu"
    )
    assert amounts({"nvidia.com/gpu": "2"}) == "2 gpu"


@with_rows("text")
def test_what_is_there_to_be_copied_is_not_shortened(text: str) -> None:
    assert short_names(f"4 nvidia.com/gpu in one example.com/rack: {text}") == f"4 gpu in one rack: {text}"


def test_a_list_of_waiting_work_tells_gpus_of_two_makers_apart_and_wrong_names_in_full() -> None:
    unknown = "no node offers nvidia.com/gpus; did you mean nvidia.com/gpu?"
    items = (
        structs.replace(
            waiting("a", 1), asks={"amd.com/gpu": "1"}, reason=ReasonBody(code="NoFit", message="no gpu")
        ),
        structs.replace(
            waiting("b", 2),
            asks={"nvidia.com/gpu": "1"},
            reason=ReasonBody(code="UnknownResource", message=unknown),
        ),
    )
    body = PendingList(now="2026-11-21T10:00:00Z", total=2, total_everywhere=2, items=items)
    first, title, second = pending_table(body, Output(headers=False), everywhere=False).splitlines()
    assert title == "Waiting does not help these:"
    assert " 1 amd.com/gpu " in first
    assert " 1 nvidia.com/gpu " in second
    assert second.endswith(unknown)


def test_the_page_tells_gpus_of_two_makers_apart_too() -> None:
    items = tuple(
        structs.replace(waiting(each, 1), asks={f"{each}.com/gpu": "1"}) for each in ("amd", "nvidia")
    )
    shown = form("forms.html", "waiting_table", items, NOW, 2)
    assert "1 amd.com/gpu" in shown
    assert "1 nvidia.com/gpu" in shown
    assert "1 gpu" in form("forms.html", "waiting_table", items[:1], NOW, 1)


# ── pods of owners ──────────────────────────────────────────────────────────────────────────────────────────


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
