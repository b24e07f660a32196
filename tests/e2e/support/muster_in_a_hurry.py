"""``muster`` for which minutes of a quiet cluster pass in seconds: watches are silent, or come to their
end, and what is looked after now and then is due."""

import sys
from types import ModuleType
from typing import Final

from admission import history_keeper, leadership
from admission.cli.muster import main
from admission.kube.watch.informer import Timing
from admission.kube.watch.informers import Informers

#: Seconds. Some watches are ended by the API server first, the others are given up.
_WATCHES: Final = Timing(silence=1.5, watch=1.0, absent=1.0)
_EVERY: Final[tuple[tuple[ModuleType, str], ...]] = (
    (leadership, "NONCE_EVERY"),
    (history_keeper, "EVERY"),
    (history_keeper, "SUM_UP_EVERY"),
)


def hurry() -> None:
    """Raises AttributeError for a name that is no more."""
    for module, name in _EVERY:
        getattr(module, name)
        setattr(module, name, 1.0)
    Informers.__init__.__defaults__ = (_WATCHES,)


if __name__ == "__main__":
    hurry()
    sys.exit(main())
