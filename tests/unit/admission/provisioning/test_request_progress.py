"""What gangs are told of their requests for nodes."""

from dataclasses import replace

import pytest

from admission.provisioning.found_requests import RequestPhase
from admission.provisioning.plan import NotAsked, WhyNot
from admission.provisioning.request_progress import is_for_nodes, no_requests, progress_of
from queues.plan import NODES_REFUSED, Reason
from queues.reason_codes import ReasonCode
from queues.text_format import rfc3339
from tests.tables import with_rows
from tests.unit.admission.provisioning.test_plan import NOW, TIMEOUT, request, wish

NO_FIT = Reason(code=ReasonCode.NO_FIT, message="0 of 2 pods fit", facts={"asked": 2})
NAME = wish().name(1)


def told(phase: RequestPhase, *, ago: int, message: str = "", attempt: int = 1) -> Reason:
    found = replace(request(wish(), phase, ago=ago, attempt=attempt), message=message)
    [progress] = progress_of([wish()], [found], NOW).values()
    return progress.told(NO_FIT)


def test_a_gang_that_waits_for_an_answer_is_told_the_request_since_when_and_until_when() -> None:
    reason = told(RequestPhase.OPEN, ago=60)
    assert reason.code is ReasonCode.PROVISIONING
    since, until = rfc3339(NOW - 60), rfc3339(NOW - 60 + TIMEOUT)
    asked = f"nodes are asked for by ProvisioningRequest {NAME} since {since}, given up at {until}"
    assert reason.message == f"{asked}; 0 of 2 pods fit"
    assert reason.facts == {
        "asked": 2,
        "provisioning": {
            "request": NAME,
            "className": "check-capacity",
            "attempt": 1,
            "phase": "Open",
            "since": since,
            "until": until,
        },
    }


def test_a_gang_whose_nodes_are_promised_is_told_so() -> None:
    reason = told(RequestPhase.PROVISIONED, ago=60)
    assert reason.code is ReasonCode.PROVISIONING
    assert f"ProvisioningRequest {NAME} is provisioned since {rfc3339(NOW - 60)}" in reason.message
    assert f"given up at {rfc3339(NOW - 60 + TIMEOUT)}" in reason.message


@pytest.mark.parametrize(
    ("phase", "ago", "words"),
    [
        (RequestPhase.OPEN, TIMEOUT, f"had no answer until {rfc3339(NOW)}"),
        (RequestPhase.PROVISIONED, TIMEOUT + 5, f"gave it no place until {rfc3339(NOW - 5)}"),
        (RequestPhase.FAILED, 5, f"ended at {rfc3339(NOW - 5)}: Failed (out of quota)"),
        (RequestPhase.CAPACITY_REVOKED, 5, f"ended at {rfc3339(NOW - 5)}: CapacityRevoked (out of quota)"),
    ],
)
def test_what_came_to_nothing_is_told_with_what_follows(phase: RequestPhase, ago: int, words: str) -> None:
    words_of_it = "" if phase is RequestPhase.OPEN else "out of quota"
    reason = told(phase, ago=ago, message=words_of_it, attempt=2)
    # Nothing is being provisioned: it is what it was before.
    assert reason.code is ReasonCode.NO_FIT
    # The second pause lasts two minutes.
    ended = NOW - 5 if ago in (5, TIMEOUT + 5) else NOW
    assert reason.message.startswith(f"0 of 2 pods fit; ProvisioningRequest {wish().name(2)} ")
    assert reason.message.endswith(f"{words}, asked again from {rfc3339(ended + 120)} on")
    assert reason.facts["provisioning"]["nextAt"] == rfc3339(ended + 120)
    assert "until" not in reason.facts["provisioning"]


def test_a_request_without_room_says_so() -> None:
    found = replace(request(wish(), ago=TIMEOUT), not_found=True, message="it will be looked for later")
    [progress] = progress_of([wish()], [found], NOW).values()
    words = f"found no room until {rfc3339(NOW)} (it will be looked for later), asked again from"
    assert words in progress.told(NO_FIT).message


def test_a_gang_that_never_fits_is_told_of_its_requests_too() -> None:
    never = Reason(
        code=ReasonCode.NEVER_FITS, message="9 asked; nodes were refused", facts={NODES_REFUSED: True}
    )
    for phase in (RequestPhase.OPEN, RequestPhase.FAILED):
        found = replace(request(wish(), phase, ago=5, attempt=4), message="no quota")
        [progress] = progress_of([wish()], [found], NOW).values()
        assert progress.refused == (phase is RequestPhase.FAILED)
        reason = progress.told(never)
        assert reason.code is ReasonCode.NEVER_FITS
        assert reason.message.startswith("9 asked; nodes were refused; ")
        assert wish().name(4) in reason.message
        assert ("Failed (no quota)" in reason.message) == (phase is RequestPhase.FAILED)
        assert is_for_nodes(reason)
    assert not is_for_nodes(replace(never, facts={}))


def test_requests_of_other_gangs_and_forged_ones_tell_nothing() -> None:
    other = request(wish(2))
    forged = request(wish(), name="mine")
    assert progress_of([wish()], [other, forged], NOW) == {}


@with_rows("why", "words")
def test_a_gang_for_which_nobody_asks_is_told_why(why: WhyNot, words: str) -> None:
    [known] = no_requests([NotAsked(wish=wish(), why=why)]).values()
    reason = known.told(NO_FIT)
    assert reason.code is ReasonCode.NO_FIT
    assert reason.message == f"0 of 2 pods fit; nodes are not asked for yet: {words}"
    assert reason.facts == {"asked": 2, "provisioning": {"notAsked": str(why)}}
