"""Processor profiles of Go programs: what ``/debug/pprof/profile`` answers.

The format is a gzipped protocol buffer (perftools.profiles.Profile): a table of texts, functions and places that name
them, and samples that name the places of a stack, innermost first, with a count and nanoseconds.
"""

import gzip
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

#: A field's number, and its number or bytes.
_Field = tuple[int, int | bytes]


@dataclass(frozen=True, slots=True)
class Sample:
    """One stack, names of functions, the innermost first, and the processor seconds spent in it."""

    stack: tuple[str, ...]
    seconds: float


def samples(profile: bytes) -> list[Sample]:
    """The samples of a profile."""
    parts: dict[int, list[bytes]] = defaultdict(list)
    for number, value in _fields(gzip.decompress(profile)):
        if isinstance(value, bytes):
            parts[number].append(value)
    texts = [text.decode() for text in parts[6]]
    functions = {}
    for each in parts[5]:
        of_function = dict(_fields(each))
        functions[of_function[1]] = texts[int(of_function.get(2, 0))]
    places: dict[int, list[str]] = {}
    for each in parts[4]:
        lines = [
            dict(_fields(value))
            for number, value in _fields(each)
            if number == 4 and isinstance(value, bytes)
        ]
        identity = next(int(value) for number, value in _fields(each) if number == 1)
        places[identity] = [functions.get(line.get(1, 0), "") for line in lines]
    found = []
    for each in parts[2]:
        numbers: dict[int, list[int]] = defaultdict(list)
        for number, value in _fields(each):
            numbers[number] += list(_varints(value)) if isinstance(value, bytes) else [value]
        stack = tuple(name for place in numbers[1] for name in places[place])
        found.append(Sample(stack, numbers[2][-1] / 1e9))
    return found


def _fields(message: bytes) -> Iterator[_Field]:
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        if key & 7 == 2:
            length, at = _varint(message, at)
            yield key >> 3, message[at : at + length]
            at += length
        elif key & 7 == 0:
            value, at = _varint(message, at)
            yield key >> 3, value
        else:
            raise ValueError(f"found wire type {key & 7}, expected 0 or 2: a processor profile has no others")


def _varints(packed: bytes) -> Iterator[int]:
    at = 0
    while at < len(packed):
        value, at = _varint(packed, at)
        yield value


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
