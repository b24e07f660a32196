"""What this copy of Muster was built from."""

import json
from importlib.metadata import PackageNotFoundError, distribution
from typing import Final

#: Of a copy that was not built as an image or release, such as a developer's checkout.
UNKNOWN: Final = "unknown"


def commit() -> str:
    """The commit, with ``-changed`` if files differed from it; ``unknown`` if the build did not record it."""
    try:
        recorded = distribution("muster").read_text("build.json")
        return str(json.loads(recorded or "{}")["commit"])
    except (PackageNotFoundError, ValueError, KeyError):
        return UNKNOWN
