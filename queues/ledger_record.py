"""Which ledger leads a cluster: what a database says of itself, compared with what the cluster says. Pure.

The fence keeps two leaders of one database apart. Two databases know nothing of each other: a new one, a restored
backup, a copy. So the cluster itself records the ledger that leads it, the term of its last leader, and a nonce.

The leader replaces the nonce every ``NONCE_EVERY`` seconds. The database always knows the next one as well, which goes
into the cluster when it has been stored for so long, and the one after it is made once the cluster has it. So a ledger
knows what its cluster has, whenever its leader was killed, and though a failover cost it the last seconds; and a
copy does not, once the original has gone on for twice as long. No clock is compared.
"""

from dataclasses import dataclass, field
from typing import Final

from queues.errors import AnotherLedger, LedgerIsCopy, LedgerIsOlder

#: Seconds for which the cluster has one nonce.
NONCE_EVERY: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRecord:
    """A ledger, and how far it has come."""

    #: Made with the schema. Two databases share it only if one is a copy of the other.
    ledger: str
    #: Of its last leader; 0: none was elected yet.
    term: int = 0
    #: Name of the replica that was elected for this term.
    holder: str = ""
    #: What the cluster has, or gets with this record; "": an older version of Muster has recorded none.
    nonce: str = ""
    #: Of a database: the other one that the cluster may have.
    other_nonce: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"ledger {self.ledger}, term {self.term}" + (f" of {self.holder}" if self.holder else "")


def require_same_ledger(own: LedgerRecord, recorded: LedgerRecord | None) -> None:
    """Raises AnotherLedger unless both are one ledger, or copies of one. ``recorded``: of the cluster."""
    if recorded is not None and own.ledger != recorded.ledger:
        raise AnotherLedger(found=own.ledger, expected=recorded.ledger)


def require_same(own: LedgerRecord, recorded: LedgerRecord | None) -> None:
    """Raises AnotherLedger unless the ledger ``own`` may lead a cluster. ``recorded``: what that says; None if nothing.

    A ledger that leads counts its terms up. So of two copies of one ledger, the one that did not lead last is behind,
    or has given the same number to another replica; or it does not know the nonce.
    """
    if recorded is None:
        return
    require_same_ledger(own, recorded)
    if (own.term, own.holder) != (recorded.term, recorded.holder) and own.term <= recorded.term:
        raise LedgerIsOlder(found=own.term, expected=recorded.term, holder=recorded.holder)
    if recorded.nonce and recorded.nonce not in (own.nonce, own.other_nonce):
        raise LedgerIsCopy(term=recorded.term, holder=recorded.holder)
