"""The laws that end-to-end tests hold the history of pods against do notice breaches."""

from tests.e2e.support.pod_history import Moment
from tests.e2e.support.pod_history_laws import breaches


def moment(name: str, *, kind: str = "MODIFIED", phase: str = "Running", admission: str = "7") -> Moment:
    notes = {"muster.dev/admission-id": admission, "muster.dev/seat": "worker/0"} if admission else {}
    meta = {
        "namespace": "team",
        "name": name,
        "uid": name,
        "labels": {"muster.dev/released": "true"},
        "annotations": notes,
    }
    pod = {"metadata": meta, "spec": {"nodeName": "n1"}, "status": {"phase": phase}}
    return Moment(kind, pod, at=0.0)


def test_a_seat_may_pass_on_when_its_pod_has_ended_or_gone() -> None:
    ended = [moment("a"), moment("a", phase="Failed"), moment("b")]
    gone = [moment("a"), moment("a", kind="DELETED"), moment("b")]
    assert breaches(ended) == breaches(gone) == []


def test_two_living_pods_in_one_seat_are_noticed() -> None:
    assert breaches([moment("a"), moment("b")]) == ["team/b in seat worker/0 of admission 7 beside team/a"]


def test_a_bound_pod_without_an_admission_is_noticed() -> None:
    assert breaches([moment("a", admission="")]) == ["team/a on n1 without an admission"]
