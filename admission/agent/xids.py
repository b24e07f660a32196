"""XIDs: error codes of NVIDIA's driver, and what each means for the device that has it. The table is data.

Sources: NVIDIA's *Analyzing Xid Errors with the Xid Catalog* (https://docs.nvidia.com/deploy/xid-errors/), whose
immediate action decides (RESTART_APP: the application; IGNORE: a notice; RESET_GPU and the workflows that end in it: a
reset; RESTART_BM, RESTART_VM: a reboot), and the list of application errors that NVIDIA's device plugin for Kubernetes
leaves out of its health checks (13, 31, 43, 45, 68, 109). They differ on 109, where the device plugin's list counts:
the driver says by its recovery action whether a reset is needed after all. An XID alone does not prove that a device
is broken.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
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


CATALOG: Final = "NVIDIA's Xid catalog"
DEVICE_PLUGIN: Final = "the application errors of NVIDIA's device plugin"
PRACTICE: Final = "common practice of clusters, which the Xid catalog leaves open"


def _of(xid_class: XidClass, source: str, *rows: tuple[tuple[int, ...], str]) -> tuple[Xid, ...]:
    return tuple(Xid(code, xid_class, meaning, source) for codes, meaning in rows for code in codes)


_ROWS: Final = (
    *_of(
        XidClass.APPLICATION,
        CATALOG,
        ((8,), "An engine did nothing for too long, so its work was ended."),
        ((11, 25, 32, 80), "The commands that an application gave to the device were corrupt."),
        (
            (39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136)),
            "A copy engine ended a transfer with an error.",
        ),
        ((60,), "The security processor refused work of a video application."),
        ((69,), "An application used a class of commands that the graphics engine does not have."),
        ((82, *range(99, 106)), "A JPEG decoder ended its work with an error."),
        ((83, 84, 88, 89, 96, 97, 98), "A video decoder ended its work with an error."),
        ((86, 139), "The optical flow engine ended its work with an error."),
        ((94,), "An uncorrectable memory error was contained: only the application that met it was ended."),
    ),
    *_of(
        XidClass.APPLICATION,
        DEVICE_PLUGIN,
        ((13,), "The graphics engine ended an application, mostly for an access out of bounds."),
        ((31,), "An application accessed memory of the device that it does not have."),
        ((43,), "The device ended the work of an application that had failed before."),
        (
            (45,),
            "Work was removed from the device because of an earlier error, or because somebody ended it.",
        ),
        ((68,), "A video decoder ended its work with an error."),
        ((109,), "Work could not be switched out in time; the recovery action tells if a reset is needed."),
    ),
    *_of(
        XidClass.NOTICE,
        CATALOG,
        ((14, 106, 107), "A test message of the driver."),
        ((37, 38, 44, 66, 67, 141), "The driver met an error of its own and went on."),
        (
            (63,),
            "A row of memory or a page was set aside for a spare one; it takes effect at the next reset.",
        ),
        ((92,), "Many single-bit memory errors were corrected: watch this device."),
        ((93,), "The device's own store of facts about it is written to more often than planned."),
        ((121,), "The link between CPU and GPU had an error and went on."),
        ((137,), "An application of another device was refused access over NVLink."),
        ((152, 153), "The deep learning accelerator had an error and went on."),
        ((154,), "The driver asks for another recovery action than before: the action itself counts."),
        ((157, 161), "A resource could not be retired; what is wrong with it has an XID of its own."),
        ((160,), "A channel of memory was retired."),
    ),
    *_of(
        XidClass.NOTICE,
        PRACTICE,
        ((162,), "The circuit that smooths power is in use again: this ends XID 163."),
        ((163,), "The circuit that smooths power is not in use for now."),
        ((164,), "The circuit that smooths power will wear out before long."),
    ),
    *_of(
        XidClass.RESET,
        CATALOG,
        ((46,), "The device stopped working on what it was given."),
        ((48,), "Memory of the device had an error that could not be corrected."),
        ((62, 158), "A controller inside the device stopped."),
        ((74,), "An NVLink had an error: the link, the device or the other end of it may be broken."),
        ((95,), "An uncorrectable memory error was not contained: no work on this device can be trusted."),
        ((110,), "The device stopped itself because of a security fault."),
        ((119, 120), "The processor that runs the driver's firmware does not answer, or failed."),
        ((136,), "An NVLink could not be brought up."),
        ((140,), "Memory of the device had an error that the driver could not recover from."),
        ((143,), "The device could not be initialised."),
        (
            tuple(range(144, 151)),
            "An NVLink had an error; what it means depends on details in the kernel's log.",
        ),
        ((155,), "An NVLink was taken down by the software that manages it."),
        ((156,), "A part of the device was retired; it takes effect at the next reset."),
    ),
    *_of(
        XidClass.RESET,
        PRACTICE,
        ((171, 172), "Details of an uncorrectable memory error: see XID 48."),
    ),
    *_of(
        XidClass.REBOOT,
        CATALOG,
        ((79,), "The device has fallen off the bus: the node cannot reach it any more."),
        ((151,), "Keys of confidential computing could not be changed."),
    ),
    *_of(
        XidClass.HARDWARE,
        CATALOG,
        ((54,), "A power cable of the device is not connected."),
    ),
    *_of(
        XidClass.HARDWARE,
        PRACTICE,
        ((64,), "A bad row or page of memory could not be set aside: there may be no spare one left."),
    ),
)
#: Each XID that is known, by its code.
XIDS: Final[Mapping[int, Xid]] = {row.code: row for row in _ROWS}


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
