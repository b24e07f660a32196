"""Names of resources: which ones pods can ask for, and which one a name means that is written otherwise.

Documents, commands and pods are read by the same rules: those of the API server for containers. Pure.
"""

from decimal import Decimal
from difflib import get_close_matches
from typing import Final

from queues.api.reading.user_values import is_label_key
from queues.errors import InvalidQuantity, MusterError
from queues.resources import CPU, GPU, MEMORY, PODS, quantity
from queues.text_format import excerpt

#: What the names of huge pages begin with, before the size of a page.
HUGE_PAGES: Final = "hugepages-"
#: Short names that mean a resource, whatever the case.
_SHORT_NAMES: Final = {"gpu": GPU, "gpus": GPU, "mem": MEMORY}
_OF_CONTAINERS: Final = (CPU, MEMORY, "ephemeral-storage")
#: Resources without a vendor. All others have one: Kubernetes takes no device whose name has no ``/``.
_PLAIN: Final = (*_OF_CONTAINERS, PODS)
#: Part of the names that Kubernetes keeps for itself.
_NATIVE: Final = "kubernetes.io/"
#: Vendors whose devices have names in lower case, by the word that people write for their domain.
_VENDORS: Final = {"nvidia": "nvidia.com", "amd": "amd.com"}
#: Beginnings of names in a ResourceQuota, which stand before the name of the resource.
_OF_QUOTAS: Final = ("requests.", "limits.")
_KNOWN: Final = {**{name: name for name in _PLAIN}, **_SHORT_NAMES}

_PLAIN_EXPECTED: Final = f"{', '.join(_PLAIN)}, {HUGE_PAGES}SIZE, or a device by its whole name"
_UNKNOWN: Final = "which no pod can ask for"
EXTENDED_EXPECTED: Final = "the name of an extended resource, such as nvidia.com/gpu"


class NoSuchResource(MusterError):
    """{option}: found resource {found}, expected {expected}.{meant}"""


def resource_named(option: str, text: str) -> str:
    """The whole name of a resource: ``gpu`` is nvidia.com/gpu. ``option``: where it was found.

    Raises NoSuchResource: no pod can ask for it.
    """
    if (whole := usual_name(text)) is not None:
        return whole
    meant = meant_by(text)
    raise NoSuchResource(
        option=option,
        found=repr(text[:60]),
        expected=f"gpu, {_PLAIN_EXPECTED}",
        meant=f" Did you mean {meant}?" if meant else "",
    )


def usual_name(name: str) -> str | None:
    """The whole name of a resource; None if no pod can ask for it, but it may be the last part of such a name."""
    return name if can_be_limited(name) else _SHORT_NAMES.get(name.lower())


def is_extended(name: str) -> bool:
    """True for the name of an extended resource, such as ``nvidia.com/gpu``: devices are given whole."""
    return "/" in name and is_label_key(name) and _NATIVE not in name and not name.startswith("requests.")


def can_be_asked(name: str) -> bool:
    """True if the API server lets a container ask for a resource of this name."""
    is_native = "/" in name and _NATIVE in name and is_label_key(name)
    return name in _OF_CONTAINERS or page_size(name) is not None or is_native or is_extended(name)


def can_be_limited(name: str) -> bool:
    """True if an amount of this resource can be compared with what pods ask for and nodes have."""
    return name == PODS or can_be_asked(name)


def page_size(name: str) -> Decimal | None:
    """The bytes of one page of huge pages; None if it is another resource, or its name has no size."""
    if not name.startswith(HUGE_PAGES) or not is_label_key(name):
        return None
    try:
        size = quantity(name.removeprefix(HUGE_PAGES))
    except InvalidQuantity:
        return None
    return size if size > 0 else None


def problem_of_limit(name: str) -> tuple[str, str] | None:
    """What is found and what is expected where an amount is a limit for pods; None if it can be one."""
    return None if can_be_limited(name) else _problem(name, _UNKNOWN, _PLAIN_EXPECTED)


def problem_of_request(name: str) -> tuple[str, str] | None:
    """The same where a container asks for it; None if it may."""
    return None if can_be_asked(name) else _problem(name, _UNKNOWN, _PLAIN_EXPECTED.replace(f", {PODS}", ""))


def doubt_about(name: str) -> tuple[str, str] | None:
    """The same about a name that nodes can have but that no vendor uses, such as ``nvidia.com/GPU``; None if all is
    well.
    """
    meant = meant_by(name) if is_extended(name) else ""
    return _problem(name, "which no device plugin is known to use", "") if meant else None


def _problem(name: str, why: str, otherwise: str) -> tuple[str, str]:
    meant = meant_by(name)
    return f"resource {excerpt(name)}, {why}", f"{meant}?" if meant else otherwise


def meant_by(name: str) -> str:
    """The resource that a name probably means which is written otherwise; "": not known."""
    lower = name.lower()
    for prefix in _OF_QUOTAS:
        lower = lower.removeprefix(prefix)
    vendor, slash, device = lower.partition("/")
    if slash:
        domain = _VENDORS.get(vendor, vendor)
        if domain not in _VENDORS.values():
            return lower if lower != name and is_extended(lower) and not is_extended(name) else ""
        meant = f"{domain}/{'gpu' if device in ('', 'gpus') else device}"
        return meant if meant != name and is_extended(meant) else ""
    if lower in (*_VENDORS, *_VENDORS.values()):
        return f"{_VENDORS.get(lower, lower)}/gpu"
    if lower.replace("-", "").startswith("hugepages"):
        return f"{HUGE_PAGES}2Mi"
    near = _KNOWN.get(lower) or next((_KNOWN[each] for each in get_close_matches(lower, _KNOWN, n=1)), "")
    return near if near != name else ""
