"""The tables of labels and annotations say where each is read: there it changes what is decoded, and nowhere else."""

from dataclasses import replace
from itertools import product
from typing import Any, Final

import msgspec
import pytest

from admission.decode.pods import WirePod, pod_fact
from admission.workloads.kinds.operators.json_parts import WireOperatorJob
from admission.workloads.kinds.operators.objects import fact_of
from queues.api import names
from queues.api.metadata_keys import (
    ANNOTATION,
    JOB,
    KNOWN_KEYS,
    LABEL,
    OPERATOR_JOB,
    POD,
    POD_GROUP,
    VOLCANO_JOB,
    KeyUse,
)
from queues.api.workload_kinds import OPERATOR_KINDS
from queues.kind_names import KindName
from tests.builders.decoded_workloads import a_group, a_job, a_volcano_job, task

#: A value for each key that users write on workloads.
VALUES: Final = {
    names.QUEUE_LABEL: "team",
    names.QUEUE_ANNOTATION: "team",
    names.VOLCANO_QUEUE: "team",
    names.GROUP_ANNOTATION: "ring",
    names.GROUP_ANNOTATION_VOLCANO: "ring",
    names.GROUP_MIN_MEMBER: "2",
    names.REQUIRED_TOPOLOGY: "example.com/rack",
    names.PREFERRED_TOPOLOGY: "example.com/rack",
    names.PARTITIONS: "2=example.com/rack",
    names.TOGETHER: "a",
    names.BALANCED: "true",
    names.RUN_TIME: "1h",
    f"{names.HINTS}/*": "x",
    names.CHECKPOINT_INTERVAL: "1h",
    names.MIN_RUN_TIME: "1h",
    names.RETRY: "1",
    names.HOLD: "true",
    names.AFTER: "job/a",
    names.MAY_GROW: "true",
    names.HEARTBEAT: "2026-11-21T10:00:00Z",
    names.HOLD_MIN_RESOURCES: "10m",
    names.PREEMPTABLE: "false",
    names.COOLDOWN_TIME: "1h",
    names.GPU_FRACTION: "0.5",
    names.GPU_MEMORY: "2000",
}
WITHOUT_EFFECT: Final = [key for key, row in KNOWN_KEYS.items() if row.use is KeyUse.WITHOUT_EFFECT]


def a_pod(metadata: dict[str, Any]) -> Any:
    container = {"name": "c", "image": "i"}
    document = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "1", **metadata},
        "spec": {"containers": [container]},
    }
    fact = pod_fact(msgspec.json.decode(msgspec.json.encode(document), type=WirePod), None)
    return replace(fact, labels=())  # selectors of other pods see any label


def a_job_set(metadata: dict[str, Any]) -> Any:
    meta = {"name": "j", "namespace": "ns", "uid": "u", "resourceVersion": "1", **metadata}
    raw = msgspec.json.encode({"metadata": meta, "spec": {}})
    [job_set] = [each for each in OPERATOR_KINDS if each.kind == KindName("jobset")]
    return fact_of(job_set, msgspec.json.decode(raw, type=WireOperatorJob))


DECODED: Final = {
    JOB: a_job,
    OPERATOR_JOB: a_job_set,
    VOLCANO_JOB: lambda metadata: a_volcano_job(task(), meta=metadata),
    POD_GROUP: a_group,
    POD: a_pod,
}


@pytest.mark.parametrize("key", [*VALUES, *WITHOUT_EFFECT])
def test_a_name_changes_what_is_decoded_where_the_table_says_so(key: str) -> None:
    row, cells = KNOWN_KEYS[key], list(product(DECODED, (LABEL, ANNOTATION)))
    is_read = [row.use is KeyUse.READ and field in row.all_places().get(place, ()) for place, field in cells]
    changes = [
        DECODED[place]({field: {key: VALUES.get(key, "2")}}) != DECODED[place]({}) for place, field in cells
    ]
    assert dict(zip(cells, changes, strict=True)) == dict(zip(cells, is_read, strict=True))


def test_each_name_that_users_write_on_workloads_is_tried() -> None:
    workloads = {JOB, VOLCANO_JOB, POD_GROUP, POD}
    read = {
        key
        for key, row in KNOWN_KEYS.items()
        if row.use is KeyUse.READ and not workloads.isdisjoint(row.all_places())
    }
    # With another name, or written by controllers.
    assert read - VALUES.keys() == {
        *(names.GPU_FRACTION_DEVICES, names.COMPLETION_INDEX, names.CONTROLLER_UID),
        *(names.LWS_NAME, names.LWS_GROUP_INDEX, names.LWS_SIZE, names.LWS_EXCLUSIVE_TOPOLOGY),
    }
