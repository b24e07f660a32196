"""A move of quota: two Queue objects that cannot be written at once, so that none is left as it should not be."""

from admission.cli.access.objects import ClusterRoute
from admission.cli.access.queue_objects import (
    ChangedMeanwhile,
    QueueObject,
    UncertainChange,
    change_queue,
    read_queue,
)
from admission.cli.failures import CommandFailed
from queues.api.quota.quota_changes import Changes
from queues.api.quota.quota_document import patch_for, quota_of
from queues.errors import MusterError


class QuotaMove:
    """Two writes, the lowering first, so that the two queues never deserve more than before."""

    def __init__(
        self,
        route: ClusterRoute,
        lowering: tuple[QueueObject, Changes],
        raising: tuple[QueueObject, Changes],
        reason: str,
    ) -> None:
        self._route = route
        self._giver, self._lowering = lowering
        self._taker, self._raising = raising
        self._reason = reason

    def try_out(self) -> None:
        """Send both as dry runs. Raises CommandFailed: one would be refused.

        Of siblings only the lowering: where all is given out, the raising alone is more than their parent has.
        """
        self._try_out(self._giver, self._lowering)
        if self._giver.parent != self._taker.parent:
            self._try_out(self._taker, self._raising)

    def _try_out(self, queue: QueueObject, changes: Changes) -> None:
        change_queue(self._route, queue, patch_for(queue.spec, changes), reason=self._reason, dry_run=True)

    def carry_out(self) -> None:
        """Write both. If the second is refused the first is undone. Raises CommandFailed: what stands then."""
        try:
            lowered = self._write(self._giver, self._lowering, self._reason)
        except UncertainChange as error:
            raise self._not_known_of_giver(error) from error
        try:
            self._write(self._taker, self._raising, self._reason)
        except (UncertainChange, KeyboardInterrupt) as error:  # interrupted, it may still be written
            raise self._not_known_of_taker(error) from error
        except MusterError as error:
            self._undo(lowered, error)

    def _write(self, queue: QueueObject, changes: Changes, reason: str) -> QueueObject:
        """Write a change. One with an unknown outcome is sent once more: of the two at most one is taken."""
        patch = patch_for(queue.spec, changes)
        try:
            return change_queue(self._route, queue, patch, reason=reason)
        except UncertainChange as unknown:
            try:
                return change_queue(self._route, queue, patch, reason=reason)
            except ChangedMeanwhile:
                now = read_queue(self._route, queue.name)
                stated = quota_of(now.spec)
                if all(stated.get(field) == text for field, text in changes.items()):
                    return now
                raise
            except CommandFailed as error:
                raise UncertainChange(
                    tried=f"Change of queue {queue.name}", found=_first(unknown), hint=str(error)
                ) from error

    def _undo(self, lowered: QueueObject, error: MusterError) -> None:
        """Give the first queue back what it had. Always raises CommandFailed."""
        giver, taker = self._giver.name, self._taker.name
        back = self._former()
        try:
            self._write(lowered, back, "undone: its counterpart was not written")
        except (MusterError, KeyboardInterrupt) as second:
            raise CommandFailed(
                tried=f"Queue {taker} was not changed ({_first(error)}), and queue {giver} could not be changed back",
                found=_first(second),
                hint=f"Queue {giver} has {_stated(self._lowering)}, and had {_stated(back)}; "
                f"queue {taker} has what it had. This puts {giver} right:\n  {_set_command(giver, back)}",
            ) from error
        raise CommandFailed(
            tried=f"Queue {taker} was not changed",
            found=_first(error),
            hint=f"The change of queue {giver} was undone: both have what they had.",
        ) from error

    def _former(self) -> Changes:
        """What puts the first queue back to what it had."""
        stated = quota_of(self._giver.spec)
        return {field: stated.get(field) for field in self._lowering}

    def _not_known_of_giver(self, error: BaseException) -> CommandFailed:
        giver, back = self._giver.name, self._former()
        return CommandFailed(
            tried=f"Queue {self._taker.name} was not changed, and of queue {giver} it is not known",
            found=_first(error),
            hint=f"`kubectl muster quota show {giver}` shows whether it has {_stated(self._lowering)}. If so, this "
            f"takes it back:\n  {_set_command(giver, back)}",
        )

    def _not_known_of_taker(self, error: BaseException) -> CommandFailed:
        giver, taker = self._giver.name, self._taker.name
        return CommandFailed(
            tried=f"Queue {giver} was changed ({_stated(self._lowering)}), and of queue {taker} it is not known",
            found=_first(error),
            hint=f"`kubectl muster quota show {taker}` shows whether it has {_stated(self._raising)}. If not, "
            f"this finishes the move:\n  {_set_command(taker, self._raising)}\nor this takes it back:\n  "
            f"{_set_command(giver, self._former())}",
        )


def _first(error: BaseException) -> str:
    """The first line of a message, without its full stop."""
    return str(error).partition("\n")[0].rstrip(".") or "interrupted"


def _stated(changes: Changes) -> str:
    return ", ".join(f"{field} {'none' if text is None else text}" for field, text in changes.items())


def _set_command(queue: str, changes: Changes) -> str:
    flavor = next((field.flavor for field in changes), "")
    options = " ".join(f"--{field.limit} {field.resource}={text or ''}" for field, text in changes.items())
    return f"kubectl muster quota set {queue} {options}" + (f" --flavor {flavor}" if flavor else "")
