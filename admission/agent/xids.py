"""XIDs: error codes of NVIDIA's driver, and what each means for the device that has it. The table is ``xids.toml``.

An XID alone does not prove that a device is broken.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from typing import Final


class XidClass(StrEnum):
    """What an XID means for the device."""

    #: Work on the device did something wrong or was ended; the device itself is healthy.
    APPLICATION = "application-fault"
    #: It only informs; the device goes on. Whether it is healthy follows from its other readings.
    NOTICE = "notice"
    #: It works again after a reset of the device.
    RESET = "needs-reset"
    #: It works again after a reboot of the node.
    REBOOT = "needs-reboot"
    #: A person has to look at the device, and mostly replace it.
    HARDWARE = "hardware"
    #: Not in the table: not healthy until a person has found out.
    UNKNOWN = "unknown"

    @property
    def is_healthy(self) -> bool:
        """Whether a device with such an XID, and nothing else, may take new work."""
        return self in (XidClass.APPLICATION, XidClass.NOTICE)


@dataclass(frozen=True, slots=True)
class Xid:
    """A code, with a sentence for people who read the condition of a device."""

    code: int
    xid_class: XidClass
    meaning: str
    source: str


#: Who says so, by the names in the table.
_SOURCES: Final = {
    "catalog": "NVIDIA's Xid catalog",
    "device-plugin": "the application errors of NVIDIA's device plugin",
    "practice": "common practice of clusters, which the Xid catalog leaves open",
}


def _table() -> Iterator[Xid]:
    text = files(__package__).joinpath("xids.toml").read_text(encoding="utf-8")
    for name, by_source in tomllib.loads(text).items():
        for source, meanings in by_source.items():
            for meaning, codes in meanings.items():
                yield from (Xid(code, XidClass(name), meaning, _SOURCES[source]) for code in codes)


#: Each XID that is known, by its code.
XIDS: Final[Mapping[int, Xid]] = {row.code: row for row in _table()}


def xid(code: int) -> Xid:
    """What is known of an XID; one that is not in the table is of class UNKNOWN."""
    known = XIDS.get(code)
    if known is not None:
        return known
    return Xid(
        code, XidClass.UNKNOWN, "This XID is not in the table: look it up in NVIDIA's Xid catalog.", ""
    )


def xid_class(code: int) -> XidClass:
    """Class of an XID; UNKNOWN: it is not in the table."""
    return xid(code).xid_class
