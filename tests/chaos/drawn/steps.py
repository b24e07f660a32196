"""The steps of a plan: what goes wrong, and what users and administrators do."""

from dataclasses import dataclass, field
from typing import Any, Final

from tests.chaos.history import Document

#: The replica that leads at that moment.
LEADER: Final = "leader"
#: Seconds in which users do something, after which nothing new goes wrong, and after which everything heals.
USERS_END: Final = 3.0
FAULTS_END: Final = 3.2
HEALED: Final = 3.8


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFault:
    """Something that goes wrong."""

    #: Seconds since the run began.
    at: float
    name: str
    #: A replica, ``LEADER``, or "": the whole cluster, or all of Postgres.
    target: str = ""
    #: For how long; 0: it is over at once.
    seconds: float = 0.0
    #: What else there is to know, by name.
    detail: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        told = [f"{name}={value}" for name, value in self.detail.items()]
        lasts = [f"for {self.seconds:.2f} s"] if self.seconds else []
        return " ".join([self.name, *([self.target] if self.target else []), *told, *lasts])


@dataclass(frozen=True, slots=True, kw_only=True)
class UserAction:
    """Something that a user or an administrator does."""

    at: float
    #: create | create-in-sync | delete | delete-newest | delete-pod | collect-ended | forestall | patch | cordon
    #: | uncordon | node-down | node-up
    verb: str
    documents: tuple[Document, ...] = ()
    #: Kind and name of the object that it is about.
    kind: str = ""
    name: str = ""
    patch: Document = field(default_factory=dict)

    def __str__(self) -> str:
        if self.documents:
            made = self.documents[0]
            return f"{self.verb} {made['kind']} {made['metadata']['name']}"
        return " ".join(part for part in (self.verb, self.kind, self.name, str(self.patch or "")) if part)
