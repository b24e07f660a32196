"""Names of resources as people write them: ``gpu`` is understood everywhere, and what no node can have is refused."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Final

import click

from queues.api.names import ROOT_QUEUE
from queues.resources import GPU

#: Resources without a vendor. All others have one: Kubernetes takes no device whose name has no ``/``.
_PLAIN: Final = ("cpu", "memory", "ephemeral-storage", "pods")
_HUGE_PAGES: Final = "hugepages-"
#: What short names mean, whatever the case.
_SHORT: Final = {"gpu": GPU, "gpus": GPU, "mem": "memory"}
_KNOWN: Final = {**{name: name for name in _PLAIN}, **_SHORT}


def full_resource(option: str, name: str) -> str:
    """The whole name of a resource: ``gpu`` is nvidia.com/gpu. Raises UsageError: no node can have it.

    ``option``: where it was found.
    """
    if (meant := usual_name(name)) is not None:
        return meant
    near = next((_KNOWN[each] for each in get_close_matches(name.lower(), _KNOWN, n=1)), None)
    expected = f"gpu, {', '.join(_PLAIN)}, {_HUGE_PAGES}SIZE, or a device by its whole name"
    did_you_mean = f" Did you mean {near}?" if near else ""
    raise click.UsageError(f"{option}: found resource {name[:60]!r}, expected {expected}.{did_you_mean}")


def usual_name(name: str) -> str | None:
    """The whole name of a resource; None: no node can have it, but it may be the last part of such a name."""
    if "/" in name or name in _PLAIN or name.startswith(_HUGE_PAGES):
        return name
    return _SHORT.get(name.lower())


def shown_resource(option: str, name: str, there: Iterable[str]) -> str:
    """The whole name of a resource to show. Raises UsageError: no node can have it.

    ``there``: whole names of those there are. One of them may be named by what follows its ``/``: on a cluster whose
    only GPUs are amd.com/gpu these are ``gpu``.
    """
    names = sorted(set(there))
    alike = [each for each in names if each.rpartition("/")[2] == name]
    if name in names or len(alike) == 1:
        return name if name in names else alike[0]
    return full_resource(option, name)


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
