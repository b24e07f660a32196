"""Which ledger leads a cluster: what a database says of itself, compared with what the cluster says. Pure.

The fence keeps two leaders of one database apart. Two databases know nothing of each other: a new one, a restored
backup, a copy. So the cluster itself records the ledger that leads it, and the term of its last leader.
"""

from dataclasses import dataclass

from queues.errors import AnotherLedger, LedgerIsOlder


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRecord:
    """A ledger, and how far it has come."""

    #: Made with the schema. Two databases share it only if one is a copy of the other.
    ledger: str
    #: Of its last leader; 0: none was elected yet.
    term: int = 0
    #: Name of the replica that was elected for this term.
    holder: str = ""

    def __str__(self) -> str:
        return f"ledger {self.ledger}, term {self.term}" + (f" of {self.holder}" if self.holder else "")


def require_same(own: LedgerRecord, recorded: LedgerRecord | None) -> None:
    """Raises AnotherLedger unless the ledger ``own`` may lead a cluster. ``recorded``: what that says; None: nothing.

    A ledger that leads counts its terms up. So of two copies of one ledger, the one that did not lead last is behind,
    or has given the same number to another replica.
    """
    if recorded is None:
        return
    if own.ledger != recorded.ledger:
        raise AnotherLedger(found=own.ledger, expected=recorded.ledger)
    if (own.term, own.holder) != (recorded.term, recorded.holder) and own.term <= recorded.term:
        raise LedgerIsOlder(found=own.term, expected=recorded.term, holder=recorded.holder)
