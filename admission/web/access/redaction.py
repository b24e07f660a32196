"""Answers without the names of workloads that the user may not see: they stand in messages about other workloads."""

from typing import Any, Final

from admission.reconcile.named_workloads import redacted as redacted_text
from admission.web.reader import Sight

#: Fields that name workloads by uid, and what they become.
_BY_UID: Final = {"ahead": (), "beneficiary": None}


def redacted(document: Any, sight: Sight) -> Any:
    """The JSON document with the names of workloads that are out of sight replaced."""
    if sight.workloads is None:
        return document
    if isinstance(document, str):
        return redacted_text(document, sight.shows)
    if isinstance(document, list | tuple):
        return [redacted(each, sight) for each in document]
    if isinstance(document, dict):
        return {name: _field(name, value, sight) for name, value in document.items()}
    return document


def _field(name: str, value: Any, sight: Sight) -> Any:
    names_uids = isinstance(value, str) or (
        isinstance(value, list | tuple) and value and all(isinstance(each, str) for each in value)
    )
    if name in _BY_UID and names_uids:
        return _BY_UID[name]
    return redacted(value, sight)
