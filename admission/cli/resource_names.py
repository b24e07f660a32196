"""Names of resources on a command line."""

from collections.abc import Iterable, Mapping
from typing import Any

import click

from queues.api.names import ROOT_QUEUE
from queues.api.resource_names import NoSuchResource, resource_named


def checked_resource(option: str, name: str) -> str:
    """The whole name, if a node may have such a resource. Raises UsageError. ``option``: where it was found."""
    try:
        return resource_named(option, name)
    except NoSuchResource as error:
        raise click.UsageError(str(error)) from error


def warn_of_unknown(shown: Mapping[str, Mapping[str, Any]], resources: Iterable[str]) -> None:
    """Warn of resources that no usable node has now. ``shown``: the queues by name; nothing is told without root."""
    there = {
        line["resource"]
        for line in shown.get(ROOT_QUEUE, {}).get("accounts", ())
        if line["capability"] is not None
    }
    for name in dict.fromkeys(resources):
        if there and name not in there:
            click.echo(f"Warning: no usable node has {name} now.", err=True)
