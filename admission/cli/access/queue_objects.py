"""Queue objects, changed as the user of the kubeconfig, so that two administrators do not overwrite each other."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from admission.cli.access.objects import ObjectForbidden, ObjectNotFound, Refused, path_of, send
from admission.cli.access.requests import Route, ask
from admission.cli.command_line import CommandFailed
from admission.cli.names import NoSuchQueue, no_such_queue
from queues.api.api_resources import QUEUES, Document
from queues.api.names import CHANGE_REASON, CHANGED_BY
from queues.api.quota.quota_document import Spec, parent_of
from queues.errors import MusterError
from queues.read_api.bodies import QueueBody, QueueList
from queues.reason_codes import did_you_mean
from queues.text_format import names_alike

#: Characters of a reason.
LONGEST_REASON: Final = 500
#: Queues above one another; a tree is never so deep.
_HIGHEST: Final = 64
#: Attempts at a change that only another writer of the status stands against: Muster writes it every few seconds.
_ATTEMPTS: Final = 5
#: Seconds to wait for the read API at most, for what a change can do without.
PATIENCE: Final = 5.0
#: The name of this program in ``metadata.managedFields``.
_MANAGER: Final = "kubectl-muster"


class ChangedMeanwhile(CommandFailed):
    """{tried}: {found}. {hint}"""


class UncertainChange(CommandFailed):
    """{tried}: {found}. {hint}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueObject:
    """A Queue as the API server has it."""

    document: Document

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.document["metadata"]["name"])

    @property
    def spec(self) -> Spec:
        """What its administrator wrote."""
        found = self.document.get("spec")
        return found if isinstance(found, Mapping) else {}

    @property
    def parent(self) -> str | None:
        """The queue above. None if this is root."""
        return parent_of(self.name, self.spec)

    @property
    def paused(self) -> bool:
        """Whether it is paused itself."""
        policy = self.spec.get("policy")
        return isinstance(policy, Mapping) and policy.get("paused") is True

    @property
    def held(self) -> bool:
        """Whether it states a hold on new work itself."""
        policy = self.spec.get("policy")
        return isinstance(policy, Mapping) and policy.get("hold") is not None

    def annotation(self, key: str) -> str:
        """An annotation; "": it has none."""
        return str((self.document["metadata"].get("annotations") or {}).get(key, ""))

    def count(self, *fields: str) -> int:
        """The sum of these counts of its status."""
        status = self.document.get("status") or {}
        return sum(int(status.get(name) or 0) for name in fields)


def read_queue(route: Route, name: str) -> QueueObject:
    """The Queue. Raises CommandFailed: there is none, or the user may not get it."""
    try:
        return QueueObject(
            document=send(route, "GET", path_of(QUEUES, None, name), tried=f"Reading queue {name}")
        )
    except ObjectNotFound as error:
        raise no_such_queue(name, _visible_names(route)) from error
    except ObjectForbidden as error:
        # A role may name the queues it is for: then all other names are forbidden, those that do not exist too.
        if alike := did_you_mean(names_alike(name, _visible_names(route) - {name})):
            raise ObjectForbidden(status=error.status, tried="", found=str(error), hint=alike) from error
        raise


def check_queue(route: Route, name: str) -> None:
    """Raises CommandFailed: there is no such queue, as far as the user may know."""
    with suppress(ObjectForbidden):
        read_queue(route, name)


def _visible_names(route: Route) -> set[str]:
    """Names of queues that the user may see. Empty: none, or it is not known."""
    listed = read_queues(route)
    return set(queues_in_use(route) if listed is None else listed)


def read_queues(route: Route) -> dict[str, QueueObject] | None:
    """All Queues, by name. None if the user may not list them. Raises CommandFailed."""
    try:
        found = send(route, "GET", path_of(QUEUES, None), tried="Listing queues")
    except ObjectForbidden:
        return None
    queues = [QueueObject(document=each) for each in found.get("items", ())]
    return {each.name: each for each in queues}


