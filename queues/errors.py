"""Errors by their meaning. The docstring is the message: what was found, what is expected, what to do.

Adapters translate a library's exception into one of these and chain the original, so that callers catch a meaning and
not a library's exception. Placeholders in a docstring are filled from the keyword arguments of the constructor.

What an error of Postgres means, by its SQLSTATE, and what its callers do:

| error | SQLSTATE | what follows |
|---|---|---|
| ``DatabaseUnavailable``: not now | 08, 53, 57P, 58; 40001, 40P01, 55P03, 25006 (read-only); no free connection in the pool, no answer, connection lost | nothing was stored: the same is tried again after a pause, and what is known of the world stays |
| ``DatabaseTooSlow``, one of these: not in time | 57014 (statement timeout), 25P03, 25P04 | the same; a plan is smaller then |
| ``DataRefused``: never with this value or row | 22, 23, 54; a parameter that cannot be sent | nothing was stored: the batch is tried in parts, and the row that is refused is set aside |
| ``OutcomeUnknown`` | connection lost during COMMIT | the world is read again |
| ``LedgerMismatch``, ``Fenced`` | | nothing was stored; the world is read again, by the replica that leads then | |
``DatabaseError`` | all others | the term ends |
"""

from typing import Any


class MusterError(Exception):
    """Muster could not do what was asked."""

    def __init__(self, message: str | None = None, **facts: Any) -> None:
        self.facts = facts
        text = message if message is not None else " ".join((type(self).__doc__ or "").split())
        super().__init__(text.format(**facts) if facts and message is None else text)


class InvalidDocument(MusterError):
    """{where}: found {found}, expected {expected}."""


class UnusableName(MusterError):
    """Name of an object: found {found!r}, expected one without blanks, / % ? and #, other than . and .."""


class InvalidQuantity(MusterError):
    """found {found!r}, expected {expected}"""


class QuantityTooLarge(InvalidQuantity):
    """{found!r} is more than is counted. Expected at most {most} of {resource}."""


class InvalidSettings(MusterError):
    """Settings cannot be used: {problems}"""


class QuotaTreeError(MusterError):
    """The queue tree cannot be used as it is."""


class QueueTooDeep(QuotaTreeError):
    """Queue {queue}: found at level {level} below root, expected at most {most}. Move it, or one above it, further up."""


class QueueCycle(QuotaTreeError):
    """Queue {queue} is its own ancestor, by way of {path}. Give one of them another parent."""


class UnknownParent(QuotaTreeError):
    """Queue {queue} names parent {parent}, which does not exist. Create it or name another parent."""


class LimitsOutOfOrder(QuotaTreeError):
    """Queue {queue}: {resource} has guarantee {guarantee}, deserved {deserved}, capability {capability}; expected guarantee ≤ deserved ≤ capability."""


class GuaranteesExceedParent(QuotaTreeError):
    """The children of queue {queue} are guaranteed {children} {resource} together, but {queue} itself has only {own}. Lower theirs or raise its guarantee."""


class DatabaseError(MusterError):
    """Postgres refused or could not be reached: {reason}"""


class DatabaseUnavailable(DatabaseError):
    """Postgres cannot do this now: {reason}. It is tried again; running pods go on, and nothing new is admitted until then."""


class DatabaseTooSlow(DatabaseUnavailable):
    """Postgres did not get this done in time: {reason}. It is tried again, in smaller parts where that is possible; running pods go on, and nothing new is admitted until then."""


class DataRefused(DatabaseError):
    """Postgres refuses a value or a row: {reason}. Nothing of its transaction was stored."""


class OutcomeUnknown(DatabaseError):
    """The connection was lost during COMMIT, so it is unknown whether the transaction was committed. The world is read again."""


class SchemaTooOld(DatabaseError):
    """The database's schema is at revision {found}, this version of Muster needs {expected}. Run `muster migrate`."""


