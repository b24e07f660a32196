"""Names of workloads that the user may not see do not stand in answers."""

from admission.web.access.redaction import redacted
from admission.web.reader import EVERYTHING, Sight

ALICE = Sight(workloads={"vcjob": {"alice"}, "job": None})


def test_messages_name_only_what_may_be_seen() -> None:
    document = {
        "message": "when vcjob/bob/secret-model.v2, vcjob/alice/own and job/bob/seen end",
        "facts": {"evicted": {"for": "podgroup/bob/ring"}, "numbers": [1, "pod/bob/x"]},
        "takes": {"nvidia.com/gpu": "8"},
    }

    assert redacted(document, ALICE) == {
        "message": "when another workload, vcjob/alice/own and job/bob/seen end",
        "facts": {"evicted": {"for": "another workload"}, "numbers": [1, "another workload"]},
        "takes": {"nvidia.com/gpu": "8"},
    }
    assert redacted(document, EVERYTHING) is document


def test_uids_of_others_are_left_out() -> None:
    document = [{"beneficiary": "vcjob/4f1c", "ahead": ["vcjob/77aa"]}, {"ahead": [{"name": "own"}]}]

    assert redacted(document, ALICE) == [{"beneficiary": None, "ahead": ()}, {"ahead": [{"name": "own"}]}]
