"""What the agent reads of a node is what the driver's library says, whatever happened before.

The model beside it reads the state file of the fake library, which is what the library plays.
"""

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from admission.agent.readings import (
    SWITCH,
    DeviceReading,
    Fabric,
    MigInstance,
    NodeReading,
    RecoveryAction,
    RowRemapping,
    Telemetry,
)
from admission.agent.vendors import pci
from admission.agent.vendors.nvidia.device import NvLinks
from admission.agent.vendors.nvidia.nvidia import Nvidia
from admission.agent.vendors.vendor import VendorAbsent, VendorFailed
from queues.errors import MusterError
from tests.fakes.nvml.fake_nvml import TO_A_SWITCH, FakeNvml
from tests.fakes.nvml.state import LINKS, Device, LinkState, Presence
from tests.laws.worlds.settings import tried_of

#: Devices that a history plugs in.
MOST_DEVICES: Final = 6

#: What stays unknown while these functions and fields fail.
DYNAMIC: Final = {
    "temperature": ("nvmlDeviceGetTemperature",),
    "power": ("nvmlDeviceGetPowerUsage",),
    "power_limit": ("nvmlDeviceGetEnforcedPowerLimit",),
    "utilisation": ("nvmlDeviceGetUtilizationRates",),
    "throttling": ("nvmlDeviceGetCurrentClocksEventReasons",),
    "fabric": ("nvmlDeviceGetGpuFabricInfoV",),
    "recovery": ("field 230",),
    "ecc": ("field 4",),
    "remapping": ("field 145",),
    "processes": ("nvmlDeviceGetComputeRunningProcesses_v3",),
    "link states": ("field 165",),
    "answers": ("nvmlDeviceGetHandleByIndex_v2",),
}
#: The same for what does not change as long as the driver runs.
STATIC: Final = {
    "minor": ("nvmlDeviceGetMinorNumber",),
    "module": ("nvmlDeviceGetModuleId",),
    "remotes": ("nvmlDeviceGetNvLinkRemoteDeviceType",),
}
THROTTLING: Final = (
    (0x2, "application-clocks"),
    (0x4, "sw-power-cap"),
    (0x8, "hw-slowdown"),
    (0x10, "sync-boost"),
    (0x20, "sw-thermal"),
    (0x40, "hw-thermal"),
    (0x80, "hw-power-brake"),
    (0x100, "display-clocks"),
)


