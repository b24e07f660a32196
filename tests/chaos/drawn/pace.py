"""How much slower than usual everything goes in this process's runs, because the machine has other work to do.

All times of a run are multiplied by it: a lease of two seconds means nothing where a process gets a tenth of a core.
"""

import os
import time
from typing import Final

#: Seconds of processor time that are tried.
_TRIED: Final = 0.1
#: Up to so much less of a processor than there is needs no slower pace.
_USUAL: Final = 4.0
_SLOWEST: Final = 4.0


def _measured() -> float:
    began, used = time.monotonic(), time.process_time()
    while time.process_time() - used < _TRIED:
        pass
    share = (time.monotonic() - began) / _TRIED
    return round(min(_SLOWEST, max(1.0, share / _USUAL)), 1)


#: 1: the times are as they are written. ``CHAOS_PACE`` says it, or it is measured once.
PACE: Final = float(os.environ.get("CHAOS_PACE") or _measured())
