"""One ledger leads a cluster."""

from dataclasses import replace

import pytest

from queues.errors import AnotherLedger, LedgerIsCopy, LedgerIsOlder
from queues.ledger_record import LedgerRecord, require_same

LED = LedgerRecord(ledger="a", term=7, holder="first")


def test_a_cluster_that_no_ledger_has_led_takes_any() -> None:
    require_same(LED, None)


@pytest.mark.parametrize(
    "own",
    [
        LED,
        LedgerRecord(ledger="a", term=8, holder="second"),
        LedgerRecord(ledger="a", term=9, holder="first"),
    ],
    ids=["its last leader", "the next leader", "a later term"],
)
def test_the_ledger_that_led_last_leads_again(own: LedgerRecord) -> None:
    require_same(own, LED)


def test_another_ledger_is_refused_however_far_it_has_come() -> None:
    with pytest.raises(AnotherLedger, match=r"ledger b.*ledger a.*adopt-cluster"):
        require_same(LedgerRecord(ledger="b", term=99, holder="first"), LED)


@pytest.mark.parametrize(
    "own",
    [
        LedgerRecord(ledger="a"),
        LedgerRecord(ledger="a", term=6, holder="first"),
        LedgerRecord(ledger="a", term=7, holder="second"),
    ],
    ids=["no term yet", "an older backup", "a copy that elected another replica"],
)
def test_a_backup_or_copy_of_the_ledger_is_refused(own: LedgerRecord) -> None:
    with pytest.raises(LedgerIsOlder, match=r"term 7 by first.*adopt-cluster"):
        require_same(own, LED)


@pytest.mark.parametrize("recorded", ["n1", "n2", ""], ids=["as ever", "just replaced", "by an older Muster"])
def test_a_ledger_knows_the_nonce_that_its_cluster_has(recorded: str) -> None:
    own = replace(LED, nonce="n1", other_nonce="n2")
    require_same(own, replace(LED, nonce=recorded))
    require_same(replace(own, term=8, holder="second"), replace(LED, nonce=recorded))


@pytest.mark.parametrize(
    ("term", "holder"), [(7, "first"), (8, "copy")], ids=["copied since", "elected elsewhere"]
)
def test_a_copy_that_does_not_know_the_nonce_is_refused_however_far_it_has_come(
    term: int, holder: str
) -> None:
    copy = LedgerRecord(ledger="a", term=term, holder=holder, nonce="n1", other_nonce="n2")
    with pytest.raises(LedgerIsCopy, match=r"term 7, first.*nonce.*adopt-cluster"):
        require_same(copy, replace(LED, nonce="n3"))
