"""A Command of Volcano: what a person asks of a Job or a Queue, as ``vcctl`` and ``kubectl muster`` do."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One Command. It is carried out once, and its object is deleted then."""

    uid: str
    namespace: str
    name: str
    #: In Volcano's words: ``AbortJob``, ``ResumeJob``, ``CloseQueue`` …
    action: str
    #: ``Job`` or ``Queue``; "": of another kind, or not said.
    target_kind: str = ""
    target_name: str = ""
    #: "": not said.
    target_uid: str = ""
    #: Seconds since the epoch.
    created: int = 0
    #: Counts up with every change in the cluster; 0: not known.
    version: int = 0
    #: For people: who asked, and why.
    message: str = ""

    @property
    def order(self) -> tuple[int, int, str]:
        """Commands are carried out by age."""
        return (self.created, self.version, self.name)