# ── the model ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Model:
    """The reading that follows from the state of the fake library."""

    fake: FakeNvml
    failing: set[str] = field(default_factory=set)
    numa: dict[str, int] = field(default_factory=dict)
    #: Links that were active once, of each device that was seen.
    were_active: dict[str, set[int]] = field(default_factory=dict)

    def read(self) -> NodeReading:
        """As the agent has to say it; what was seen now is remembered."""
        there = [each for each in self.fake.devices() if each.presence == Presence.PRESENT]
        if "answers" in self.failing:
            there = []
        there.sort(key=lambda device: bytes(device.bus_id))
        for device in there:
            active = {number for number, link in enumerate(device.links) if link.state == LinkState.UP}
            self.were_active.setdefault(device.uuid.decode(), set()).update(active)
        return NodeReading(
            vendor="nvidia",
            driver_version=self.fake.state.driver_version.decode(),
            runtime_version="12.8",
            devices=tuple(self.device(device, index) for index, device in enumerate(there)),
        )

    def device(self, device: Device, index: int) -> DeviceReading:
        numa, ecc, failing = self.numa[device.uuid.decode()], bool(device.ecc_supported), self.failing
        return DeviceReading(
            id=device.uuid.decode(),
            index=index,
            minor=None if "minor" in failing else device.minor,
            module=None if "module" in failing else device.module,
            model=device.name.decode(),
            memory_bytes=device.memory_total,
            bus_id=self.place(device),
            pcie_root=f"pci0000:{0x17 + 0x20 * device.pcie_root:02x}",
            numa_node=None if numa < 0 else numa,
            mig_enabled=bool(device.mig_enabled) if device.mig_supported else None,
            mig_instances=self.instances(device),
            uncorrected_errors=device.ecc_uncorrected
            if ecc and device.ecc_enabled and "ecc" not in failing
            else None,
            remapping=RowRemapping(pending=bool(device.remap_pending), failed=bool(device.remap_failed))
            if ecc and "remapping" not in failing
            else None,
            fabric=Fabric(cluster="", clique=device.fabric_clique, complete=device.fabric_state == 3)
            if device.fabric_state and "fabric" not in failing
            else None,
            linked_to=self.linked_to(device),
            links_down=self.down(device),
            recovery=None if "recovery" in failing else list(RecoveryAction)[device.recovery_action],
            processes=self.processes(device),
            telemetry=self.telemetry(device),
        )

    def instances(self, device: Device) -> tuple[MigInstance, ...]:
        return tuple(
            MigInstance(
                id=each.uuid.decode(),
                profile=each.profile.decode(),
                gpu_instance=each.gpu_instance,
            )
            for each in device.instances
            if each.used
        )

    def processes(self, device: Device) -> tuple[int, ...]:
        if "processes" in self.failing:
            return ()
        return tuple(sorted(each.pid for each in device.processes[: device.process_count]))

    def telemetry(self, device: Device) -> Telemetry:
        def told(name: str, value: int) -> int | None:
            return None if name in self.failing else value

        return Telemetry(
            temperature=told("temperature", device.temperature),
            power=told("power", device.power),
            power_limit=told("power_limit", device.power_limit),
            throttling=()
            if "throttling" in self.failing
            else tuple(name for bit, name in THROTTLING if device.clock_reasons & bit),
            utilisation=None if device.mig_enabled else told("utilisation", device.utilisation),
            memory_used_bytes=device.memory_used,
        )

    def linked_to(self, device: Device) -> frozenset[str]:
        """What active links lead to: a place on the bus, where another device may be by now, or a switch."""
        if self.failing & {"link states", "remotes"}:
            return frozenset()
        return frozenset(
            SWITCH
            if link.remote_type == TO_A_SWITCH
            else self.place(self.fake.state.devices[link.remote_slot])
            for link in device.links
            if link.state == LinkState.UP
        )

    def place(self, device: Device) -> str:
        return str(device.bus_id.decode().lower()[4:])

    def down(self, device: Device) -> tuple[int, ...]:
        if "link states" in self.failing:
            return ()
        return tuple(number for number in range(LINKS) if device.links[number].state == LinkState.DOWN)


# ── histories ───────────────────────────────────────────────────────────────────────────────────────────────


