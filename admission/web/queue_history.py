"""Recorded versions of queues as the read API shows them: who changed what and why."""

from collections.abc import Sequence

from admission.web.overview import loan_fields
from queues.api.quota.loans import loans_of
from queues.api.quota.quota_document import Spec, changes_between
from queues.read_api import bodies
from queues.sql.read.queue_versions import LARGEST, RecordedVersion
from queues.text_format import rfc3339
from queues.workload import QueueName


def version_bodies(
    newest_first: Sequence[RecordedVersion], *, limit: int
) -> tuple[bodies.QueueVersionBody, ...]:
    """The first ``limit`` versions, each compared with the next one of its queue; the last has none before."""
    before: dict[QueueName, RecordedVersion] = {}
    found = []
    for each in reversed(newest_first):
        found.append(_version(each, before.get(each.queue)))
        before[each.queue] = each
    return tuple(found[::-1][:limit])


def _version(each: RecordedVersion, before: RecordedVersion | None) -> bodies.QueueVersionBody:
    was = None if before is None or before.removed else before.spec
    now = None if each.removed else each.spec
    changes = _changes(each, before)
    what = "removed" if now is None else "created" if was is None else "changed" if changes else "other"
    # Author and reason are of the last change of the spec: not of a removal, nor of what else may have changed.
    of_this = what in ("created", "changed")
    return bodies.QueueVersionBody(
        version=each.version,
        queue=each.queue,
        at=rfc3339(each.at),
        what=what,
        by=each.changed_by if of_this else "",
        reason=each.reason if of_this else "",
        loans=() if now is None else stated_loans(now),
        changes=changes,
    )


def _changes(each: RecordedVersion, before: RecordedVersion | None) -> tuple[bodies.FieldChangeBody, ...]:
    """Fields of the spec that differ. For a document that is too large to be read, only that is shown."""
    was = None if before is None or before.removed else before
    now = None if each.removed else each
    if (was is not None and was.unread) or (now is not None and now.unread):
        return (bodies.FieldChangeBody(field="spec", before=_size(was), after=_size(now)),)
    return changes_between(None if was is None else was.spec, None if now is None else now.spec)


def _size(version: RecordedVersion | None) -> str | None:
    if version is None:
        return None
    return f"larger than {LARGEST // 1024} KiB" if version.unread else "smaller"


def stated_loans(spec: Spec) -> tuple[bodies.LoanBody, ...]:
    """The loans that a version of a queue states."""
    return tuple(bodies.LoanBody(**loan_fields(loan)) for loan in loans_of(spec))
