"""Which workloads hold the devices of a rack: a letter and a colour for each, since not all see colours. Pure."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from admission.read_api.bodies import SeatedBody

#: Colours of workloads, as the style sheet has them.
COLOURS: Final = 6
#: Workloads that are named below a rack; its own view has all of them.
_NAMED: Final = 8
#: Without those that look like a digit or a line.
_ALPHABET: Final = "ABCDEFGHJKLMNPQRSTUVWXYZ"

#: Workloads with whole GPUs on one node, and how many each has.
Holders = Sequence[tuple[SeatedBody, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerMark:
    """How the devices of one workload look."""

    letter: str
    colour: int


def marks_of(nodes: Sequence[Holders]) -> dict[str, OwnerMark]:
    """The mark of each workload in a rack by its uid. ``nodes``: the workloads on each, as they are drawn.

    A letter is one workload's alone. A colour is mostly the same in every rack, and not that of a workload on the same
    node or the one above, as long as there are enough colours.
    """
    found: dict[str, OwnerMark] = {}
    above: set[int] = set()
    for holders in nodes:
        here = {found[uid].colour for one, _ in holders if (uid := str(one.uid)) in found}
        for one, _ in holders:
            uid = str(one.uid)
            if uid not in found:
                found[uid] = OwnerMark(letter=_letters(len(found)), colour=_colour(uid, here, above))
            here.add(found[uid].colour)
        above = here
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A workload of a rack, below it."""

    mark: OwnerMark
    name: str
    #: Its GPUs in the rack.
    gpus: int


def owners_of(nodes: Sequence[Holders], marks: Mapping[str, OwnerMark]) -> tuple[list[Owner], int]:
    """The workloads of a rack that are named below it, and how many more there are."""
    held: dict[str, int] = {}
    names: dict[str, str] = {}
    for holders in nodes:
        for one, count in holders:
            uid = str(one.uid)
            held[uid] = held.get(uid, 0) + count
            names[uid] = f"{one.namespace}/{one.name}"
    named = [
        Owner(mark=marks[uid], name=names[uid], gpus=count) for uid, count in list(held.items())[:_NAMED]
    ]
    return named, len(held) - len(named)


def _colour(uid: str, here: set[int], above: set[int]) -> int:
    usual = zlib.crc32(uid.encode()) % COLOURS
    others = [(usual + step) % COLOURS for step in range(COLOURS)]
    free = [each for each in others if each not in here]
    return next((each for each in free if each not in above), free[0] if free else usual)


def _letters(number: int) -> str:
    """``A``, ``B``, … ``Z``, ``AA``, …"""
    text = ""
    while number >= 0:
        text = _ALPHABET[number % len(_ALPHABET)] + text
        number = number // len(_ALPHABET) - 1
    return text