class DeviceHistories(RuleBasedStateMachine):
    """Devices come, go, change and fail in any order; the agent reads after each change, or after several."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.fake = FakeNvml(Path(self.folder.name) / "node")
        os.environ["FAKE_NVML_STATE"] = str(self.fake.file)
        # Starts of the driver are told by more than the state of the library.
        self.nvidia = Nvidia(self.fake.library, self.fake.sysfs, self.fake.path / "no boot id")
        self.model = Model(self.fake)
        self.replaced: set[str] = set()
        self.reads_after_each = True

    def teardown(self) -> None:
        try:
            self.fake.start_driver()
            self.it_is_what_the_library_says()
        finally:
            self.nvidia.close()
            del os.environ["FAKE_NVML_STATE"]
            self.folder.cleanup()

    def of(self, *presences: Presence) -> list[str]:
        """Devices by how they are; those that were replaced are gone for good."""
        return [
            each.uuid.decode()
            for each in self.fake.devices()
            if each.presence in presences and each.uuid.decode() not in self.replaced
        ]

    def any_of(self, data: st.DataObject, *presences: Presence) -> str | None:
        devices = self.of(*presences)
        return data.draw(st.sampled_from(devices)) if devices else None

    def is_full(self) -> bool:
        return len(list(self.fake.devices())) >= MOST_DEVICES

    @rule(
        model=st.sampled_from(["H100", "A100", "L40S", "RTX"]),
        nvlinks=st.sampled_from(["switched", "none"]),
        numa=st.sampled_from([-1, 0, 1]),
    )
    @precondition(lambda self: not self.is_full())
    def add(self, model: str, nvlinks: str, numa: int) -> None:
        self.model.numa[self.fake.add_device(model, nvlinks=nvlinks, numa=numa)] = numa

    @rule(data=st.data(), model=st.sampled_from(["H100", "A100"]))
    @precondition(lambda self: not self.is_full() and self.of(Presence.UNPLUGGED))
    def replace_one(self, data: st.DataObject, model: str) -> None:
        old = self.any_of(data, Presence.UNPLUGGED)
        assert old is not None
        root = self.fake.device(old).pcie_root
        self.model.numa[self.fake.replace(old, model, pcie_root=root)] = 0
        self.replaced.add(old)

    @rule(data=st.data(), back=st.booleans())
    def lose_or_bring_back(self, data: st.DataObject, back: bool) -> None:
        uuid = self.any_of(data, Presence.LOST if back else Presence.PRESENT)
        if uuid:
            (self.fake.bring_back if back else self.fake.lose)(uuid)

    @rule(data=st.data(), back=st.booleans())
    def unplug_or_plug(self, data: st.DataObject, back: bool) -> None:
        uuid = (
            self.any_of(data, Presence.UNPLUGGED)
            if back
            else self.any_of(data, Presence.PRESENT, Presence.LOST)
        )
        if uuid:
            (self.fake.plug if back else self.fake.unplug)(uuid)

    @rule(data=st.data(), count=st.integers(0, 7), profile=st.integers(0, 2))
    def change_mig(self, data: st.DataObject, count: int, profile: int) -> None:
        uuid = self.any_of(data, Presence.PRESENT, Presence.LOST)
        profiles = {"H100": ("1g.10gb", "2g.20gb", "3g.40gb"), "A100": ("1g.5gb", "2g.10gb", "3g.20gb")}
        for model, names in profiles.items():
            if uuid and model in self.fake.device(uuid).name.decode():
                self.fake.end_processes(uuid)
                if count:
                    self.fake.partition(uuid, *[names[profile]] * min(count, (7, 3, 2)[profile]))
                else:
                    self.fake.whole(uuid)

    @rule(data=st.data(), number=st.integers(0, 2**20), flag=st.integers(0, 1), action=st.integers(0, 7))
    def change_readings(self, data: st.DataObject, number: int, flag: int, action: int) -> None:
        uuid = self.any_of(data, Presence.PRESENT, Presence.LOST)
        if uuid:
            self.fake.set(
                uuid, temperature=number % 120, power=number, utilisation=number % 101, recovery_action=action
            )
            self.fake.set(uuid, ecc_uncorrected=flag, remap_pending=flag, remap_failed=1 - flag)
            self.fake.set(uuid, clock_reasons=number % 512, memory_used=number << 10)
            self.fake.set(uuid, fabric_clique=action, ecc_enabled=flag)

    @rule(data=st.data(), pid=st.integers(1, 9999))
    def run_or_end(self, data: st.DataObject, pid: int) -> None:
        uuid = self.any_of(data, Presence.PRESENT)
        if uuid is None:
            return
        device = self.fake.device(uuid)
        if device.process_count > 3:
            self.fake.end_processes(uuid)
        elif pid not in [each.pid for each in device.processes[: device.process_count]]:
            instances = [each.uuid.decode() for each in self.fake.instances(uuid)]
            instance = data.draw(st.sampled_from([*instances, ""]))
            self.fake.run(uuid, pid, memory=pid << 20, instance=instance)

    @rule(data=st.data(), number=st.integers(0, 11), up=st.booleans())
    def change_a_link(self, data: st.DataObject, number: int, up: bool) -> None:
        """A link of which it was never said where it leads is only brought up by connecting it."""
        uuid = self.any_of(data, Presence.PRESENT, Presence.LOST)
        if uuid and self.fake.device(uuid).links[0].state != LinkState.ABSENT:
            self.fake.link(uuid, number, up=up)

    @rule(data=st.data(), links=st.integers(1, 6))
    def connect(self, data: st.DataObject, links: int) -> None:
        first, second = self.any_of(data, Presence.PRESENT), self.any_of(data, Presence.PRESENT)
        if first and second and first != second:
            devices = self.fake.device(first), self.fake.device(second)
            if devices[0].name == devices[1].name and not any(self.is_linked(each) for each in devices):
                self.fake.connect(first, second, links=links)

    def is_linked(self, device: Device) -> bool:
        """Whether it has NVLinks, or had some; they are made once, before a device is first used."""
        up = any(link.state == LinkState.UP for link in device.links)
        return up or bool(self.model.were_active.get(device.uuid.decode()))

    @rule(what=st.sampled_from(sorted(DYNAMIC)), code=st.sampled_from([2, 3, 4, 10, 13, 27, 999]))
    def fail(self, what: str, code: int) -> None:
        for function in DYNAMIC[what]:
            self.fake.fail(function, code)
        self.model.failing.add(what)

    @rule(what=st.sampled_from(sorted(DYNAMIC)))
    def work_again(self, what: str) -> None:
        self.model.failing.discard(what)
        self.only_these_fail()

    @rule(what=st.sampled_from(sorted(STATIC)))
    def restart_the_driver_with_less_or_more(self, what: str) -> None:
        self.fake.stop_driver()
        self.model.failing ^= {what}
        self.only_these_fail()
        self.fake.start_driver(f"570.{self.fake.state.driver_starts}")

    def only_these_fail(self) -> None:
        both = DYNAMIC | STATIC
        wanted = {function for what in self.model.failing for function in both[what]}
        for functions in both.values():
            for function in functions:
                if function not in wanted:
                    self.fake.fail(function, 0)
        for function in wanted - {each.function.decode() for each in self.fake.state.failures if each.code}:
            self.fake.unsupported(function)

    @rule()
    def stop_the_driver(self) -> None:
        self.fake.stop_driver()

    @rule()
    def start_the_driver(self) -> None:
        self.fake.start_driver()

    @rule()
    def read_more_or_less_often(self) -> None:
        self.reads_after_each = not self.reads_after_each

    @invariant()
    def read(self) -> None:
        if self.reads_after_each:
            self.it_is_what_the_library_says()

    def it_is_what_the_library_says(self) -> None:
        if not self.fake.state.driver_loaded:
            with pytest.raises(VendorFailed if self.model.were_active else VendorAbsent):
                self.nvidia.read()
            return
        expected = self.model.read()
        if not self.model.were_active:
            with pytest.raises(VendorAbsent):
                self.nvidia.read()
            return
        try:
            found = self.nvidia.read()
        except MusterError as error:
            raise AssertionError("the library says more than that") from error
        assert found.devices == expected.devices
        assert found == expected


few = settings(
    max_examples=tried_of(50),
    stateful_step_count=30,
    suppress_health_check=list(HealthCheck),
    database=None,
    report_multiple_bugs=False,
)


def test_what_is_read_is_what_the_library_says_after_any_history() -> None:
    run_state_machine_as_test(DeviceHistories, settings=few)


@pytest.fixture
def pair() -> Iterator[tuple[DeviceHistories, str, str]]:
    """A history with two devices that three NVLinks join."""
    history = DeviceHistories()
    for _ in range(2):
        history.add("A100", "none", 0)
    first, second = history.of(Presence.PRESENT)
    history.fake.connect(first, second, links=3)
    history.it_is_what_the_library_says()
    yield history, first, second
    history.teardown()


def test_a_link_leads_to_the_device_that_is_in_the_place_now(
    pair: tuple[DeviceHistories, str, str],
) -> None:
    history, _, second = pair
    history.fake.unplug(second)
    history.model.numa[history.fake.replace(second, "A100", pcie_root=0)] = 0
    history.it_is_what_the_library_says()
    linked, new = history.nvidia.read().devices
    assert new.bus_id in linked.linked_to


@pytest.mark.long
def test_what_is_read_is_what_the_library_says_after_thousands_of_histories() -> None:
    run_state_machine_as_test(DeviceHistories, settings=settings(few, max_examples=3000))


# ── planted bugs ────────────────────────────────────────────────────────────────────────────────────────────


_numa_node, _links = pci.numa_node, NvLinks.read


def _without_inactive(self: NvLinks, *of: Any) -> Any:
    return _links(self, *of)[0], ()


BUGS: Final[tuple[tuple[str, Any, str, Any], ...]] = (
    ("a NUMA node of -1 counts as 0", pci, "numa_node", lambda *place: _numa_node(*place) or 0),
    ("hot plug is not noticed", Nvidia, "_should_start_again", lambda *_: False),
    ("links that are not active are not told", NvLinks, "read", _without_inactive),
    ("where links lead to is not read", NvLinks, "_remote", lambda *_: None),
)


@pytest.mark.parametrize(
    ("owner", "attribute", "wrong"), [bug[1:] for bug in BUGS], ids=[bug[0] for bug in BUGS]
)
def test_a_planted_bug_breaks_the_law(
    owner: Any, attribute: str, wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, attribute, wrong, raising=False)
    search = settings(few, max_examples=400, phases=[Phase.generate], derandomize=True)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        run_state_machine_as_test(DeviceHistories, settings=search)
