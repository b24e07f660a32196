"""What a conversion comes to: Muster's documents, and what differs."""

from dataclasses import dataclass, field
from typing import Any

import yaml

from queues.api.api_resources import ApiResource
from queues.api.check.finding import Finding, Severity, Subject
from queues.api.crd import PlainDumper


def document_of(kind: ApiResource, name: str, **content: Any) -> dict[str, Any]:
    """An object as administrators write it."""
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, **content}


@dataclass(slots=True)
class Conversion:
    """Documents of Muster in the order to apply them in, and what differs. With an error: no documents.

    A difference is a field that has another effect, or none; ``expected`` is what happens instead, or what to do. A
    note needs nothing to be done about it, but says what was decided or what users now write.
    """

    documents: list[dict[str, Any]] = field(default_factory=list)
    differences: list[Finding] = field(default_factory=list)

    def tell(self, severity: Severity, subject: Subject, path: str, found: str, instead: str) -> None:
        """Add what differs in an object of Kueue's."""
        self.differences.append(subject.finding(severity, path, found, instead))

    def has_errors(self) -> bool:
        """Whether something was found that cannot be converted."""
        return any(each.severity == "error" for each in self.differences)

    def as_yaml(self) -> str:
        """The documents, after the warnings as comments."""
        warnings = [f"# {comment_of(each)}\n" for each in self.differences if each.severity == "warning"]
        head = ["# Written by `muster convert`. What differs:\n", *warnings] if warnings else []
        parts = [
            yaml.dump(document, Dumper=PlainDumper, sort_keys=False, width=100, allow_unicode=True)
            for document in self.documents
        ]
        return "".join(head) + "---\n".join(parts)


def comment_of(difference: Finding) -> str:
    """A difference on one line, without its place."""
    what = " ".join(part for part in (difference.subject, difference.path) if part)
    line = f"{what}{': ' if what else ''}found {difference.found}; {difference.expected}"
    # Names may have any character; YAML has no place for some of them, not even in comments.
    return "".join(
        character if character.isprintable() else ascii(character)[1:-1]
        for character in " ".join(line.split())
    )


def line_of(difference: Finding) -> str:
    """A difference on one line, with its place; none if it is of a document that was converted."""
    where = f"{difference.file}:{difference.line}: " if difference.file else ""
    return f"{where}{difference.severity}: {comment_of(difference)}"
