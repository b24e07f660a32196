"""What pods tolerate by their flavor is added to what their users wrote, and told from it afterwards."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from queues.api.flavor_tolerations import document, listed, missing, own_filter, own_tolerations
from queues.api.names import FLAVOR_TOLERATIONS
from queues.workload import NodeFilter, Toleration

TOLERATIONS = st.builds(
    Toleration,
    key=st.sampled_from(("gpu", "team", "spot")),
    operator=st.sampled_from(("Exists", "Equal")),
    value=st.sampled_from(("", "a")),
    effect=st.sampled_from(("", "NoSchedule", "NoExecute")),
    seconds=st.none() | st.just(30),
)
LISTS = st.lists(TOLERATIONS, max_size=4)
#: As the API server appends them to each pod.
APPENDED = [Toleration("node.kubernetes.io/not-ready", "Exists", "", "NoExecute", 300)]


@given(own=LISTS, of_flavor=LISTS, of_next=LISTS)
def test_what_users_wrote_is_what_is_left(
    own: list[Toleration], of_flavor: list[Toleration], of_next: list[Toleration]
) -> None:
    written = list(map(document, own))
    added = missing(own, of_flavor)
    assert added == missing(written, of_flavor), "read of a template or of a pod"
    annotations = {FLAVOR_TOLERATIONS: listed(added)} if added else {}
    spec: dict[str, Any] = {"tolerations": [*written, *added, *map(document, APPENDED)]}
    left = own_tolerations(spec, annotations)
    assert left == [*written, *map(document, APPENDED)]
    assert missing(left, of_next) == missing(own, of_next), (
        "the next flavor adds what it would have added first"
    )

    read = NodeFilter(tolerations=tuple(Toleration(**_fields(each)) for each in spec["tolerations"]))
    assert own_filter(read, annotations).tolerations == read.tolerations[: len(own)] + read.tolerations[-1:]


@given(own=LISTS, of_flavor=LISTS)
def test_each_toleration_is_there_once(own: list[Toleration], of_flavor: list[Toleration]) -> None:
    added = missing(own, of_flavor)
    assert missing([*map(document, own), *added], of_flavor) == ()


def test_an_annotation_that_cannot_be_read_takes_nothing_away() -> None:
    spec = {"tolerations": [{"key": "gpu", "operator": "Exists"}]}
    for text in ("no JSON", "{}", "[1]"):
        assert own_tolerations(spec, {FLAVOR_TOLERATIONS: text}) == spec["tolerations"]
    assert own_tolerations({}, {FLAVOR_TOLERATIONS: "[]"}) == []


def _fields(written: dict[str, Any]) -> dict[str, Any]:
    names = ("key", "value", "effect")
    return {"operator": written.get("operator", "Equal"), **{name: written.get(name, "") for name in names}}
