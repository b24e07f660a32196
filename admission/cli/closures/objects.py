"""Reservations and NodeDrains at the API server, made, listed and deleted as the user of the kubeconfig."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import click

from admission.cli.access.objects import ClusterRoute, Refused, path_of, send
from admission.cli.failures import CommandFailed
from queues.api.api_resources import ApiResource, Document
from queues.text_format import rfc3339, span

_NOT_FOUND: Final = 404
_FORBIDDEN: Final = 403
_CONFLICT: Final = 409
#: Objects of one kind that are read: more than may be there.
_MOST: Final = "1000"


def dry_run_option(command: Any) -> Any:
    """Add ``--dry-run``."""
    return click.option(
        "--dry-run",
        type=click.Choice(["server", "none"]),
        default="none",
        show_default=True,
        help="Create nothing; server: have the API server check it.",
    )(command)


def create(route: ClusterRoute, resource: ApiResource, document: Document, *, dry_run: str) -> Document:
    """Make the object. Raises CommandFailed: the API server does not take it, or has one of its name."""
    kind, name = resource.kind.lower(), document["metadata"]["name"]
    query = {"fieldManager": "kubectl-muster", "fieldValidation": "Strict"}
    if dry_run == "server":
        query["dryRun"] = "All"
    body = {"apiVersion": resource.api_version, "kind": resource.kind, **document}
    try:
        made: Document = send(
            route, "POST", path_of(resource, None), body, tried=f"Creation of {kind} {name}", **query
        )
    except Refused as error:
        if error.status == _CONFLICT:
            hint = "Give another name with --name."
            raise CommandFailed(tried="", found=f"There is a {kind} {name} already", hint=hint) from error
        if error.status == _NOT_FOUND:
            hint = "`muster install` of this version adds the kind."
            raise CommandFailed(tried="", found=f"The cluster has no {resource.plural}", hint=hint) from error
        raise
    return made


def delete(route: ClusterRoute, resource: ApiResource, name: str, *, dry_run: str = "none") -> bool:
    """Delete an object; False: there is none of that name. Raises CommandFailed."""
    query = {"dryRun": "All"} if dry_run == "server" else {}
    tried = f"Deletion of {resource.kind.lower()} {name}"
    try:
        send(route, "DELETE", path_of(resource, None, name), tried=tried, **query)
    except Refused as error:
        if error.status == _NOT_FOUND:
            return False
        raise
    return True


def listed(route: ClusterRoute, resource: ApiResource) -> list[Document] | None:
    """All objects of a kind. None if the user may not list them. Raises CommandFailed."""
    tried = f"Listing {resource.plural}"
    try:
        found: list[Document] = send(route, "GET", path_of(resource, None), tried=tried, limit=_MOST)["items"]
    except Refused as error:
        if error.status == _NOT_FOUND:
            return []  # of an older version
        if error.status == _FORBIDDEN:
            return None
        raise
    return found


def spec_of(document: Document) -> Mapping[str, Any]:
    """What its author wrote."""
    return document.get("spec") or {}


def status_of(document: Document) -> Mapping[str, Any]:
    """What Muster says of it. Empty: nothing yet."""
    return document.get("status") or {}


def begins(document: Document) -> str:
    """When its window begins, as it was written."""
    return str(spec_of(document).get("from") or spec_of(document).get("at") or "")


def shown_window(start: datetime, lasts: str | None) -> str:
    """``from 2026-11-27T14:00:00Z for 4h``. ``lasts``: in seconds, as the object has it. None without an end."""
    text = f"from {rfc3339(start.timestamp())}"
    return text if lasts is None else f"{text} for {span(int(lasts[:-1]))}"
