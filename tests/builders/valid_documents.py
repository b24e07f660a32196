"""A plain document of each kind that has rules, changed in places, and what is said of it."""

import yaml

from queues.api.validation.known import Known
from queues.api.validation.validation import violations_of
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


def changed(text, *changes):
    """The document with values set at paths."""
    document = yaml.safe_load(text)
    for *path, key, value in changes:
        place = document
        for step in path:
            place = place[step]
        place[key] = value
    return document


def messages(document, **known):
    return [one.message for one in violations_of(document, Known(**known)) if not one.tolerable]


TREE = {
    "default": Queue(name="default"),
    "root": Queue(name="root", parent=None),
    "inner": Queue(name="inner", limits=Limits(guarantee=Resources({"cpu": 4000}), capability={"cpu": 8000})),
    "leaf": Queue(name="leaf", parent="inner", limits=Limits(guarantee=Resources({"cpu": 3000}))),
    "shut": Queue(name="shut", closed=True),
}
