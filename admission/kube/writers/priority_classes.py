"""Priority classes that rank like the user's and never preempt.

A pod that Muster makes or releases is tied to its node. Were the stock scheduler allowed to preempt for it, it would
remove the pod in that seat, or the work of others that the pod's anti-affinity is against. So such pods carry a twin of
their class with ``preemptionPolicy: Never`` (design §8): a policy exchanges the class of pods that users create.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from admission.kube.client.client import Client
from admission.wire import WirePriorityClass
from queues.api.api_resources import PRIORITY_CLASSES
from queues.api.names import TWIN_OF, TWIN_PREFIX
from queues.errors import ApiError, ApiRefused, Conflict, NotFound

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassFact:
    """A priority class."""

    value: int
    is_default: bool = False
    preempts: bool = True
    #: Made by Muster: the class that it ranks like.
    twin_of: str | None = None


def class_fact(found: WirePriorityClass) -> ClassFact:
    """What there is to know of a priority class."""
    return ClassFact(
        value=found.value,
        is_default=found.global_default,
        preempts=found.preemption_policy != "Never",
        twin_of=(found.metadata.labels or {}).get(TWIN_OF),
    )


class NonPreemptingClasses:
    """Keeps a twin of every class that preempts. ``names``: class → twin, for twins that exist."""

    def __init__(self, client: Client, check_lease: Callable[[], None], names: dict[str, str]) -> None:
        self._client = client
        self._check_lease = check_lease
        self.names = names

    async def keep(self, classes: Mapping[str, ClassFact]) -> bool:
        """Make missing twins, remove twins of classes that are gone or have another value.

        False: the API server could not do it now.
        """
        done = True
        for name, found in sorted(classes.items()):
            if found.twin_of is not None:
                base = classes.get(found.twin_of)
                if base is None or base.value != found.value or not base.preempts:
                    done &= await self._try(self._remove(name, found.twin_of))
                else:
                    self.names[found.twin_of] = name
        for name, found in sorted(classes.items()):
            wanted = found.preempts and found.twin_of is None and not name.startswith("system-")
            if wanted and TWIN_PREFIX + name not in classes:
                done &= await self._try(self._make(name, found.value))
        return done

    async def _make(self, name: str, value: int) -> None:
        twin = PRIORITY_CLASSES.document(
            TWIN_PREFIX + name,
            labels={TWIN_OF: name},
            value=value,
            preemptionPolicy="Never",
            description=f"Ranks like {name} and never preempts; pods in queues carry it.",
        )
        await self._client.create(PRIORITY_CLASSES.path(), twin, check_lease=self._check_lease)

    async def _remove(self, name: str, base: str) -> None:
        self.names.pop(base, None)
        await self._client.delete(PRIORITY_CLASSES.path(name=name), check_lease=self._check_lease)

    async def _try(self, write: Awaitable[None]) -> bool:
        try:
            await write
        except (Conflict, NotFound):
            return True  # made or gone already; the informer shows it
        except ApiError as error:
            _log.warning("priority class without a twin", extra={"why": str(error)})
            return isinstance(error, ApiRefused)  # what is refused once is refused again
        return True
