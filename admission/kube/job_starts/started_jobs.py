"""Volcano Jobs that a CronJob or JobFlow controls, by their owner, as the informer shows them that watches all Jobs."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

import msgspec

from admission.job_starts.owned_jobs import OWNER_KINDS, OwnedJob, owned_job

#: Seconds in which the informer has to show a Job that was created; else it is gone again.
SHOWN_WITHIN: Final = 60.0


class StartedJobs:
    """What is known of such Jobs now. ``changed`` is called with the uid of an owner."""

    def __init__(self) -> None:
        self.changed: Callable[[str, OwnedJob], None] = lambda owner, job: None
        #: Uids of Jobs that no informer has shown yet.
        self._unseen: set[str] = set()
        self._by_uid: dict[str, OwnedJob] = {}
        self._by_owner: dict[str, dict[str, OwnedJob]] = defaultdict(dict)
        #: Namespace and name of a JobTemplate → its Jobs by uid.
        self._by_template: dict[tuple[str, str], dict[str, OwnedJob]] = defaultdict(dict)

    def seen(self, found: Any, raw: msgspec.Raw) -> None:
        """A Volcano Job as its informer shows it."""
        references = found.metadata.owner_references or ()
        if any(each.controller and each.kind in OWNER_KINDS for each in references):
            job = owned_job(raw)
            self._unseen.discard(found.metadata.uid)
            if job is not None:
                self.put(job)
        elif found.metadata.uid in self._by_uid:
            self.gone(found.metadata.uid)

    def hand_in(self, job: OwnedJob) -> None:
        """A Job that was just created or read. What the informer shows is newer."""
        if job.uid in self._by_uid:
            return
        self._unseen.add(job.uid)
        asyncio.get_running_loop().call_later(SHOWN_WITHIN, self._missed, job.uid)
        self.put(job)

    def _missed(self, uid: str) -> None:
        if uid in self._unseen:
            self.gone(uid)

    def put(self, job: OwnedJob) -> None:
        """A Job as it is now."""
        before = self._by_uid.get(job.uid)
        if before == job:
            return
        if before is not None and before.owner != job.owner:
            self.gone(job.uid)
        self._by_uid[job.uid] = job
        self._by_owner[job.owner][job.uid] = job
        if job.template:
            self._by_template[job.namespace, job.template][job.uid] = job
        self.changed(job.owner, job)

    def gone(self, uid: str) -> None:
        """A Job is gone."""
        self._unseen.discard(uid)
        job = self._by_uid.pop(uid, None)
        if job is None:
            return
        of_owner = self._by_owner[job.owner]
        of_owner.pop(uid, None)
        if not of_owner:
            del self._by_owner[job.owner]
        of_template = self._by_template.get((job.namespace, job.template), {})
        of_template.pop(uid, None)
        if not of_template:
            self._by_template.pop((job.namespace, job.template), None)
        self.changed(job.owner, job)

    def of_owner(self, uid: str) -> list[OwnedJob]:
        """The Jobs of a CronJob or JobFlow."""
        return list(self._by_owner.get(uid, {}).values())

    def of_template(self, namespace: str, name: str) -> list[str]:
        """Names of the Jobs that were made from a JobTemplate, sorted."""
        return sorted({job.name for job in self._by_template.get((namespace, name), {}).values()})
