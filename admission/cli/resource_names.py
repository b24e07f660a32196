"""Names of resources as people write them: a short name that no node can have is refused, not taken as it is."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Final

import click

from queues.api.names import ROOT_QUEUE
from queues.resources import GPU

#: Resources without a vendor. All others have one: Kubernetes takes no device whose name has no ``/``.
_PLAIN: Final = ("cpu", "memory", "ephemeral-storage", "pods")
_HUGE_PAGES: Final = "hugepages-"
#: What short names may have meant.
_MEANT: Final = {**{name: name for name in _PLAIN}, "gpu": GPU, "gpus": GPU, "mem": "memory"}


def checked_resource(option: str, name: str) -> str:
    """The name, if a node may have such a resource. Raises UsageError. ``option``: where it was found."""
    if "/" in name or name in _PLAIN or name.startswith(_HUGE_PAGES):
        return name
    meant = _MEANT.get(name) or next((_MEANT[each] for each in get_close_matches(name, _MEANT, n=1)), None)
    expected = f"{', '.join(_PLAIN)}, {_HUGE_PAGES}SIZE, or a device by its whole name"
    did_you_mean = f" Did you mean {meant}?" if meant else ""
    raise click.UsageError(f"{option}: found resource {name[:60]!r}, expected {expected}.{did_you_mean}")


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
