"""How the tests share a few processors: the slowest begin first."""

import pytest

#: Folders whose tests start control planes and then mostly wait; the slowest first.
FIRST = ("e2e", "kube")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        folder = item.nodeid.split("/")[1]
        return FIRST.index(folder) if folder in FIRST else len(FIRST)

    items.sort(key=place)
