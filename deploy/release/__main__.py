"""Builds a release: ``python -m deploy.release``; ``make release``."""

import sys
from importlib.metadata import version
from pathlib import Path
from typing import Final

from deploy.release.files import Unpublishable, release

_REPOSITORY: Final = Path(__file__).parents[2]

if __name__ == "__main__":
    number = version("muster")
    folder = _REPOSITORY / "dist" / f"release-{number}"
    try:
        for file in release(folder, number):
            print(f"{file.stat().st_size / 1e6:8.1f} MB  {file.relative_to(_REPOSITORY)}")
    except Unpublishable as error:
        sys.exit(f"The release cannot be built: {error}")
