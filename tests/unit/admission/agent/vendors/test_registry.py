"""The vendors whose devices are read."""

from admission.agent.vendors.registry import VENDORS, remedy


def test_for_each_vendor_there_is_something_to_do() -> None:
    assert all(remedy(vendor.name) for vendor in VENDORS)
