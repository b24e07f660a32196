"""Times that the page of failures tells, which tests set to shorter ones."""

from pathlib import Path

import pytest

from admission.containment.postgres_check import ANSWER_WITHIN
from admission.kube.watch.informer import Timing
from admission.kube.webhook.certificates import LIFETIMES
from admission.leadership import BEAT_EVERY, CLOCK_STEP, LOOP_LOST
from admission.settings import Settings
from admission.term import INHERITED_FOR
from admission.web import supervision
from queues.ledger_record import NONCE_EVERY
from queues.sql.database import STATEMENT_TIMEOUT

PAGE = Path("docs/explanation/failures.md")
DEFAULT = {name: field.default for name, field in Settings.model_fields.items()}
WORDS = {0.5: "half a second", 1.0: "a second", 2.0: "two seconds"}


@pytest.mark.parametrize(
    ("sentence", "times"),
    [
        ("it is opened again after {} seconds without an event or bookmark", [Timing().silence]),
        ("counts as open until it has been silent for {} seconds", [Timing().silence]),
        ("stores a heartbeat every {}", [WORDS[BEAT_EVERY]]),
        ("`/readyz` says within {} what is wrong", [WORDS[ANSWER_WITHIN]]),
        ("after {} seconds without a sign of the loop", [LOOP_LOST]),
        ("in its first {} seconds, as long as the API server may work on such a request", [INHERITED_FOR]),
        ("a step of more than {}", [WORDS[CLOCK_STEP]]),
        (
            "started again after {}, then after pauses that double up to {} seconds",
            [WORDS[supervision._FIRST_PAUSE], supervision._LONGEST_PAUSE],
        ),
        (
            "(authority {} days, serving certificate {})",
            [LIFETIMES.authority.days, LIFETIMES.serving.days],
        ),
        (
            "replaces a [nonce](../decisions/ledger.md#a-copy-of-the-ledger-does-not-know-the-nonce)"
            " in the cluster every {} seconds",
            [NONCE_EVERY],
        ),
        ("or more than the last {} seconds", [NONCE_EVERY]),
        ("takes longer than its time, {} seconds,", [STATEMENT_TIMEOUT]),
        ("`apiServerLostSeconds` ({})", [DEFAULT["api_server_lost_seconds"]]),
        ("`refusalGraceSeconds` ({})", [DEFAULT["refusal_grace_seconds"]]),
        ("`deadNodeSeconds` ({})", [DEFAULT["dead_node_seconds"]]),
        ("`decisionLimitSeconds` ({})", [DEFAULT["decision_limit_seconds"]]),
    ],
)
def test_times_on_the_page_of_failures_are_those_of_the_code(sentence: str, times: list[float | str]) -> None:
    told = [each if isinstance(each, str) else f"{each:g}" for each in times]
    assert sentence.format(*told) in " ".join(PAGE.read_text(encoding="utf-8").split())
