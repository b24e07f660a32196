"""A plain document of each kind that has rules, changed in places, and what is said of it."""

from copy import deepcopy
from typing import Any

import yaml

from queues.api.validation.known import Known
from queues.api.validation.validation import KINDS, violations_of
from queues.quota.queue import Limits, Queue
from queues.resources import Resources

JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train}
spec:
  minAvailable: 2
  queue: default
  tasks:
  - name: worker
    replicas: 2
    template: {spec: {containers: [{name: main, image: busybox}]}}
"""

QUEUE = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: team}
spec: {}
"""

POD_GROUP = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: group}
spec: {minMember: 2}
"""

HYPERNODE = """
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {name: s1}
spec:
  tier: 2
  members:
  - {type: HyperNode, selector: {exactMatch: {name: s0}}}
  - {type: Node, selector: {regexMatch: {pattern: "^node-[0-9]+$"}}}
  - {type: Node, selector: {labelMatch: {matchLabels: {rack: r1}}}}
"""

CONTAINERS = ("spec", "tasks", 0, "template", "spec", "containers")


def changed(document, *changes):
    """A copy of the document, or what the text says, with values set at paths."""
    made = yaml.safe_load(document) if isinstance(document, str) else deepcopy(document)
    for *path, key, value in changes:
        place = made
        for step in path:
            place = place.setdefault(step, {}) if isinstance(place, dict) else place[step]
        place[key] = value
    return made


#: API versions by kind; a Job is Volcano's.
_VERSIONS = {kind: version for version, kind in reversed(list(KINDS))}


def of_kind(kind: str, spec: Any, name: str = "a", **metadata: Any) -> dict[str, Any]:
    """A document; the kind with its API version (``batch/v1 Job``) where it is not the usual one."""
    version, _, plain = kind.rpartition(" ")
    meta = {"name": name, **metadata}
    return {"apiVersion": version or _VERSIONS[plain], "kind": plain, "metadata": meta, "spec": spec}


def messages(document, **known):
    return [one.message for one in violations_of(document, Known(**known)) if not one.tolerable]


TREE = {
    "default": Queue(name="default"),
    "root": Queue(name="root", parent=None),
    "inner": Queue(name="inner", limits=Limits(guarantee=Resources({"cpu": 4000}), capability={"cpu": 8000})),
    "leaf": Queue(name="leaf", parent="inner", limits=Limits(guarantee=Resources({"cpu": 3000}))),
    "shut": Queue(name="shut", closed=True),
}
