"""The Helm that the tests of the chart run: found on PATH, or built once from its Go module.

Only these tests need it, so ``make kubernetes`` does not build it, and it has a folder of its own in the cache.
"""

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Final

from deploy.local.kubernetes import Binary, build_missing, fits, folder_of
from deploy.local.processes import die_with_parent
from queues.errors import MusterError

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
    on_path = shutil.which(BINARY.name)
    if on_path and fits(BINARY, Path(on_path)):
        return Path(on_path)
    cached = folder / BINARY.name
    if not os.access(cached, os.X_OK):
        build_missing((BINARY,), folder, "about 5 minutes on 2 cores, once")
    return cached


def main() -> int:
    """Find or build it, then say where it is."""
    die_with_parent()
    try:
        print("Helm", HELM, "is", helm())
    except MusterError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
