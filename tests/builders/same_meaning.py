"""Pairs of Volcano Jobs, before and after an update: those that mean the same, and those that do not.

Each entry changes one Job in two ways. ``Pair.path`` is the field that may not change; "": both mean the same.
"""

import copy
from dataclasses import dataclass, field
from typing import Any

Document = dict[str, Any]


class _Absent:
    """A field that is not there. Its text is the same in each process: tests are called by it."""

    def __repr__(self) -> str:
        return "absent"


_ABSENT = _Absent()


@dataclass(frozen=True)
class Pair:
    """A field of the Job below, or of its parts, as it was written before and after."""

    at: str
    before: Any
    now: Any
    #: The field that the refusal names; "": there is none.
    path: str = ""
    #: Other fields of both.
    beside: Document = field(default_factory=dict)

    def specs(self) -> tuple[Document, Document]:
        """The spec of the Job before and after."""
        return self._spec(self.before), self._spec(self.now)

    def _spec(self, value: Any) -> Document:
        spec = a_spec()
        for at, given in (*self.beside.items(), (self.at, value)):
            _set(spec, at, given)
        return spec


def a_spec() -> Document:
    """A Job of two tasks."""
    container = {"name": "main", "image": "a", "resources": {"limits": {"cpu": 1}}}
    template: Document = {"spec": {"containers": [container]}}
    return {
        "tasks": [
            {"name": "w", "replicas": 2, "template": template},
            {"replicas": 1, "template": copy.deepcopy(template)},
        ]
    }


def _set(spec: Document, at: str, value: Any) -> None:
    *way, last = [int(part) if part.isdigit() else part for part in at.split("|")]
    holder: Any = spec
    for part in way:
        if isinstance(holder, dict) and part not in holder:
            holder[part] = {}
        holder = holder[part]
    if value is _ABSENT:
        holder.pop(last, None)
    else:
        holder[last] = value


TEMPLATE = "tasks|0|template"
POD = f"{TEMPLATE}|spec"
MAIN = f"{POD}|containers|0"
_IN_POD = "spec.tasks[0].template.spec"
_IN_MAIN = f"{_IN_POD}.containers[0]"
_TERM = {"topologyKey": "k", "labelSelector": {"matchLabels": {"a": "b"}}}


def _affinity(term: Document) -> Document:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _deep(value: str) -> Document:
    expression = {"key": "a", "operator": "In", "values": ["b", value]}
    term = {"topologyKey": "k", "labelSelector": {"matchExpressions": [expression]}}
    weighted = {"weight": 1, "podAffinityTerm": term}
    return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}


