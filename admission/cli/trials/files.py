"""Documents of files as a trial sends them: JSON objects, in the namespace that kubectl would put them in."""

from collections.abc import Iterable, Iterator
from typing import Final

import click

from admission.cli.document_files import document_files
from admission.cli.failures import CommandFailed
from queues.api.api_resources import Document

#: Documents, and bytes of all of them, that one trial takes.
MOST_DOCUMENTS: Final = 64
MOST_BYTES: Final = 256 * 1024


def documents_of_files(names: Iterable[str], namespace: str | None) -> list[Document]:
    """The objects of files, directories and standard input; lists taken apart.

    ``namespace``: of ``-n``; objects of others are refused, as by kubectl. Raises CommandFailed.
    """
    from queues.api.check.document import documents_of

    texts, findings = document_files(names)
    for finding in findings:
        raise CommandFailed(
            tried=f"Reading {finding.file}", found=f"{finding.found}, expected {finding.expected}"
        )
    found: list[Document] = []
    for name, text in texts:
        for document in documents_of(text):
            for problem in document.problems:
                if document.value is None:
                    raise CommandFailed(
                        tried=f"Reading {name}, line {problem.line}",
                        found=f"{problem.found}, expected {problem.expected}",
                    )
            for each in _objects(document.value, f"{name}, line {document.line}"):
                _check_namespace(each, namespace, name)
                found.append(each)
    if not found:
        raise click.UsageError("-f: there is no document in what was named.")
    if len(found) > MOST_DOCUMENTS:
        raise CommandFailed(
            tried="", found=f"{len(found)} documents, expected at most {MOST_DOCUMENTS} at a time"
        )
    return found


def _objects(value: object, where: str) -> Iterator[Document]:
    """The object, or the items of a List."""
    if not isinstance(value, dict):
        raise CommandFailed(
            tried=f"Reading {where}", found=f"{value!r:.60}, expected an object of Kubernetes"
        )
    items = value.get("items")
    if value.get("kind") == "List" and isinstance(items, list):
        for item in items:
            yield from _objects(item, where)
        return
    yield value


def _check_namespace(document: Document, namespace: str | None, file: str) -> None:
    metadata = document.get("metadata")
    named = metadata.get("namespace") if isinstance(metadata, dict) else None
    if namespace is not None and named not in (None, namespace):
        raise CommandFailed(
            tried=f"Reading {file}",
            found=f"an object in namespace {named}, but -n names {namespace}",
            hint="Leave -n out, or the namespace of the object.",
        )
