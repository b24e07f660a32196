"""What this copy of Muster was built from."""

import json
from importlib.metadata import PackageNotFoundError, distribution
from typing import Final

#: Of a developer's checkout, and of a copy that was built from sources without a repository.
UNKNOWN: Final = "unknown"
#: Where the build puts it in the package's metadata: wheels of ``deploy.release.build_hook``.
RECORDED_IN: Final = "extra_metadata/build.json"


def commit() -> str:
    """The commit, with ``-changed`` if files differed from it; ``unknown`` if the build did not record it."""
    try:
        recorded = distribution("muster").read_text(RECORDED_IN)
        return str(json.loads(recorded or "{}")["commit"])
    except (PackageNotFoundError, ValueError, KeyError):
        return UNKNOWN