SAME = [
    Pair(f"{TEMPLATE}|metadata", _ABSENT, {"creationTimestamp": None}),
    Pair(f"{TEMPLATE}|metadata", _ABSENT, {}),
    Pair(f"{TEMPLATE}|metadata", {"labels": {"a": "b"}}, {"labels": {"a": "b"}, "annotations": None}),
    Pair(f"{MAIN}|resources|requests", _ABSENT, {}),
    Pair(f"{MAIN}|resources", {"limits": {}}, _ABSENT),
    Pair(f"{MAIN}|env", _ABSENT, []),
    Pair(f"{MAIN}|env", [{"name": "A", "value": ""}], [{"name": "A"}]),
    Pair(f"{POD}|volumes", _ABSENT, None),
    Pair(f"{POD}|volumes", [{"name": "a"}], [{"name": "a", "emptyDir": {}}]),
    Pair(
        f"{POD}|volumes",
        [{"name": "a", "emptyDir": {"sizeLimit": "1Gi"}}],
        [{"name": "a", "emptyDir": {"sizeLimit": "1024Mi"}}],
    ),
    Pair(
        f"{POD}|volumes",
        [{"name": "a", "emptyDir": {"sizeLimit": 1024}}],
        [{"name": "a", "emptyDir": {"sizeLimit": "1Ki"}}],
    ),
    *(Pair(f"{MAIN}|resources|limits|cpu", 1, other) for other in ("1", "1000m", 1.0, "1e0")),
    Pair(f"{MAIN}|resources|limits|cpu", 0.5, "500m"),
    Pair(f"{MAIN}|resources|requests|memory", "1Gi", "1073741824"),
    Pair(f"{MAIN}|livenessProbe", {"httpGet": {"port": 80}}, {"httpGet": {"port": "80"}}),
    Pair(
        f"{MAIN}|livenessProbe",
        {"httpGet": {"port": 80}},
        {"httpGet": {"port": 80, "scheme": "HTTP"}, "timeoutSeconds": 1},
    ),
    Pair(f"{MAIN}|ports", [{"containerPort": 80}], [{"containerPort": 80, "protocol": "TCP", "hostPort": 0}]),
    Pair(f"{MAIN}|stdin", _ABSENT, False),
    Pair(
        f"{MAIN}|volumeMounts",
        [{"name": "a", "mountPath": "/a", "readOnly": False}],
        [{"name": "a", "mountPath": "/a"}],
    ),
    Pair(f"{POD}|hostNetwork", _ABSENT, False),
    Pair(f"{POD}|dnsPolicy", _ABSENT, "ClusterFirst"),
    Pair(f"{POD}|dnsPolicy", "ClusterFirstWithHostNet", _ABSENT, beside={f"{POD}|hostNetwork": True}),
    Pair(f"{POD}|restartPolicy", "Always", _ABSENT),
    Pair(f"{POD}|affinity", _ABSENT, {}),
    Pair(f"{POD}|affinity", {"nodeAffinity": None}, {"podAffinity": {}}),
    Pair(f"{POD}|affinity", _deep("c"), {**_deep("c"), "nodeAffinity": {}}),
    Pair(f"{POD}|tolerations", [{"key": "a"}], [{"key": "a", "operator": "Equal", "value": ""}]),
    Pair(f"{POD}|overhead", {"cpu": "0.1"}, {"cpu": "100m"}),
    Pair("tasks|0|policies", _ABSENT, []),
    Pair("tasks|0|maxRetry", _ABSENT, 3),
    Pair("tasks|0|maxRetry", 0, _ABSENT),
    Pair("tasks|0|topologyPolicy", "none", _ABSENT),
    Pair("tasks|0|dependsOn", {"name": ["default1"], "iteration": ""}, {"name": ["default1"]}),
    Pair("tasks|1|name", _ABSENT, "default1"),
    Pair("tasks|0|replicas", 2, 5),
    Pair("tasks|0|replicas", 2, 0),
    Pair("tasks|0|minAvailable", _ABSENT, 1),
    Pair("minAvailable", 3, _ABSENT),
    Pair("minAvailable", _ABSENT, 2),
    Pair("priorityClassName", _ABSENT, "high"),
    Pair("schedulerName", "volcano", _ABSENT),
    Pair("schedulerName", "", "volcano"),
    Pair("maxRetry", 0, 3),
    Pair("policies", [], _ABSENT),
    Pair("plugins", _ABSENT, {}),
    Pair(
        "plugins",
        {"mpi": []},
        {"mpi": [], "svc": [], "ssh": []},
        beside={"tasks|0|name": "master", "tasks|1|name": "worker"},
    ),
    Pair("plugins", {"pytorch": [], "svc": []}, {"pytorch": []}),
    Pair("networkTopology", {"highestTierAllowed": 1}, {"mode": "hard", "highestTierAllowed": 1}),
    Pair("volumes", _ABSENT, []),
]

