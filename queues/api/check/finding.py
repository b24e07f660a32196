"""Findings of ``muster check`` in a document, with file, line and field path."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from queues.api.check.document import Document
from queues.api.validation.violations import Violation
from queues.json_values import mapping_at

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """An error, a warning or a note about one document."""

    file: str
    #: 1-based position in the file.
    document: int
    #: 1-based.
    line: int
    severity: Severity
    #: Kind and name of the object, ``Job team-a/train``; "": unknown.
    subject: str = ""
    path: str = ""
    found: str
    #: "": nothing else; of a note only.
    expected: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: document {self.document}"
        what = " ".join(part for part in (self.subject, self.path) if part)
        what = f"{what}: " if what else ""
        expected = f", expected {self.expected}" if self.expected else ""
        return f"{where}: {self.severity}: {what}found {self.found}{expected}"


@dataclass(frozen=True, slots=True)
class Subject:
    """An object that is checked: a document of a file, or an item of a List in one."""

    file: str
    document: Document
    value: dict[str, Any]
    #: Path of the object in its document: ``items[0]`` in a List; "": the document itself.
    above: str = ""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The object's metadata. Empty: it has none that can be read."""
        return mapping_at(self.value, "metadata")

    @property
    def namespace(self) -> str:
        """The namespace that the object is applied to, as far as it says."""
        return str(self.metadata.get("namespace") or "default")

    @property
    def name(self) -> str:
        """Kind and name, ``Job team-a/train``; ? for a missing name. "": the object has no kind."""
        if not isinstance(self.value.get("kind"), str):
            return ""
        metadata = self.metadata
        name = metadata.get("name") or metadata.get("generateName") or "?"
        namespace = metadata.get("namespace")
        return f"{self.value.get('kind')} {f'{namespace}/' if namespace else ''}{name}"[:160]

    def finding_of(self, violation: Violation) -> Finding:
        """The finding about a violation of this object."""
        severity: Severity = "warning" if violation.tolerable else "error"
        return self.finding(severity, violation.path, violation.found, violation.expected)

    def finding(self, severity: Severity, path: str, found: str, expected: str) -> Finding:
        """A finding about the field at a path of this object."""
        whole = f"{self.above}.{path}" if self.above and path else self.above or path
        return Finding(
            file=self.file,
            document=self.document.number,
            line=self.document.line_of(whole),
            severity=severity,
            subject=self.name,
            path=whole,
            found=found,
            expected=expected,
        )
