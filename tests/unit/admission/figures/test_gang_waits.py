"""The histogram of waits by queue and class of size."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from admission.figures import gang_waits
from admission.figures.gang_waits import SIZE_CLASSES, GangWait, GangWaits, size_class
from admission.turn_report import devices_of
from queues.workload import QueueName
from tests.builders.running_work import workload

A, B = QueueName('a "quoted"'), QueueName("b")


def samples(waits: GangWaits) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(waits.text("wait", "about"))
        for sample in family.samples
    }


def test_sizes_are_few_classes_without_gaps() -> None:
    assert [size_class(devices) for devices in (0, 1, 2, 7, 8, 9, 64, 65, 512, 513, 10_000)] == [
        *("0", "1", "2-7", "2-7", "8", "9-64", "9-64", "65-512", "65-512", "513+", "513+")
    ]
    assert len(SIZE_CLASSES) == 7


def test_parts_of_devices_count_up_to_whole_ones() -> None:
    assert devices_of(workload("w", gpus=0.5, pods=3)) == 2
    assert devices_of(workload("w", gpus=0, pods=3)) == 0


def test_buckets_add_up() -> None:
    waits = GangWaits()
    for seconds in (0.5, 20.0, 1e6):
        waits.add(GangWait(A, 8, seconds))
    found = samples(waits)
    assert [found["wait_bucket", A, "8", le] for le in ("1", "10", "60", "259200", "+Inf")] == [1, 1, 2, 2, 3]
    assert (found["wait_count", A, "8"], found["wait_sum", A, "8"]) == (3, 1_000_020.5)


def test_queues_that_are_gone_are_forgotten() -> None:
    waits = GangWaits()
    waits.add(GangWait(A, 1, 1))
    waits.add(GangWait(B, 1, 1))
    waits.keep({B})
    assert {key[1] for key in samples(waits)} == {"b"}


def test_of_too_many_those_counted_longest_ago_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gang_waits, "MOST_PAIRS", 2)
    waits = GangWaits()
    for queue in (A, B, A, QueueName("c")):
        waits.add(GangWait(queue, 1, 1))
    assert {key[1] for key in samples(waits)} == {A, "c"}


def test_nothing_is_no_text() -> None:
    assert GangWaits().text("wait", "about") == ""
