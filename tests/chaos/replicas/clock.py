"""What faults set of the machine of a running replica, in memory that all processes share: its clock, and calm."""

import mmap
import struct
import sys
import time
from typing import Final

_SLOT: Final = struct.Struct("dd")


class Clocks:
    """How far each machine's clock is off, in seconds. Made before any process is forked."""

    def __init__(self, count: int) -> None:
        self._memory = mmap.mmap(-1, _SLOT.size * count)

    def set(self, number: int, offset: float, *, calm: bool = False) -> None:
        """Set a machine's clock. ``calm``: failpoints do not strike any more."""
        _SLOT.pack_into(self._memory, _SLOT.size * number, offset, calm)

    def offset(self, number: int) -> float:
        return float(_SLOT.unpack_from(self._memory, _SLOT.size * number)[0])

    def is_calm(self, number: int) -> bool:
        return bool(_SLOT.unpack_from(self._memory, _SLOT.size * number)[1])

    def use(self, number: int) -> None:
        """From now on this process has that machine's clock. Monotonic clocks stay: they cannot be set."""
        real, real_ns = time.time, time.time_ns

        def off() -> float:
            return real() + self.offset(number)

        def off_ns() -> int:
            return real_ns() + int(self.offset(number) * 1e9)

        for module in list(sys.modules.values()):
            found = vars(module)
            for name, ours in (("time", off), ("time_ns", off_ns)):
                if found.get(name) in (real, real_ns):
                    found[name] = ours
