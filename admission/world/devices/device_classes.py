"""What devices count as: ResourceFlavors name DeviceClasses, and DeviceClasses select devices. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable

from admission.facts.cluster import FlavorFact
from admission.facts.devices import DeviceClassFact, ResourceSliceFact, SliceDevice
from queues.resources import WHOLE, Resources


class DeviceClasses:
    """DeviceClasses, and the resources that flavors say their devices count as."""

    def __init__(self) -> None:
        self._classes: dict[str, DeviceClassFact] = {}
        self._flavors: dict[str, FlavorFact] = {}

    def put_class(self, name: str, fact: DeviceClassFact | None) -> bool:
        """A DeviceClass appeared, changed or went away. Whether that changes what devices count as."""
        self._classes.pop(name, None)
        if fact is not None:
            self._classes[name] = fact
        return bool(self._named(name))

    def put_flavor(self, name: str, fact: FlavorFact | None) -> bool:
        """A ResourceFlavor appeared, changed or went away. Whether that changes what devices count as."""
        before = self._flavors.pop(name, None)
        if fact is not None and fact.device_classes:
            self._flavors[name] = fact
        named = [each.device_classes if each is not None else {} for each in (before, fact)]
        return named[0] != named[1]

    def _named(self, device_class: str) -> list[str]:
        """The resources that flavors say the devices of a class count as."""
        return sorted(
            {
                flavor.device_classes[device_class]
                for flavor in self._flavors.values()
                if device_class in flavor.device_classes
            }
        )

    def resource_of(self, device_class: str) -> tuple[str | None, str]:
        """The resource that devices of a class count as, and why there is none, as found and expected."""
        named = self._named(device_class)
        if not named:
            return None, (
                f"DeviceClass {device_class}: found no ResourceFlavor that names it, expected one with "
                f"deviceClasses: {{{device_class}: …}}; ask for another class, or an administrator to count it"
            )
        if len(named) > 1:
            return None, (
                f"DeviceClass {device_class}: found ResourceFlavors that count it as {' and as '.join(named)}, "
                "expected one resource; an administrator has to correct them"
            )
        known = self._classes.get(device_class)
        if known is None:
            return None, (
                f"DeviceClass {device_class}: found none of that name, expected the one that a ResourceFlavor "
                "names; ask for another class, or an administrator to create it"
            )
        if known.problem:
            return None, f"DeviceClass {device_class}: {known.problem}; an administrator has to change it"
        return named[0], ""

    def resources(self) -> frozenset[str]:
        """Resources that claimed devices count as."""
        named = (flavor.device_classes.values() for flavor in self._flavors.values())
        return frozenset(resource for each in named for resource in each)

    def counted(
        self, slices: Iterable[ResourceSliceFact], which: Callable[[SliceDevice], bool] | None = None
    ) -> Resources:
        """What the devices of these slices count as: each once for every resource with a class that selects it.

        ``which``: only these devices; None for all.
        """
        named = {name for flavor in self._flavors.values() for name in flavor.device_classes}
        classes = [
            (self._classes[name], resource)
            for name in named
            if (resource := self.resource_of(name)[0]) is not None
        ]
        found: Counter[str] = Counter()
        for part in slices:
            for device in part.devices if which is None else filter(which, part.devices):
                found.update(
                    {
                        resource: WHOLE
                        for known, resource in classes
                        if known.driver in ("", part.driver) and known.attributes <= device.attributes
                    }
                )
        return Resources(found)