def queues_in_use(route: Route) -> dict[str, QueueBody]:
    """The queues with their use and workloads, as the read API shows them to the user. Empty: it does not answer."""
    try:
        return {queue.name: queue for queue in ask(route.within(PATIENCE), "queues", QueueList).items}
    except MusterError:
        return {}


def queues_above(route: Route, queue: QueueObject) -> list[QueueObject]:
    """The queues above one that the user may get, nearest first. Raises CommandFailed: the server does not answer."""
    found: list[QueueObject] = []
    above = queue.parent
    while above is not None and len(found) < _HIGHEST:
        try:
            found.append(read_queue(route, above))
        except (ObjectForbidden, NoSuchQueue):
            break
        above = found[-1].parent
    return found


def checked_reason(text: str | None) -> str:
    """The reason for a change; "": none is given. Raises CommandFailed: too long, or more than a line."""
    reason = (text or "").strip()
    if len(reason) > LONGEST_REASON or not reason.isprintable():
        found = (
            f"{len(reason)} characters" if len(reason) > LONGEST_REASON else "characters that do not print"
        )
        raise CommandFailed(
            tried="Reading --reason", found=f"found {found}, expected one line of at most {LONGEST_REASON}"
        )
    return reason


def change_queue(
    route: Route, queue: QueueObject, spec: Spec, *, reason: str, dry_run: bool = False
) -> QueueObject:
    """Apply a merge patch of the spec to this very version of a Queue, with the reason for it ("": none is given).

    A status that changed meanwhile does not matter. Raises ChangedMeanwhile: another user changed the spec or deleted
    the queue; Refused: the API server does not take the change; UncertainChange: it may have happened or not.
    """
    current = queue
    query = {"fieldManager": _MANAGER, **({"dryRun": "All"} if dry_run else {})}
    for _ in range(_ATTEMPTS):
        patch = {"metadata": _metadata(current, reason), "spec": spec}
        tried = f"Change of queue {queue.name}"
        try:
            answer = send(route, "PATCH", path_of(QUEUES, None, queue.name), patch, tried=tried, **query)
            return QueueObject(document=answer)
        except ObjectNotFound as error:
            raise _changed(queue, "it was deleted meanwhile") from error
        except Refused as error:
            if error.status >= 500 and error.status != 503:
                raise _unknown(tried, error) from error
            if error.status != 409:
                raise
            current = _unless_changed(queue, read_queue(route, queue.name))
        except CommandFailed as error:
            raise _unknown(tried, error) from error
    raise _changed(queue, f"its status changed {_ATTEMPTS} times meanwhile")


def _metadata(current: QueueObject, reason: str) -> Document:
    meta = current.document["metadata"]
    before = current.annotation(CHANGE_REASON)
    # A reason that stays as it was counts as left over from the change before, so the same one gets a space.
    told = f"{reason} " if reason and reason == before else reason
    return {
        "uid": meta.get("uid"),
        "resourceVersion": meta.get("resourceVersion"),
        "annotations": {CHANGE_REASON: told or None},
    }


def _unless_changed(before: QueueObject, now: QueueObject) -> QueueObject:
    if now.document["metadata"].get("uid") != before.document["metadata"].get("uid"):
        raise _changed(before, "it was deleted and made again meanwhile")
    if now.spec != before.spec:
        raise _changed(before, f"{now.annotation(CHANGED_BY) or 'another user'} changed it meanwhile")
    return now


def _changed(queue: QueueObject, what: str) -> ChangedMeanwhile:
    return ChangedMeanwhile(
        tried=f"Change of queue {queue.name}",
        found=f"{what}, so nothing was written",
        hint=f"`kubectl muster quota show {queue.name}` shows what it has now; then try again.",
    )


def _unknown(tried: str, error: CommandFailed) -> UncertainChange:
    return UncertainChange(
        tried=tried,
        found="it is not known whether it was made, for the API server did not answer as expected",
        hint=str(error),
    )
