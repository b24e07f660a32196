"""Names of resources as people write them: a short name that no node can have is refused, not taken as it is. Pure."""

from typing import Final

from queues.errors import MusterError
from queues.resources import GPU

#: Short names that mean a resource, whatever the case.
_SHORT_NAMES: Final = {"gpu": GPU, "gpus": GPU, "mem": "memory"}
#: Resources without a vendor. All others have one: Kubernetes takes no device whose name has no ``/``.
_PLAIN: Final = ("cpu", "memory", "ephemeral-storage", "pods")
_HUGE_PAGES: Final = "hugepages-"
_KNOWN: Final = {**{name: name for name in _PLAIN}, **_SHORT_NAMES}
_EXPECTED: Final = f"gpu, {', '.join(_PLAIN)}, {_HUGE_PAGES}SIZE, or a device by its whole name"


class NoSuchResource(MusterError):
    """{option}: found resource {found}, expected {expected}.{meant}"""


def resource_named(option: str, text: str) -> str:
    """The whole name of a resource: ``gpu`` is nvidia.com/gpu. ``option``: where it was found.

    Raises NoSuchResource: no node can have it.
    """
    if (meant := usual_name(text)) is not None:
        return meant
    from difflib import get_close_matches

    near = next((_KNOWN[each] for each in get_close_matches(text.lower(), _KNOWN, n=1)), None)
    raise NoSuchResource(
        option=option,
        found=repr(text[:60]),
        expected=_EXPECTED,
        meant=f" Did you mean {near}?" if near else "",
    )


def usual_name(name: str) -> str | None:
    """The whole name of a resource; None: no node can have it, but it may be the last part of such a name."""
    if "/" in name or name in _PLAIN or name.startswith(_HUGE_PAGES):
        return name
    return _SHORT_NAMES.get(name.lower())
