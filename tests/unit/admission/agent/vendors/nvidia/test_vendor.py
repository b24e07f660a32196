"""The reader is what the agent asks a vendor for, and stays as small as the agent has to be."""

import os
import subprocess
import sys
from pathlib import Path

from admission.agent.vendors.nvidia.nvidia import Nvidia
from admission.agent.vendors.vendor import Vendor
from tests.fakes.nvml.fake_nvml import FakeNvml

READ_OFTEN = """
import sys
from pathlib import Path
from admission.agent.vendors.nvidia.nvidia import Nvidia

nvidia = Nvidia(sysfs=Path(sys.argv[1]))
for _ in range(200):
    devices = nvidia.read().devices
status = Path("/proc/self/status").read_text()
print(len(devices), status.split("VmHWM:")[1].split()[0])
"""


def test_it_is_a_vendor(nvidia: Nvidia) -> None:
    vendor: Vendor = nvidia
    assert vendor is nvidia


def test_a_process_that_finds_the_library_by_itself_reads_in_less_than_thirty_megabytes(
    node: FakeNvml,
) -> None:
    for _ in range(8):
        node.add_device(nvlinks="switched")
    read = subprocess.run(
        [sys.executable, "-c", READ_OFTEN, str(node.sysfs)],
        env={**os.environ, **node.environment(), "PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        text=True,
        check=True,
    )
    devices, kilobytes = map(int, read.stdout.split())
    assert devices == 8
    assert kilobytes < 30_000
