"""``muster`` that waits for heartbeats of shells for two seconds."""

import sys

from admission.cli.muster import main
from admission.workloads import inputs

if __name__ == "__main__":
    inputs.SILENT_SHELL_SECONDS = 2  # type: ignore[misc]
    sys.exit(main())
