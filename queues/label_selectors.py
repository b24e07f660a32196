"""Label selectors of Kubernetes: whether labels meet them, and how people write and read them."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from queues.workload import Requirement

_KEY: Final = r"[A-Za-z0-9][\w./-]*"
#: A term of a selector, with the comma behind it.
_TERM: Final = re.compile(
    rf"\s*(?:!\s*(?P<absent>{_KEY})|(?P<key>{_KEY})"
    r"(?:\s*(?P<operator>==?|!=)\s*(?P<value>[\w.-]*)|\s+(?P<of_set>in|notin)\s*\((?P<values>[^()]*)\))?)\s*(?:,|$)",
    re.ASCII,
)


def selector_of(text: str) -> tuple[Requirement, ...] | None:
    """A selector as kubectl takes it: ``team=a,tier in (gold, silver),!legacy``. None if the text is none."""
    found: list[Requirement] = []
    at = 0
    while at < len(text):
        term = _TERM.match(text, at)
        if term is None or term.end() == at:
            return None
        at = term.end()
        found.append(_requirement(term))
    return tuple(found)


def _requirement(term: re.Match[str]) -> Requirement:
    if absent := term["absent"]:
        return Requirement(key=absent, operator="DoesNotExist")
    if term["of_set"]:
        values = tuple(sorted(value.strip() for value in term["values"].split(",")))
        return Requirement(
            key=term["key"], operator="In" if term["of_set"] == "in" else "NotIn", values=values
        )
    if term["operator"]:
        operator = "NotIn" if term["operator"] == "!=" else "In"
        return Requirement(key=term["key"], operator=operator, values=(term["value"],))
    return Requirement(key=term["key"], operator="Exists")


def holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Whether labels meet one requirement of a label selector."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False


def selects(selector: Iterable[Requirement], labels: Mapping[str, str]) -> bool:
    """Whether labels meet all requirements; a selector without any selects everything."""
    return all(holds(each, labels) for each in selector)


def selector_text(selector: Iterable[Requirement]) -> str:
    """The selector as kubectl writes it: ``team=a,tier in (gold, silver),!legacy``."""
    return ",".join(_text(each) for each in selector)


def labels_text(selector: Iterable[Requirement], labels: Mapping[str, str]) -> str:
    """What labels say about the keys of a selector: ``team=b, no label tier``. No other label is named."""
    keys = dict.fromkeys(each.key for each in selector)
    return ", ".join(f"{key}={labels[key]}" if key in labels else f"no label {key}" for key in keys)


def _text(requirement: Requirement) -> str:
    key, values = requirement.key, ", ".join(requirement.values)
    match requirement.operator:
        case "Exists":
            return key
        case "DoesNotExist":
            return f"!{key}"
        case "In" if len(requirement.values) == 1:
            return f"{key}={values}"
        case _:
            return f"{key} {requirement.operator.lower()} ({values})"
