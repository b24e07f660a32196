"""``python -m tests.manifest_verdicts.samples [--warnings] DIR…``: which of other projects' samples would wait.

Each DIR is the folder of a project with manifests, such as the examples in a checkout. Its files are read as
``muster check`` reads them, unchanged and without a cluster, as if each namespace had a queue and Kueue's names counted
there. Of each object that asks for pods it is printed whether it waits, with its pods, or is refused, or is of a kind
that Muster does not know, each with the sentence; then how many there are in each project.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import yaml

from admission.facts.workloads import WorkloadFact
from admission.workloads.kinds import known_kinds
from admission.workloads.kinds.document_checks import check_as_in_cluster
from queues.api.api_resources import (
    DEPLOYMENTS,
    JOB_FLOWS,
    NAMESPACES,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    VOLCANO_CRON_JOBS,
)
from queues.api.check.check import check_documents, read_subjects
from queues.api.check.finding import Finding, Subject
from queues.api.check.own_names import names_queue
from queues.api.names import KUEUE_NAMES, QUEUE_LABEL
from queues.api.validation.validation import defaulted
from queues.api.workload_kinds import PASSING_KINDS


def _name(api_version: object, kind: object) -> tuple[str, str]:
    """The group of a kind, and its name."""
    return str(api_version).partition("/")[0], str(kind)


#: Kinds that wait, with what reads them.
_READ: Final = {key: each.reader for key, each in known_kinds().by_resource.items()}
#: Kinds that wait as what their controllers make.
_OWNERS: Final = {
    (each.api_version, each.kind)
    for each in (
        *(DEPLOYMENTS, JOB_FLOWS, REPLICA_SETS, STATEFUL_SETS, VOLCANO_CRON_JOBS),
        *(each.resource for each in PASSING_KINDS),
    )
}
#: Their names, in whatever version.
_NAMES: Final = {_name(*key) for key in (*_READ, *_OWNERS)}
#: Ends of the names of kinds that others make pods of, or that describe objects.
_NOT_RUN: Final = ("Template", "Runtime", "Definition")
#: What may become of an object. *beside*: it asks for no pods.
_WORDS: Final = ("waits", "refused", "unknown", "unreadable", "beside")


class Verdict(NamedTuple):
    """What becomes of one object in a queue."""

    #: Kind and name, after the line of the object.
    subject: str
    #: One of the above.
    word: str
    #: Its pods, or why it does not wait.
    told: str = ""
    warnings: Sequence[str] = ()


def main() -> int:
    """Exit code 0, whatever the samples say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--warnings", action="store_true", help="also what check warns of in what waits")
    parser.add_argument("folders", type=Path, nargs="+", metavar="DIR")
    given = parser.parse_args()
    counts: dict[str, Counter[str]] = {}
    for folder in given.folders:
        counted = counts.setdefault(folder.resolve().name, Counter())
        for file in sorted(folder.resolve().rglob("*.y*ml")):
            for verdict in verdicts(file.read_text(errors="replace")):
                counted[verdict.word] += 1
                if verdict.word != "beside":
                    place = file.relative_to(folder.resolve().parent)
                    print(f"{place}:{verdict.subject}: {verdict.word}: {verdict.told}")
                for warning in verdict.warnings if given.warnings else ():
                    print(f"    warned: {warning}")
    print("".join(f"{word:>12}" for word in _WORDS), " project")
    for project, counted in counts.items():
        print("".join(f"{counted[word]:>12}" for word in _WORDS), f" {project}")
    return 0


def verdicts(text: str) -> Iterator[Verdict]:
    """What becomes of each object of a file, in their order."""
    problems, subjects = read_subjects([("", text)])
    readable = {each.document.number for each in subjects}
    for problem in problems:
        if problem.document not in readable:
            yield Verdict(f"{problem.line}", "unreadable", _sentence(problem))
    namespaces = yaml.safe_dump_all(map(_namespace, sorted({each.namespace for each in subjects})))
    findings = check_documents([("", text), ("namespaces", namespaces)], check_as_in_cluster)
    for subject in subjects:
        own = [
            each
            for each in findings
            if not each.file
            and each.document == subject.document.number
            and each.path.startswith(subject.above)
        ]
        yield _verdict(subject, own)


def _namespace(name: str) -> dict[str, Any]:
    metadata = {"name": name, "labels": {KUEUE_NAMES: "true"}, "annotations": {QUEUE_LABEL: "team"}}
    return {"apiVersion": NAMESPACES.api_version, "kind": NAMESPACES.kind, "metadata": metadata}


def _verdict(subject: Subject, findings: Sequence[Finding]) -> Verdict:
    where = f"{subject.document.line_of(subject.above)} {subject.name or 'no kind'}"
    key = (subject.value.get("apiVersion"), subject.value.get("kind"))
    is_known = key in _READ or key in _OWNERS
    of_kind = [_sentence(each) for each in findings if each.path in ("kind", "apiVersion")]
    is_work = (
        is_known or _name(*key) in _NAMES or _asks_for_pods(subject.value) or names_queue(subject.metadata)
    )
    if not is_work or _name(*key)[1].endswith(_NOT_RUN):
        return Verdict(where, "beside")
    errors = [_sentence(each) for each in findings if each.severity == "error"]
    if errors:
        return Verdict(where, "refused", "; ".join(errors))
    if any(each.path.endswith(".metadata") and each.severity == "note" for each in findings):
        return Verdict(where, "waits", "each of its pods")
    if not is_known:
        return Verdict(where, "unknown", "; ".join(of_kind))
    warnings = [_sentence(each) for each in findings if each.severity == "warning"]
    return Verdict(where, "waits", _pods(subject) or _start(findings), warnings)


def _sentence(finding: Finding) -> str:
    path = f"{finding.path}: " if finding.path else ""
    return f"{path}found {finding.found}" + (f", expected {finding.expected}" if finding.expected else "")


def _pods(subject: Subject) -> str:
    """How many pods it has by pod set, or at least; "": others make them."""
    key = (subject.value["apiVersion"], subject.value["kind"])
    if key == (PODS.api_version, PODS.kind):
        return "1 pod"
    reader = _READ.get(key)
    if reader is None:
        return ""
    raw = json.dumps(defaulted(subject.value)).encode()
    fact = reader.fact(msgspec.json.decode(raw, type=reader.wire), msgspec.Raw(raw))
    if not isinstance(fact, WorkloadFact):
        return "a part of another workload"
    sets = ", ".join(f"{each.count} {each.name}" for each in fact.pod_sets)
    return f"{sets or 'pods'}, at least {fact.minimum} together"


def _start(findings: Sequence[Finding]) -> str:
    notes = [each.found for each in findings if each.severity == "note"]
    return next((each for each in notes if each.startswith("queue")), "as what is made of it")


def _asks_for_pods(value: Any) -> bool:
    """Whether there are containers anywhere in an object."""
    if isinstance(value, Mapping):
        has = isinstance(value.get("containers"), list)
        has = has or any(isinstance(value.get(each), Mapping) for each in ("container", "script"))
        return has or any(map(_asks_for_pods, value.values()))
    return any(map(_asks_for_pods, value)) if isinstance(value, list) else False


if __name__ == "__main__":
    sys.exit(main())
