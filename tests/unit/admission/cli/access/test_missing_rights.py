"""What RBAC refuses is one sentence: the right that is missing, and whom to ask for it."""

from admission.cli.access.missing_rights import missing_right
from tests.tables import with_rows


@with_rows("message", "sentence")
def test_a_refusal_says_which_right_is_missing_and_whom_to_ask(message: str, sentence: str) -> None:
    lacks = missing_right(message)
    assert lacks is not None
    assert lacks.sentence == sentence


def test_what_policies_refuse_is_no_missing_right() -> None:
    denied = (
        "jobs.batch \"a\" is forbidden: ValidatingAdmissionPolicy 'muster-guard-jobs' denied request: wait"
    )
    assert missing_right(denied) is None
