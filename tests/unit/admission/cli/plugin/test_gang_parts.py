"""A gang and its elastic parts are shown as one."""

from typing import Any

from msgspec import structs

from admission.cli.rendering.explanation import with_their_parts
from queues.read_api.bodies import AdmissionBody, ReasonBody, SeatsBody


def held(number: int, ordinals: str, node: str = "n1", **more: Any) -> AdmissionBody:
    seats = SeatsBody(
        node=node, pod_set="worker", ordinals=ordinals, count=1, takes={"nvidia.com/gpu": "1"}, flavor=""
    )
    admission = AdmissionBody(
        id=number,
        queue="team",
        state="open",
        eviction=None,
        adopted=False,
        opened="2026-11-26T12:00:00Z",
        ended=0,
        seats=(seats,),
    )
    return structs.replace(admission, **more)


def test_parts_that_came_with_their_gang_are_shown_with_it() -> None:
    (gang,) = with_their_parts([held(9, "3", "n2"), held(8, "2"), held(7, "0-1")])
    assert (gang.id, gang.parts) == (7, 2)
    assert [(each.node, each.ordinals, each.count) for each in gang.seats] == [
        ("n1", "0-1,2", 2),
        ("n2", "3", 1),
    ]


def test_what_joined_later_or_is_evicted_stays_by_itself() -> None:
    later = held(9, "3", opened="2026-11-26T13:00:00Z")
    evicted = held(8, "2", state="evicting", eviction=ReasonBody(code="Reclaimed", message="for another"))
    found = with_their_parts([later, evicted, held(7, "0-1")])
    assert [(each.id, each.parts) for each in found] == [(9, 0), (8, 0), (7, 0)]
