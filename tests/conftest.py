"""How the tests share a few processors: those of one control plane stay together, and the longest begin first.

A fixture of session scope is made once in each test process that needs it. A control plane takes ten seconds of
processor time to start and goes on taking some while it stands idle, so the tests that share one run in one process,
and it is stopped when the last of them is over.
"""

import gc
from collections.abc import Generator
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from xdist.scheduler import LoadScopeScheduling

from tests.plugin_in_place import serve_in_place

serve_in_place()

#: No draw fails for the time that it takes, however busy the machine is.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
#: The laws draw the same worlds each time: a commit passes always or never. ``make test-all`` draws others, and more
#: (tests/laws/worlds/settings.py).
settings.register_profile("repeatable", derandomize=True, database=None, max_examples=12)
# Hypothesis also draws numbers and texts that it finds in the modules loaded so far. Which these are depends on the
# tests that were collected and on what ran before, and the worlds would with them.
providers._get_local_constants = lambda: providers._local_constants

# At Python's default, a tenth of what the tests take goes into the search for garbage.
gc.set_threshold(20_000)

#: Beginnings of test ids, and what their tests have in common; those that take longest first, else the first that fits.
SHARED: Final = (
    ("tests/e2e/failures/test_crash_points.py", "cluster of killed leaders"),
    ("tests/e2e/failures/test_failing_plugins.py", "cluster of killed leaders"),
    ("tests/e2e/failures/test_leadership_takeover.py", "cluster of killed leaders"),
    ("tests/e2e/failures/test_restore.py", "cluster of killed leaders"),
    ("tests/e2e/gangs/test_adoption.py", "cluster that Muster comes to"),
    ("tests/e2e/monitoring", "cluster that Prometheus watches"),
    ("tests/e2e/upgrades", "cluster of killed leaders"),
    ("tests/e2e/users/test_demo.py::test_a_demo", ""),
    ("tests/e2e/users/test_demo.py", "demo"),
    ("tests/e2e/installation", "pods of Muster"),
    ("tests/e2e/support", ""),
    # What a whole product is asked for, in two parts that take equally long.
    ("tests/e2e/administrators", "product of people"),
    ("tests/e2e/users", "product of people"),
    ("tests/e2e/trials", "product of people"),
    ("tests/e2e/devices", "product of people"),
    ("tests/e2e/capacity", "product of people"),
    ("tests/e2e", "product of gangs"),
    ("tests/kube/client/test_eviction.py", "bare cluster"),
    ("tests/kube/client", ""),
    ("tests/kube/watch/test_api_server_contact.py", ""),
    ("tests/kube/watch/test_informer.py", ""),
    ("tests/kube/watch/test_informers.py", ""),
    ("tests/kube/cli", "bare cluster"),
    ("tests/kube/install/test_bounds_of_definitions.py", "bare cluster"),
    ("tests/kube/job", "bare cluster"),
    ("tests/kube/pod_rules", "bare cluster"),
    ("tests/kube/watch", "bare cluster"),
    ("tests/kube/writers", "bare cluster"),
    ("tests/unit/deploy/local/test_cluster.py", "bare cluster"),
    ("tests/kube/install", "cluster to install in"),
    ("tests/kube", "guarded cluster"),
    ("tests/browser", "browser"),
)
#: What begins first; the slowest first. Others follow by folder, so that nothing long is left for the end.
FIRST: Final = (
    "product of people",
    "product of gangs",
    "cluster of killed leaders",
    "guarded cluster",
    "pods of Muster",
    "cluster to install in",
    "cluster that Prometheus watches",
    "bare cluster",
    "demo",
    "cluster that Muster comes to",
    "browser",
)
FOLDERS: Final = ("e2e", "kube", "laws", "sql", "docs")
#: Folders whose tests are given out one by one, for some take long; those of others by file.
ONE_BY_ONE: Final = frozenset({"laws", "docs", "chaos"})
#: Fixtures that start a control plane.
CLUSTERS: Final = frozenset(
    {
        "whole_stack",
        "harness",
        "busy_cluster",
        "kept_demo",
        "deployed",
        "local_cluster",
        "door_cluster",
        "install_cluster",
    }
)
#: Those that were started for the tests that share something.
STARTED: Final = pytest.StashKey[list[Any]]()


def shared_by(test: str) -> str:
    """What a test shares with others, from its id; empty: nothing that costs much."""
    return next((shared for beginning, shared in SHARED if test.startswith(beginning)), "")


def _clusters_of(item: pytest.Item) -> list[Any]:
    """The fixtures of a test that start control planes, as pytest has them."""
    info: dict[str, list[Any]] = item._fixtureinfo.name2fixturedefs  # type: ignore[attr-defined]
    return [info[name][-1] for name in sorted(CLUSTERS & info.keys())]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> tuple[int, int, bool]:
        shared, folder = shared_by(item.nodeid), item.nodeid.split("/")[1]
        return (
            FIRST.index(shared) if shared else len(FIRST),
            FOLDERS.index(folder) if folder in FOLDERS else len(FOLDERS),
            # From the first test with Muster's webhook on, it answers in that cluster.
            "running" in getattr(item, "fixturenames", ()),
        )

    for item in items:
        if _clusters_of(item) and not shared_by(item.nodeid):
            raise pytest.UsageError(
                f"{item.nodeid} needs a control plane: say in tests/conftest.py which it shares"
            )
    items.sort(key=place)


def pytest_collection_finish() -> None:
    """Twelve thousand tests stay until the end: each search for garbage would look at all of them again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    started: list[Any] = item.session.stash.setdefault(STARTED, [])
    started += [cluster for cluster in _clusters_of(item) if cluster not in started]
    try:
        yield
    finally:
        if nextitem is None or shared_by(nextitem.nodeid) != shared_by(item.nodeid):
            while started:
                # As pytest does when a parameter of a fixture changes: what depends on it goes first.
                started.pop().finish(item._request)  # type: ignore[attr-defined]


class ByCluster(LoadScopeScheduling):
    """Gives each process all tests at once that share something, in the order of the collection."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        file, _, _ = nodeid.partition("::")
        return shared_by(nodeid) or (nodeid if nodeid.split("/")[1] in ONE_BY_ONE else file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByCluster:
    return ByCluster(config, log)
