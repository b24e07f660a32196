"""One line per file: refused, not supported, different (by which fields), supported, or passed over."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from queues.api.check.check import read_subjects
from queues.api.check.finding import Finding
from queues.text_format import listed

#: Fields or kinds named in one line.
_SHOWN: Final = 4


def summary_lines(files: Iterable[tuple[str, str]], findings: Iterable[Finding]) -> list[str]:
    """A line for each file (name, text), in order, with what it is about."""
    files = list(files)
    of_file: dict[str, list[Finding]] = {file: [] for file, _ in files}
    for finding in findings:
        of_file.setdefault(finding.file, []).append(finding)
    _, subjects = read_subjects(files)
    objects = Counter(subject.file for subject in subjects)
    return [f"{file}: {_verdict(found, objects[file])}" for file, found in of_file.items()]


def _verdict(findings: Sequence[Finding], objects: int) -> str:
    errors = [finding for finding in findings if finding.severity == "error"]
    warnings = [finding for finding in findings if finding.severity == "warning"]
    of_kinds = [finding for finding in warnings if finding.path == "kind"]
    passed_over = [finding for finding in findings if finding.severity == "note" and finding.path == "kind"]
    parts = [
        (errors, "refused", _fields),
        (of_kinds, "not supported", _kinds),
        ([finding for finding in warnings if finding not in of_kinds], "different", _fields),
    ]
    told = [f"{word}: {listed(named(found), _SHOWN)}" for found, word, named in parts if found]
    if not told and len(passed_over) < objects:
        told = ["supported"]
    if passed_over:
        told.append(f"passed over: {listed(_kinds(passed_over), _SHOWN)}")
    return "; ".join(told) or "no object"


def _fields(findings: Iterable[Finding]) -> list[str]:
    """The fields that findings are about, each once, without the numbers of entries: ``spec.tasks[].name``."""
    fields = (re.sub(r"\[[0-9]+\]", "[]", finding.path) or finding.found for finding in findings)
    return list(dict.fromkeys(fields))


def _kinds(findings: Iterable[Finding]) -> list[str]:
    return list(dict.fromkeys(finding.subject.partition(" ")[0] for finding in findings))
