"""Every YAML that Volcano accepts is accepted, with every feature of its examples."""

from pathlib import Path

import pytest

from queues.api.check.check import check_documents
from queues.api.check.document import documents_of
from queues.api.validation.validation import defaulted, kind_of, violations_of

ACCEPTED = sorted((Path(__file__).parent / "accepted_examples").glob("*.yaml"))


def test_there_are_examples():
    assert len(ACCEPTED) >= 15


@pytest.mark.parametrize("path", ACCEPTED, ids=lambda path: path.stem)
def test_check_finds_no_error_in_what_volcano_accepts(path):
    findings = check_documents([(path.name, path.read_text())])
    assert [one for one in findings if one.severity == "error"] == []


@pytest.mark.parametrize("path", ACCEPTED, ids=lambda path: path.stem)
def test_nothing_is_lost_between_document_and_model(path):
    for document in documents_of(path.read_text()):
        model = kind_of(document.value)
        if model is None:
            continue
        written = model.read(document.value).document()
        assert without_nulls(document.value) == without_nulls(written)


@pytest.mark.parametrize("path", ACCEPTED, ids=lambda path: path.stem)
def test_defaults_are_filled_in_once(path):
    for document in documents_of(path.read_text()):
        once = defaulted(document.value)
        assert defaulted(once) == once
        assert not [one for one in violations_of(once) if not one.tolerable]


def without_nulls(value):
    if isinstance(value, dict):
        return {key: without_nulls(one) for key, one in value.items() if one not in (None, [], "")}
    if isinstance(value, list):
        return [without_nulls(one) for one in value]
    return value
