"""What a check finds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """One thing that must not happen, and did."""

    #: What happened, with the names of the objects.
    what: str
    #: Number of the object change (``ObjectChange.number``) that showed it; None: it is in no single one.
    change: int | None = None
    #: Number of the row change (``RowChange.number``).
    row: int | None = None
    #: The check that found it, as a sentence.
    law: str = ""

    def __str__(self) -> str:
        places = [
            f"{kind} {number}"
            for kind, number in (("object change", self.change), ("row change", self.row))
            if number is not None
        ]
        return f"{self.law}: {self.what}" + (f" ({', '.join(places)})" if places else "")
