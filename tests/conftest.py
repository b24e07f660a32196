"""How the tests share two processors: those that use one control plane stay together, and begin first."""

import pytest

#: Folders whose tests share a control plane of their own; the slowest first.
TOGETHER = ("e2e", "kube")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def folder(item: pytest.Item) -> str:
        return item.nodeid.split("/")[1]

    for item in items:
        # Tests with a control plane of their own say which one.
        if folder(item) in TOGETHER and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(folder(item)))
    items.sort(key=lambda item: TOGETHER.index(folder(item)) if folder(item) in TOGETHER else len(TOGETHER))
