"""Space promised in earlier turns: held against everybody else until its beneficiary is placed anew."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from admission.engine.plan import Claim
from admission.engine.snapshot import Snapshot
from admission.engine.trial import Trial
from queues.quota import QueueTree
from queues.workload import WorkloadKey


@dataclass(slots=True, eq=False)
class Held:
    """Claims that are still good; their space is taken in the trial unless it is released."""

    claims: dict[WorkloadKey, Claim] = field(default_factory=dict)
    _dropped: list[WorkloadKey] = field(default_factory=list)

    @property
    def keys(self) -> Mapping[WorkloadKey, Claim]:
        """Beneficiaries whose claims are good, with the claims."""
        return self.claims

    @property
    def dropped(self) -> tuple[WorkloadKey, ...]:
        """Beneficiaries whose claims end in this turn: used, or no longer good. For ``Plan.dropped``."""
        return tuple(sorted(self._dropped))

    def release(self, key: WorkloadKey, trial: Trial) -> None:
        """Give a beneficiary its space, before it is tried. Nothing happens to who has no claim."""

    def restore(self, key: WorkloadKey, trial: Trial) -> None:
        """It was refused again: its space is held further."""

    def used(self, key: WorkloadKey) -> None:
        """It was admitted, after ``release``: its claim ends."""


def hold(snapshot: Snapshot, trial: Trial, tree: QueueTree) -> Held:
    """The claims of earlier turns that are still good, with their space taken in the trial.

    Call it after the settlement, before anybody is tried.
    """
    return Held()
