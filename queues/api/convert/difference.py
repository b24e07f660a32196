"""What a conversion could not carry over as it was, with its place in the document."""

from dataclasses import dataclass
from typing import Literal

from queues.api.check.finding import Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionDifference:
    """A field that has another effect, or none, after the conversion; or an error, without which nothing is converted.

    A ``note`` needs nothing to be done about it, but says what was decided or what users now write.
    """

    #: "": the field of a document that was converted.
    file: str
    #: 1-based.
    line: int
    severity: Literal["error", "warning", "note"]
    #: Kind and name of the object, ``ClusterQueue team-a``.
    subject: str
    #: "": the object as a whole.
    path: str
    found: str
    #: What happens instead, or what to do.
    instead: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: " if self.file else ""
        return f"{where}{self.severity}: {self.comment}"

    @property
    def comment(self) -> str:
        """The difference on one line, without its place."""
        what = " ".join(part for part in (self.subject, self.path) if part)
        line = " ".join(f"{what}{': ' if what else ''}found {self.found}; {self.instead}".split())
        # Names may have any character; YAML has no place for some of them, not even in comments.
        return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in line)


def difference(
    subject: Subject, severity: Literal["error", "warning", "note"], path: str, found: str, instead: str
) -> ConversionDifference:
    """A difference in the field at a path of an object."""
    whole = f"{subject.above}.{path}" if subject.above and path else subject.above or path
    return ConversionDifference(
        file=subject.file,
        line=subject.document.line_of(whole),
        severity=severity,
        subject=subject.name,
        path=whole,
        found=found,
        instead=instead,
    )