DIFFERENT = [
    Pair(f"{MAIN}|image", "a", "b", f"{_IN_MAIN}.image"),
    Pair(f"{MAIN}|resources|limits|cpu", 1, 2, f"{_IN_MAIN}.resources.limits.cpu"),
    Pair(f"{MAIN}|resources|limits|cpu", "1", "1001m", f"{_IN_MAIN}.resources.limits.cpu"),
    Pair(f"{MAIN}|resources|requests", _ABSENT, {"cpu": 0}, f"{_IN_MAIN}.resources.requests.cpu"),
    Pair(
        f"{MAIN}|env",
        [{"name": "A", "value": "1"}],
        [{"name": "A", "value": "2"}],
        f"{_IN_MAIN}.env[0].value",
    ),
    Pair(f"{MAIN}|env", [{"name": "A"}], [{"name": "A"}, {"name": "B"}], f"{_IN_MAIN}.env[1].name"),
    Pair(
        f"{MAIN}|env",
        [{"name": "A", "value": "1"}],
        [{"name": "A", "value": "1000m"}],
        f"{_IN_MAIN}.env[0].value",
    ),
    Pair(f"{MAIN}|args", ["a", ""], ["a"], f"{_IN_MAIN}.args[1]"),
    Pair(f"{MAIN}|securityContext", _ABSENT, {"runAsUser": 0}, f"{_IN_MAIN}.securityContext.runAsUser"),
    Pair(
        f"{MAIN}|livenessProbe",
        {"httpGet": {"port": 80}},
        {"httpGet": {"port": 81}},
        f"{_IN_MAIN}.livenessProbe.httpGet.port",
    ),
    Pair(f"{POD}|terminationGracePeriodSeconds", _ABSENT, 0, f"{_IN_POD}.terminationGracePeriodSeconds"),
    Pair(
        f"{POD}|initContainers",
        [{"name": "a", "image": "b"}],
        [{"name": "a", "image": "b", "restartPolicy": "Always"}],
        f"{_IN_POD}.initContainers[0].restartPolicy",
    ),
    Pair(f"{POD}|automountServiceAccountToken", _ABSENT, False, f"{_IN_POD}.automountServiceAccountToken"),
    Pair(f"{POD}|hostNetwork", _ABSENT, True, f"{_IN_POD}.hostNetwork"),
    Pair(
        f"{POD}|volumes",
        [{"name": "a"}],
        [{"name": "a", "hostPath": {"path": "/"}}],
        f"{_IN_POD}.volumes[0].hostPath.path",
    ),
    Pair(
        f"{POD}|volumes",
        [{"name": "a", "emptyDir": {"sizeLimit": "1Gi"}}],
        [{"name": "a", "emptyDir": {"sizeLimit": "1G"}}],
        f"{_IN_POD}.volumes[0].emptyDir.sizeLimit",
    ),
    Pair(
        f"{POD}|affinity",
        _affinity(_TERM),
        _affinity({**_TERM, "namespaceSelector": {}}),
        f"{_IN_POD}.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespaceSelector",
    ),
    Pair(
        f"{POD}|affinity",
        _deep("c"),
        _deep("d"),
        f"{_IN_POD}.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.labelSelector.matchExpressions[0]",
    ),
    Pair(f"{POD}|nodeSelector", {"path": ""}, _ABSENT, f"{_IN_POD}.nodeSelector.path"),
    Pair(f"{TEMPLATE}|metadata", {"labels": {"a": "b"}}, _ABSENT, "spec.tasks[0].template.metadata.labels.a"),
    Pair(
        f"{TEMPLATE}|metadata", {"labels": {"value": ""}}, {}, "spec.tasks[0].template.metadata.labels.value"
    ),
    Pair(
        f"{TEMPLATE}|metadata",
        {"annotations": {"port": "1"}},
        {"annotations": {"port": "1.0"}},
        "spec.tasks[0].template.metadata.annotations.port",
    ),
    Pair("tasks|1|name", _ABSENT, "other", "spec.tasks[1].name"),
    Pair("tasks|0|maxRetry", _ABSENT, -1, "spec.tasks[0].maxRetry"),
    Pair(
        "tasks|0|policies",
        _ABSENT,
        [{"action": "RestartJob"}],
        "spec.tasks[0].policies[0].action",
    ),
    Pair(
        "policies",
        [{"event": "PodFailed", "action": "RestartJob"}],
        [{"event": "PodEvicted", "action": "RestartJob"}],
        "spec.policies[0].event",
    ),
    Pair("schedulerName", _ABSENT, "other", "spec.schedulerName"),
    Pair("maxRetry", 3, 4, "spec.maxRetry"),
    Pair("plugins", _ABSENT, {"svc": []}, "spec.plugins.svc"),
    Pair("plugins", {"svc": [], "ssh": []}, {"svc": []}, "spec.plugins.ssh"),
    Pair("plugins", {"svc": []}, {"svc": ["--publish-not-ready-addresses=true"]}, "spec.plugins.svc[0]"),
    Pair(
        "networkTopology",
        {"mode": "hard", "highestTierAllowed": 1},
        {"mode": "soft", "highestTierAllowed": 1},
        "spec.networkTopology.mode",
    ),
    Pair("queue", "default", "other", "spec.queue"),
    Pair("ttlSecondsAfterFinished", _ABSENT, 0, "spec.ttlSecondsAfterFinished"),
    Pair(
        "tasks|0|partitionPolicy",
        {"totalPartitions": 2, "partitionSize": 1},
        {"totalPartitions": 2, "partitionSize": 1, "minPartitions": 1},
        "spec.tasks[0].partitionPolicy.minPartitions",
    ),
]
PAIRS = SAME + DIFFERENT
