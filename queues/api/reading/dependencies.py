"""``muster.dev/after: job/a, vcjob/b:any``: what a workload waits for, as its owner writes it. Pure."""

import re
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from queues.api.names import AFTER
from queues.api.reading.user_values import is_dns_name
from queues.dependencies import Dependency
from queues.kind_names import KindName
from queues.text_format import excerpt, listed

MOST_DEPENDENCIES: Final = 20
_FORM: Final = re.compile(r"(?P<kind>[a-z0-9]+)/(?P<name>[^/:]+)(?::(?P<end>.*))?", re.DOTALL)
_EXPECTED: Final = (
    "KIND/NAME, with :ok or :any where wanted, separated by commas: job/prepare, vcjob/train:any"
)
#: How a predecessor has to end: with success, which is the default, or in whatever way.
_ENDS: Final = (None, "ok", "any")
AFTER_PATH: Final = f"metadata.annotations[{AFTER}]"


class DependencyProblem(NamedTuple):
    """What is wrong with an annotation."""

    found: str
    expected: str

    def __str__(self) -> str:
        return f"{AFTER_PATH}: found {self.found}, expected {self.expected}"


class WrittenDependencies(NamedTuple):
    """What an annotation says. If it cannot be read, nothing of it counts, and the workload waits for a better one."""

    named: tuple[Dependency, ...] = ()
    problem: DependencyProblem | None = None


NO_DEPENDENCIES: Final = WrittenDependencies()


def read_dependencies(text: str | None) -> WrittenDependencies:
    """What the text of an annotation says; None: there is no annotation."""
    if text is None:
        return NO_DEPENDENCIES
    parts, named = [part.strip() for part in text.split(",", MOST_DEPENDENCIES)], list[Dependency]()
    if len(parts) > MOST_DEPENDENCIES:
        return _problem(f"{text.count(',') + 1} names", f"at most {MOST_DEPENDENCIES}")
    for part in parts:
        form = _FORM.fullmatch(part)
        if form is None or not is_dns_name(form["name"]):
            return _problem(excerpt(part), _EXPECTED)
        each = Dependency(KindName(form["kind"]), form["name"], any_end=form["end"] == "any")
        if form["end"] not in _ENDS:
            return _problem(excerpt(part), f"{each}:ok or {each}:any")
        if any(str(other) == str(each) for other in named):
            return _problem(f"{each} twice", "each name once")
        named.append(each)
    return WrittenDependencies(tuple(named))


def _problem(found: str, expected: str) -> WrittenDependencies:
    return WrittenDependencies(problem=DependencyProblem(found, expected))


def unusable_dependency(
    named: Sequence[Dependency], kind: str, name: str, kinds: Collection[str]
) -> DependencyProblem | None:
    """What is wrong with dependencies of an object of this kind and name; None if nothing is.

    ``kinds``: those whose objects wait in queues.
    """
    for each in named:
        if each.kind not in kinds:
            known = listed(sorted(kinds), len(kinds))
            return DependencyProblem(str(each), f"a kind whose objects wait in queues: {known}")
        if (each.kind, each.name) == (kind, name):
            return DependencyProblem(f"{each}, its own name", "other workloads")
    return None
