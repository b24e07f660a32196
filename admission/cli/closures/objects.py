"""Reservations and NodeDrains at the API server, made, listed and deleted as the user of the kubeconfig."""

from datetime import datetime
from typing import Any, Final

import click

from admission.cli.access.objects import ClusterRoute, Refused, path_of, send
from admission.cli.failures import CommandFailed
from queues.api.api_resources import ApiResource, Document
from queues.text_format import rfc3339, span

_NOT_FOUND: Final = 404
_CONFLICT: Final = 409


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


def shown_window(start: datetime, lasts: str | None) -> str:
    """``from 2026-11-27T14:00:00Z for 4h``. ``lasts``: in seconds, as the object has it. None without an end."""
    text = f"from {rfc3339(start.timestamp())}"
    return text if lasts is None else f"{text} for {span(int(lasts[:-1]))}"
