"""Violations of rules by a field of a document, and the rules that all kinds share."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from queues.api.metadata import LabelSelector
from queues.api.model import DURATION_PATTERN, SUBDOMAIN_PATTERN, path_of
from queues.api.reading.user_values import (
    LONGEST_LABEL_VALUE,
    MOST_LISTED,
    is_label_key,
    is_label_value,
)
from queues.api.resource_names import doubt_about, is_extended, problem_of_limit
from queues.errors import InvalidQuantity, QuantityTooLarge
from queues.resources import amount, in_bytes, show
from queues.text_format import excerpt

NOT_A_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character"
)


@dataclass(frozen=True, slots=True)
class Violation:
    """One error in a document, or (tolerable) one warning."""

    #: ``spec.tasks[0].replicas``
    path: str
    found: str
    expected: str
    #: A warning only: the document is accepted.
    tolerable: bool = False
    #: Name of the object that is referred to and does not exist (yet); "": no such reference.
    missing: str = ""
    #: An object that has it already may be changed otherwise and keep it: it is a warning then.
    may_stay: bool = False

    @property
    def message(self) -> str:
        """The message that a user gets from the API server."""
        return f"{self.path}: found {self.found}, expected {self.expected}"

    def below(self, path: str) -> "Violation":
        """The same violation in the document that has this part at ``path``."""
        return replace(self, path=".".join(filter(None, (path, self.path))))


def of_model(error: ValidationError, path: str = "") -> list[Violation]:
    """The violations that a model found in a document, or in the part of it at ``path``."""
    found = [
        Violation(path_of(detail["loc"]), _found(detail), _expected(detail))
        for detail in error.errors(include_url=False, include_context=True)
    ]
    return [violation.below(path) for violation in found] if path else found


def _found(error: ErrorDetails) -> str:
    match error["type"]:
        case "missing":
            return "nothing"
        case "too_many":
            return str(error["ctx"]["found"])
    return excerpt(error["input"])


#: Expected values, by pydantic's type of the error.
_SENTENCES = {
    "int_type": "a whole number",
    "string_type": "text (in quotes, if it looks like a number)",
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "tuple_type": "a list",
    "missing": "a value",
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
    "literal_error": "one of {expected}",
    "enum": "one of {expected}",
    "string_too_long": "at most {max_length} characters",
    "too_long": "at most {max_length} entries",
    "string_too_short": "at least {min_length} characters",
    "too_short": "at least {min_length} entries",
    "string_pattern_mismatch": "{pattern}",
}


_PATTERNS = {
    DURATION_PATTERN: "a duration such as 90s, 30m or 2h",
    SUBDOMAIN_PATTERN: "a DNS subdomain: lower case letters, digits, - and .",
}


def _expected(error: ErrorDetails) -> str:
    sentence = _SENTENCES.get(error["type"])
    if sentence is None:
        return error["msg"]
    expected = sentence.format(**error.get("ctx", {}))
    return _PATTERNS.get(expected, expected)


def entry_path(path: str, name: str) -> str:
    """The path of an entry of a mapping of amounts."""
    return f"{path}.{name}" if name.replace("-", "").isalnum() else f"{path}[{name}]"


def quantity_violations(quantities: Mapping[str, Any], path: str) -> Iterator[Violation]:
    """Violations of a map of quantities: unreadable or negative amounts, and parts of devices."""
    for name, text in quantities.items():
        here, found = entry_path(path, name), excerpt(text)
        try:
            units = amount(name, text)
        except QuantityTooLarge as error:
            yield Violation(here, found, f"at most {error.facts['most']}")
            continue
        except InvalidQuantity as error:
            yield Violation(here, found, error.facts["expected"])
            continue
        if units < 0:
            yield Violation(here, found, "an amount of at least 0")
        elif is_extended(name) and units % 1000:
            yield Violation(here, found, "a whole number: a device is given whole")
        elif in_bytes(name) and isinstance(text, str) and text.endswith("m"):
            expected = f"bytes; m means thousandths of a byte, so this is {show(name, units)}: M or Mi?"
            yield Violation(here, found, expected, tolerable=True)


def limit_violations(limits: Mapping[str, Any], path: str, *, tolerable: bool = False) -> Iterator[Violation]:
    """Violations of amounts that are compared with those of nodes, by names of resources that no node can have.

    ``tolerable``: in a field of Volcano, which takes any name; there they are warnings.
    """
    yield from quantity_violations(limits, path)
    for name in limits:
        if problem := problem_of_limit(name):
            yield Violation(entry_path(path, name), *problem, tolerable=tolerable, may_stay=True)
        elif problem := doubt_about(name):
            yield Violation(entry_path(path, name), *problem, tolerable=True)


def in_order(
    smaller: Mapping[str, Any], larger: Mapping[str, Any], names: tuple[str, str], path: str
) -> Iterator[Violation]:
    """Violations of an order: resources with more in ``smaller`` than in ``larger``, both given and readable."""
    for resource in smaller.keys() & larger.keys():
        try:
            low, high = amount(resource, smaller[resource]), amount(resource, larger[resource])
        except InvalidQuantity:
            continue
        if low > high:
            yield Violation(
                f"{path}.{names[0]}[{resource}]",
                show(resource, low),
                f"at most the {names[1]} of {show(resource, high)}",
            )


_VALUE_EXPECTED: Final = (
    f"a value that a label can have: at most {LONGEST_LABEL_VALUE} letters, digits, -, _ and ., the first and the last "
    "a letter or digit"
)


def label_violations(labels: Mapping[str, str], path: str, key_expected: str) -> Iterator[Violation]:
    """Violations of labels that something has to have: keys and values that no object can have."""
    for key, value in labels.items():
        here = f"{path}[{excerpt(key)}]"
        if not is_label_key(key):
            yield Violation(here, excerpt(key), key_expected, may_stay=True)
        elif not is_label_value(value):
            yield Violation(here, excerpt(value), _VALUE_EXPECTED, may_stay=True)


def selector_violations(selector: Mapping[str, Any] | None, path: str) -> Iterator[Violation]:
    """Violations of a LabelSelector; None has none."""
    if selector is None:
        return
    for key in selector.keys() - {"matchLabels", "matchExpressions"}:
        yield Violation(f"{path}.{key}", "a field that is not known", "matchLabels or matchExpressions")
    try:
        read = LabelSelector.parse(selector)
    except ValidationError as error:
        yield from of_model(error, path)
        return
    listed = sum(len(expression.values) for expression in read.match_expressions)
    if listed > MOST_LISTED:
        yield Violation(f"{path}.matchExpressions", f"{listed} values together", f"at most {MOST_LISTED}")
        return
    yield from label_violations(read.match_labels, f"{path}.matchLabels", "a label key")
    for index, expression in enumerate(read.match_expressions):
        here, needs_values = f"{path}.matchExpressions[{index}]", expression.operator in ("In", "NotIn")
        if needs_values != bool(expression.values):
            wanted = "at least one value" if needs_values else "no values"
            found, expected = (
                excerpt(list(expression.values)),
                f"{wanted} with operator {expression.operator}",
            )
            yield Violation(f"{here}.values", found, expected)
        elif wrong := next((value for value in expression.values if not is_label_value(value)), None):
            yield Violation(f"{here}.values", excerpt(wrong), _VALUE_EXPECTED, may_stay=True)
        if not is_label_key(expression.key):
            yield Violation(f"{here}.key", excerpt(expression.key), "a label key")
