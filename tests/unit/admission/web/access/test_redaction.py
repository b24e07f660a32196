"""Names of workloads that the user may not see do not stand in answers."""

from typing import Any

from admission.web.access.redaction import redacted
from admission.web.reader import EVERYTHING, Sight

ALICE = Sight(workloads={"vcjob": {"alice"}, "job": None})


def test_messages_name_only_what_may_be_seen(golden: Any) -> None:
    document = {
        "message": "when vcjob/bob/secret-model.v2, vcjob/alice/own and job/bob/seen end",
        "facts": {"evicted": {"for": "podgroup/bob/ring"}, "numbers": [1, "pod/bob/x"]},
        "takes": {"nvidia.com/gpu": "8"},
    }

    assert redacted(document, ALICE) == golden
    assert redacted(document, EVERYTHING) is document


def test_uids_of_others_are_left_out() -> None:
    assert redacted([{"beneficiary": "vcjob/4f1c"}], ALICE) == [{"beneficiary": None}]


def test_those_who_could_take_a_place_are_named_as_far_as_they_may_be_seen() -> None:
    sight = Sight(workloads={"job": {"alice"}}, queues=frozenset(("mine",)))
    takers = [
        {"queues": ["bobs"], "message": "queue bobs may take back up to 8 gpu"},
        {
            "queues": ["mine", "bobs"],
            "message": "a larger gang of queue mine and queue bobs (job/bob/x waits)",
        },
        # Its own queue, which who sees the workload sees with it.
        {"rule": "Preempted", "queues": ["lab"], "message": "a workload of its own queue lab"},
    ]

    assert redacted({"standing": {"takers": takers}}, sight)["standing"]["takers"] == [
        {"queues": [], "message": "another queue may take back up to 8 gpu"},
        {
            "queues": ["mine"],
            "message": "a larger gang of queue mine and another queue (another workload waits)",
        },
        takers[2],
    ]