class EmptyDatabase(SchemaTooOld):
    """The database has none of Muster's tables: it is new, another one than Muster had, or all is lost. Check the DSN, or restore a backup (docs/how-to/operate.md). To begin with this one, run `muster migrate`."""


class UnknownRevision(DatabaseError):
    """There is no revision {found!r} of the schema: expected head, base, or a revision up to {expected}. A newer version of Muster may know it."""


class SchemaTooNew(DatabaseError):
    """The database's schema is at revision {found}, which this version of Muster (made for {expected}) does not know. Run the newer version, or migrate down with it."""


class UnreleasedSchema(DatabaseError):
    """The database is of an unreleased version of Muster (schema revision {found}; the first one that counts is {expected}) and was left as it is. Back it up, give Muster an empty database and start again: the ledger is rebuilt by adopting the pods that run."""


class SchemaTooFarBehind(DatabaseError):
    """The database's schema is at revision {found}, this version of Muster needs {expected}, and on the way revision {barrier} takes away what older replicas need. Stop all replicas, then run `muster migrate --finish`."""


class OlderReplicasAtWork(DatabaseError):
    """{found} connections of an older version of Muster are open (the oldest: {oldest!r}, expected {expected!r} or newer); the rest of the migrations would break it. Nothing was done. Replace or stop these replicas, then run `muster migrate --finish` again."""


class SchemaInUse(DatabaseUnavailable):
    """A migration could not get a table within 5 seconds, because something else uses it: {reason}. Migrations that were done before stay, and this one has changed nothing. Run `muster migrate` again; `SELECT pid, query FROM pg_stat_activity` shows what runs for long."""


class LedgerMismatch(DatabaseError):
    """The ledger's balances refused a plan that had been checked against them: {reason}. Nothing was written; the world is read again."""


class Fenced(MusterError):
    """Term {term} of {holder} is over: {reason}. Nothing was written."""


class AnotherLedger(MusterError):
    """This database is ledger {found}, and the cluster is led by ledger {expected} (status.ledger of queue root). Nothing is written. Give this replica the DSN of that ledger; if this one is to take its place, stop the other and run `muster ledger adopt-cluster`."""


class LedgerIsOlder(AnotherLedger):
    """This database has come to term {found}, and the cluster was led in term {expected} by {holder} (status.ledger of queue root): the database is a backup or a copy of the ledger. Nothing is written. Give this replica the DSN of the other database; if this one is to take its place, stop the other and run `muster ledger adopt-cluster`."""


class LedgerIsCopy(AnotherLedger):
    """This database does not know what the leader of term {term}, {holder}, has recorded last (status.ledger.nonce of queue root): it is a copy or a backup of the ledger, or a failover cost it more than half a minute. Nothing is written. Give this replica the DSN of the other database; if this one is to take its place, stop the other and run `muster ledger adopt-cluster`."""


class NoRootQueue(MusterError):
    """There is no queue root, which has to say which ledger leads the cluster: no replica leads until there is. `muster install` creates it, and the Helm chart does after its other objects."""


class ApiError(MusterError):
    """The API server answered {status} to {method} {path}: {reason}"""


class NotFound(ApiError):
    """{method} {path}: it does not exist (404): {reason}"""


class Conflict(ApiError):
    """{method} {path}: it has changed or exists already (409): {reason}"""


class Gone(ApiError):
    """{method} {path}: that resource version is no longer kept (410): {reason}"""


class ApiRefused(ApiError):
    """{method} {path}: refused as invalid or forbidden ({status}): {reason}"""


class EvictionRefused(ApiRefused):
    """{method} {path}: a PodDisruptionBudget does not allow this eviction now ({status}): {reason}"""


class TooManyRequests(ApiError):
    """{method} {path}: the API server asks to wait (429): {reason}"""


class ApiUnavailable(ApiError):
    """{method} {path}: the API server cannot be reached or failed ({status}): {reason}"""


class WatchSilent(ApiUnavailable):
    """{method} {path}: the API server sent nothing for a while ({status}): {reason}"""
