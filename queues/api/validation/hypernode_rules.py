"""Rules for HyperNodes, those of Volcano's validation."""

from collections.abc import Iterator

from queues.api.reading.name_patterns import InvalidPattern, check_pattern
from queues.api.reading.user_values import SUBDOMAIN
from queues.api.types.hypernode import HyperNode, HyperNodeMemberSpec, MemberSelector
from queues.api.validation.violations import Violation, selector_violations
from queues.text_format import excerpt

_SELECTORS = "exactly one of exactMatch, regexMatch and labelMatch"

_PATTERN = (
    "a regular expression of Go's (RE2): it knows no look-around, back-references or possessive repetition"
)


def hypernode_violations(hypernode: HyperNode) -> Iterator[Violation]:
    """Violations of a HyperNode."""
    members = hypernode.spec.members
    if not members:
        yield Violation("spec.members", "nothing", "members; without any it contains no node", tolerable=True)
    for index in range(len(members)):
        yield from member_violations(hypernode, index)


def member_violations(hypernode: HyperNode, index: int) -> Iterator[Violation]:
    """Violations of the member at an index. A member with violations stands for no node."""
    member, path = hypernode.spec.members[index], f"spec.members[{index}].selector"
    yield from _selector(member.selector, path)
    if member.type == "HyperNode":
        yield from _inner(member, hypernode.metadata.name, path)


def inner_hypernodes(hypernode: HyperNode) -> dict[str, int]:
    """Names of the HyperNodes that a HyperNode contains, each with the index of its member."""
    return {
        member.selector.exact_match.name: index
        for index, member in enumerate(hypernode.spec.members)
        if member.type == "HyperNode" and member.selector.exact_match is not None
    }


def _selector(selector: MemberSelector, path: str) -> Iterator[Violation]:
    exact, regex, label = selector.exact_match, selector.regex_match, selector.label_match
    fields = {"exactMatch": exact, "regexMatch": regex, "labelMatch": label}
    given = [name for name, value in fields.items() if value is not None]
    if len(given) != 1:
        yield Violation(path, " and ".join(given) or "nothing", _SELECTORS)
    if exact is not None and SUBDOMAIN.fullmatch(exact.name) is None:
        found = excerpt(exact.name) if exact.name else "nothing"
        yield Violation(f"{path}.exactMatch.name", found, "the name of an object")
    if regex is not None and (problem := _unusable(regex.pattern)):
        yield Violation(f"{path}.regexMatch.pattern", problem, _PATTERN)
    yield from selector_violations(label, f"{path}.labelMatch")


def _inner(member: HyperNodeMemberSpec, own: str, path: str) -> Iterator[Violation]:
    if member.selector.exact_match is None:
        yield Violation(path, "no exactMatch", "exactMatch: a HyperNode is a member by its name only")
    elif member.selector.exact_match.name == own:
        yield Violation(f"{path}.exactMatch.name", excerpt(own), "another HyperNode than this one itself")


def _unusable(pattern: str) -> str:
    """Why a pattern cannot be used; "" if it can."""
    try:
        check_pattern(pattern)
    except InvalidPattern as error:
        return f"{excerpt(pattern)} ({error.facts['reason']})" if pattern else "nothing"
    return ""
