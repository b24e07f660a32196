"""The Helm that the tests of the chart run: found on PATH, or built once from its Go module.

Only these tests need it, so ``make kubernetes`` does not build it, and it has a folder of its own in the cache.
"""

import re
import sys
from pathlib import Path
from typing import Final

from deploy.local.kubernetes import Binary, build_missing, find, folder_of, main

HELM: Final = "4.3.1"
BINARY: Final = Binary(
    name="helm",
    module="helm",
    package="helm.sh/helm/v4/cmd/helm",
    says=rf'Version:"v{re.escape(HELM)}"',
    stamps=(f"helm.sh/helm/v4/internal/version.version=v{HELM}",),
    version_argv=("version",),
)


def helm() -> Path:
    """The program, built if there is none. Raises GoNotFound, BuildFailed."""
    folder = folder_of(f"helm-{HELM}", (BINARY,))
    time_taken = "about 5 minutes on 2 cores, once"
    return find(BINARY, folder) or build_missing((BINARY,), folder, time_taken)[BINARY.name]


if __name__ == "__main__":
    sys.exit(main(lambda: f"Helm {HELM} is {helm()}"))
