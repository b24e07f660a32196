"""Rules for HyperNodes: those of Volcano's validation, and patterns that Muster cannot read."""

import re
import warnings
from collections.abc import Iterator

from queues.errors import MusterError
from queues.spec.hypernode import HyperNode, Member, MemberSelector
from queues.spec.model import shown
from queues.spec.violations import SUBDOMAIN, Violation, selector_violations

_WAYS = "exactly one of exactMatch, regexMatch and labelMatch"


def hypernode_violations(hypernode: HyperNode) -> Iterator[Violation]:
    """What is wrong with a HyperNode."""
    members = hypernode.spec.members
    if not members:
        yield Violation("spec.members", "nothing", "members; without any it contains no node", tolerable=True)
    for index, member in enumerate(members):
        path = f"spec.members[{index}].selector"
        yield from _selector(member.selector, path)
        if member.type == "HyperNode":
            yield from _inner(member, hypernode.metadata.name, path)


def _selector(selector: MemberSelector, path: str) -> Iterator[Violation]:
    given = [
        name
        for name, value in (
            ("exactMatch", selector.exact_match),
            ("regexMatch", selector.regex_match),
            ("labelMatch", selector.label_match),
        )
        if value is not None
    ]
    if len(given) != 1:
        yield Violation(path, " and ".join(given) or "nothing", _WAYS)
    exact, regex = selector.exact_match, selector.regex_match
    if exact is not None and SUBDOMAIN.fullmatch(exact.name) is None:
        found = shown(exact.name) if exact.name else "nothing"
        yield Violation(f"{path}.exactMatch.name", found, "the name of an object")
    if regex is not None:
        problem = "nothing" if not regex.pattern else _unreadable(regex.pattern)
        if problem:
            yield Violation(f"{path}.regexMatch.pattern", problem, "a regular expression")
    if selector.label_match is not None:
        yield from selector_violations(selector.label_match, f"{path}.labelMatch")


def _inner(member: Member, own: str, path: str) -> Iterator[Violation]:
    if member.selector.exact_match is None:
        yield Violation(path, "no exactMatch", "exactMatch: a HyperNode is a member by its name only")
    elif member.selector.exact_match.name == own:
        yield Violation(f"{path}.exactMatch.name", shown(own), "another HyperNode than this one itself")


def _unreadable(pattern: str) -> str:
    """Why a pattern cannot be read; "" if it can."""
    try:
        compiled(pattern)
    except InvalidPattern as error:
        return f"{shown(pattern)} ({error.facts['reason']})"
    return ""


class InvalidPattern(MusterError):
    """A pattern cannot be read: {reason}"""


def compiled(pattern: str) -> re.Pattern[str]:
    """A regexMatch as Muster reads it. Raises InvalidPattern.

    What Go and Python read differently (``[[:alpha:]]``), Python warns of: better nothing than other nodes.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return re.compile(pattern)
    except (re.error, OverflowError, RecursionError, Warning) as error:
        raise InvalidPattern(reason=str(error)) from error
