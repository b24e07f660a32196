"""Each reason for which a workload waits says what its owner can do: on the object, in the plugin and on the page."""

import re
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from markupsafe import escape

from admission.cli.output import Output
from admission.cli.page.layout import form
from admission.cli.plugin.pending import pending_table
from admission.reconcile.world_status import WorldStatuses
from queues.plan import Reason
from queues.read_api.bodies import PendingList
from queues.reason_codes import ADVICE, ReasonCode, advice_on
from queues.resources import GPU
from queues.sql.read.pending import waiting_body
from tests.builders.facts import JOB, NOW, TEAM, job, node, queue, world

#: Facts by which the advice is another one.
FACTS: Final = ({"for": "job/ns/head", "at": 1795687200}, {"for": "job/ns/head", "soon": True})
#: Those whose own message says what to do, with names that it has.
SAYS_IT_ITSELF: Final = {
    ReasonCode.QUEUE_NOT_LEAF,
    ReasonCode.BACKOFF_LIMIT_EXCEEDED,
    ReasonCode.ON_HOLD,
    ReasonCode.DEPENDENCY_FAILED,
    ReasonCode.DEPENDENCY_MISSING,
    ReasonCode.DEPENDENCY_CYCLE,
    ReasonCode.RESERVED,
    ReasonCode.MAX_RUN_TIME,
    ReasonCode.RUN_TIME_TOO_LONG,
    ReasonCode.TEMPLATE_REFUSED,
    ReasonCode.NAME_TAKEN,
    ReasonCode.NOT_ITS_POD,
    ReasonCode.NOT_GATED,
    ReasonCode.UNKNOWN_PRIORITY_CLASS,
}


def test_each_code_has_its_sentence_for_the_owner_and_for_administrators(golden: Any) -> None:
    table = (
        Path("docs/reference/reasons.md")
        .read_text()
        .partition("## Why a workload waits")[2]
        .partition("##")[0]
    )
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.M)) <= {str(code) for code in ADVICE}
    assert {str(code): [*advice] for code, advice in ADVICE.items()} == golden
    assert {code for code, advice in ADVICE.items() if not advice.owner} == SAYS_IT_ITSELF
    assert [advice_on(ReasonCode.RESERVED, facts).owner for facts in FACTS] == [
        "As far as is known it is kept until 2026-11-26T10:00:00Z",
        "Nothing to do: it goes on by itself",
    ]
    assert advice_on(ReasonCode.PREEMPTED, {}) == ("", "", False), "it is no wait"


@pytest.mark.parametrize(
    ("code", "facts", "owner"),
    [
        ("NoFit", {"asked": 4, "takes": {GPU: 1000}}, "Wait for room; fewer or smaller pods fit earlier"),
        ("NoFit", {"asked": 1, "takes": {GPU: 8000}}, "Wait for room; a smaller pod fits earlier"),
        ("NoFit", {"asked": 1, "takes": {GPU: 1000, "cpu": 4000}}, "Wait for room"),
        (
            "NeverFits",
            {"over": 152, "queue": "a"},
            "Waiting does not help: ask for less, or name another queue",
        ),
    ],
)
def test_what_cannot_be_less_is_not_asked_to_be(code: str, facts: dict[str, Any], owner: str) -> None:
    assert advice_on(ReasonCode(code), facts).owner == owner


def test_no_owner_is_told_to_do_what_takes_rights_over_queues() -> None:
    words = ("quota set", "access.", "policy.", "spec.", "aise ", "dd nodes", "muster queue")
    assert [advice for advice in ADVICE.values() if any(word in advice.owner for word in words)] == []


@pytest.mark.parametrize(
    ("code", "facts"), [*((code, {}) for code in ADVICE), (ReasonCode.NO_FIT, {"alone": 3, "of": 4})]
)
def test_object_plugin_and_page_have_the_same_sentence(code: ReasonCode, facts: dict[str, Any]) -> None:
    reason = Reason(code=code, message="why it waits, with 8 of 16 nvidia.com/gpu", facts=facts)
    shown = world([queue(TEAM), node("n1"), job(1)], arrivals={JOB: 1})
    shown.ledger.put_reasons({JOB: reason}, ())
    (wanted,) = WorldStatuses(shown, None, {}).of(JOB)  # type: ignore[arg-type]
    sentence = wanted.conditions[0].message

    row = SimpleNamespace(
        **dict.fromkeys(("kind", "uid", "namespace", "name", "queue"), "train"),
        **dict.fromkeys(("priority", "pods", "minimum"), 1),
        **dict.fromkeys(("username", "owner", "ignored_values", "notes"), ""),
        created=NOW,
        asks={},
        code=code,
        message=reason.message,
        facts=facts,
        since=datetime(2026, 11, 21, tzinfo=UTC),
    )
    line = waiting_body(row, {}, 1)  # type: ignore[arg-type]
    body = PendingList(now="2026-11-21T10:00:00Z", total=1, total_everywhere=1, items=(line,))
    assert sentence == f"{reason.message}. {advice_on(code, facts).owner}".removesuffix(". ")
    assert sentence in pending_table(body, Output(form="wide"), everywhere=True)
    page = form("forms.html", "waiting_table", body.items, body.now, body.total)
    assert str(escape(sentence)) in page
