"""Namespaces for Kueue's LocalQueues, where Kueue's names are to count."""

from typing import Any

from queues.api.convert.conversion import Conversion
from queues.api.convert.convert import convert_documents

QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: research}
spec: {namespaceSelector: {}}
---
"""
LOCAL = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: %s, namespace: ns}
spec: {clusterQueue: %s}
---
"""


def converted(*local: tuple[str, str]) -> Conversion:
    return convert_documents(
        [("kueue.yaml", QUEUES + "".join(LOCAL % each for each in local))], kueue_names=True
    )


def namespace(done: Conversion) -> dict[str, Any]:
    [found] = [each["metadata"] for each in done.documents if each["kind"] == "Namespace"]
    return dict(found)


def test_on_request_kueues_names_count_in_the_namespaces_of_its_local_queues(golden: Any) -> None:
    done = converted(("one", "research"), ("two", "other"))
    assert namespace(done) == golden["first"]
    assert not any("in jobs of this namespace write" in each.expected for each in done.differences)

    alone = converted(("lq", "research"))
    assert namespace(alone) == golden["second"]


def test_a_local_queue_with_a_name_that_no_label_can_have_gets_no_annotation() -> None:
    done = converted(("q" * 64, "research"))
    assert namespace(done)["annotations"] == {"muster.dev/queue-name": "research"}
