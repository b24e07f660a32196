"""Names of resources as people write them: a short name that no node can have is refused, not taken as it is. Pure."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from queues.errors import MusterError
from queues.resources import GPU

#: Short names that mean a resource.
SHORT_NAMES: Final[Mapping[str, str]] = {"gpu": GPU}
#: Resources without a vendor. All others have one: Kubernetes takes no device whose name has no ``/``.
_PLAIN: Final = ("cpu", "memory", "ephemeral-storage", "pods")
_HUGE_PAGES: Final = "hugepages-"
#: What names may have meant that mean nothing.
_MEANT: Final = {**{name: name for name in _PLAIN}, **SHORT_NAMES, "gpus": GPU, "mem": "memory"}
_EXPECTED: Final = f"{', '.join(_PLAIN)}, {_HUGE_PAGES}SIZE, gpu, or a device by its whole name"


class NoSuchResource(MusterError):
    """{option}: found resource {found}, expected {expected}.{meant}"""


def resource_named(option: str, text: str) -> str:
    """The whole name of a resource that a node may have. ``option``: where it was found. Raises NoSuchResource."""
    name = SHORT_NAMES.get(text, text)
    if "/" in name or name in _PLAIN or name.startswith(_HUGE_PAGES):
        return name
    meant = _MEANT.get(name) or next((_MEANT[each] for each in get_close_matches(name, _MEANT, n=1)), None)
    raise NoSuchResource(
        option=option,
        found=repr(name[:60]),
        expected=_EXPECTED,
        meant=f" Did you mean {meant}?" if meant else "",
    )
