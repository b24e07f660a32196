"""Collections visit what is new, however much there is."""

import gc
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from weakref import ref

import pytest

from admission import garbage_collection


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    thresholds, callbacks = gc.get_threshold(), list(gc.callbacks)
    # A controller that a test before this one has run in this process has set it up.
    gc.callbacks[:] = [each for each in callbacks if each is not garbage_collection._freeze_survivors]
    yield
    gc.callbacks[:] = callbacks
    gc.set_threshold(*thresholds)
    gc.unfreeze()


def test_what_a_collection_found_in_use_is_left_out_of_the_next_ones() -> None:
    garbage_collection.collect_seldom()
    kept = [[number] for number in range(1000)]
    gc.collect()
    assert gc.get_freeze_count() > len(kept)
    assert not any(each is kept for each in gc.get_objects(generation=2))


class Cyclic:
    def __init__(self) -> None:
        self.itself = self


def test_new_cycles_are_collected_and_old_ones_after_a_term() -> None:
    garbage_collection.collect_seldom()
    old = Cyclic()
    gone = ref(old)
    gc.collect()
    new = ref(Cyclic())
    del old
    gc.collect()
    assert new() is None
    assert gone() is not None, "it was frozen when it was in use"
    garbage_collection.collect_all()
    assert gone() is None


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


FREED_AMONG_OTHERS = """
import sys
from admission import garbage_collection
from tests.unit.admission.test_garbage_collection import resident
garbage_collection.return_freed_memory()
large = bytearray(b"x" * 2**24)
del large
blocks = [bytearray(b"x" * size) for _ in range(30) for size in (2**21, 2**18)]
before = resident()
del blocks[::2]
sys.exit(before - resident() < 2**25)
"""


def test_large_blocks_go_back_to_the_system_though_small_ones_lie_among_them() -> None:
    subprocess.run([sys.executable, "-c", FREED_AMONG_OTHERS], check=True)


def test_it_is_set_up_once() -> None:
    before = len(gc.callbacks)
    garbage_collection.collect_seldom()
    garbage_collection.collect_seldom()
    assert len(gc.callbacks) == before + 1
