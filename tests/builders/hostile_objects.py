"""Objects of every kind that Muster reads, written to harm: at and beyond every limit, of wrong types, of any size.

A document is made by a ``Pick``, which chooses one of several values: Hypothesis draws them in laws, a seeded generator
in tests with a real API server.
"""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from json import dumps
from typing import Any, Final, NamedTuple

from hypothesis import strategies as st

from queues.api import names

Document = dict[str, Any]
Pick = Callable[[Sequence[Any]], Any]


class Hostile(NamedTuple):
    """An object, and the name of the informer that reads it."""

    informer: str
    document: Document


def _random_text(length: int) -> str:
    """Text that does not compress: Postgres stores long texts compressed, also in indexes."""
    parts = (blake2b(str(part).encode()).hexdigest() for part in range(length // 128 + 1))
    return "".join(parts)[:length]


LONG: Final = _random_text(6000)
HUGE: Final = _random_text(200_000)

#: What annotations, and texts in free-form documents, may say.
TEXTS: Final = (
    "",
    "true",
    "default",
    "victim",
    "Team_A",
    "../\n",
    "a\0b",
    "\\\\\0",
    "\ufffd\U0001f600",
    "x" * 253,
    "x" * 254,
    LONG,
    HUGE,
    "0",
    "-1",
    "1.5",
    "٣",
    "3000000000",
    "2000000000",
    "5000000",
    "9" * 18,
    "9" * 19,
    "9" * 400,
    "9" * 100_000,
    "9" * 400 + "h",
    "9" * 60 + "h",
    "1h" * 30,
    "1h" * 50_000,
    "1e400",
    "NaN",
    "inf",
    "0.5",
    "0.0000000000000001",
    "8=rack,2=kubernetes.io/hostname",
    "999999999999999999=rack",
    "2=rack," * 20_000,
    "worker/2000000000",
    "{" * 5000,
    "nested deeper than Muster reads",
)

#: What labels may say: the API server allows 63 letters, digits, -, _ and . in their values.
LABELS: Final = ("", "true", "false", "Team_A", "a" * 63, "9" * 63, "3000000000", "2000000000", "5", "worker")

NUMBERS: Final = (None, 0, -1, 1, 2, 100_001, 2**31 - 1, -(2**31), 2**31, 2**53, 2**63 - 1, 10**30, 1.5, "2")

QUANTITIES: Final = (
    "1",
    0,
    1,
    "-1",
    "1n",
    "1Ei",
    "1000000000000Ei",
    "0." + "0" * 400 + "1",
    "9" * 400,
    "9" * 100_000 + "x",
    "1e400",
    "1e-400",
    " " * 50_000 + "1",
    1e300,
    2**63 - 1,
    "NaN",
    "",
    "lots",
)

RESOURCES: Final = ("cpu", "memory", "nvidia.com/gpu", "volcano.sh/vgpu-number", "hugepages-2Mi")
ODD_RESOURCES: Final = ("nvidia.com/gpu#0", "a\0b", "x" * 400, LONG, "", "volcano.sh/vgpu-cores")

#: Bytes of one list.
_LARGEST: Final = 300_000

#: How many there are of anything that is a list or a mapping.
COUNTS: Final = (0, 1, 2, 300, 3000)

WORKLOAD_NAMES: Final = (
    names.QUEUE_LABEL,
    names.QUEUE_ANNOTATION,
    names.VOLCANO_QUEUE,
    names.GROUP_MIN_MEMBER,
    names.RUN_TIME,
    names.CHECKPOINT_INTERVAL,
    names.MIN_RUN_TIME,
    names.COOLDOWN_TIME,
    names.PREEMPTABLE,
    names.USER,
)
POD_NAMES: Final = (
    *WORKLOAD_NAMES,
    names.GROUP_ANNOTATION,
    names.GROUP_ANNOTATION_VOLCANO,
    names.TASK_SPEC,
    names.TASK_INDEX,
    names.COMPLETION_INDEX,
    names.JOB_VERSION,
    names.ADMISSION_ID,
    names.SEAT,
    names.DEVICES,
    names.RECREATED_FROM,
)
TEMPLATE_NAMES: Final = (
    names.REQUIRED_TOPOLOGY,
    names.PREFERRED_TOPOLOGY,
    names.PARTITIONS,
    names.TOGETHER,
    names.BALANCED,
    names.GPU_FRACTION,
    names.GPU_MEMORY,
    names.GPU_FRACTION_DEVICES,
    names.ADMISSION_ID,
)


def _some(pick: Pick, keys: Sequence[str], values: Sequence[Any]) -> Document:
    """Up to three of the keys."""
    if not keys:
        return {}
    return {pick(keys): pick(values) for _ in range(pick((0, 1, 2, 3)))}


def many(item: Any, count: int) -> list[Any]:
    """So many of the same, as far as an object may be that large (etcd takes 1.5 MB)."""
    return [item] * min(count, max(1, _LARGEST // len(json_of(item))))


def nested(depth: int) -> Any:
    """A value inside so many others."""
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


def _owners(pick: Pick, uid: str) -> list[Document]:
    kinds = (
        ("batch/v1", "Job"),
        ("batch.volcano.sh/v1alpha1", "Job"),
        ("v1", "Pod"),
        ("apps/v1", "ReplicaSet"),
    )
    owners = []
    for _ in range(pick((0, 0, 1, 2))):
        version, kind = pick(kinds)
        owner = pick((uid, "h1", "theirs", LONG, "a\0b", "00000000-0000-0000-0000-000000000000"))
        reference = {"apiVersion": version, "kind": kind, "name": "o", "uid": owner}
        owners.append({**reference, "controller": pick((True, False))})
    return owners


def _metadata(pick: Pick, name: str, *, annotations: Sequence[str] = (), namespaced: bool = True) -> Document:
    uid = f"uid-{name}"
    return {
        "name": name,
        **({"namespace": "hostile"} if namespaced else {}),
        "uid": uid,
        "resourceVersion": "1",
        "generation": pick((1, 1, 2**31 - 1)),
        "creationTimestamp": pick(
            ("2026-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", None)
        ),
        "labels": {
            **_some(pick, annotations, LABELS),
            **{f"l{index}": "v" for index in range(pick((0, 0, 0, 3000)))},
        },
        "annotations": _some(pick, annotations, TEXTS),
        "ownerReferences": _owners(pick, uid) if namespaced else [],
    }


def _amounts(pick: Pick) -> Document:
    amounts = _some(pick, (*RESOURCES, *RESOURCES, *ODD_RESOURCES), QUANTITIES)
    return amounts | {f"example.org/r{index}": "1" for index in range(pick((0, 0, 0, 300)))}


def _requirement(pick: Pick) -> Document:
    count = pick((0, 1, 300, 30_000))
    return {
        "key": pick(("rack", "metadata.name", "x" * 400, "a\0b")),
        "operator": pick(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Weird", "")),
        "values": [f"v{index}" for index in range(count)],
    }


def _term(pick: Pick) -> Document:
    field = pick(("matchExpressions", "matchFields"))
    return {field: many(_requirement(pick), pick((0, 1, 2, 1000)))}


def _affinity(pick: Pick) -> Document:
    required = {"nodeSelectorTerms": many(_term(pick), pick(COUNTS))}
    preferred = many({"weight": pick(NUMBERS), "preference": _term(pick)}, pick(COUNTS))
    # Without a labelSelector a term is about no pod, so it keeps none off where a pod gets past the gate.
    against = {
        "topologyKey": "k",
        "namespaces": pick((None, ["victim"], TEXTS)),
        "namespaceSelector": pick((None, {}, {"a": "b"})),
    }
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": required,
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        },
        "podAntiAffinity": pick(
            (None, {"requiredDuringSchedulingIgnoredDuringExecution": many(against, pick(COUNTS))})
        ),
    }


def pod_spec(pick: Pick) -> Document:
    """The spec of a pod or of a template."""
    container = {
        "name": "c",
        "image": "i",
        "resources": {"requests": _amounts(pick), "limits": _amounts(pick)},
        "ports": [{"containerPort": 1, "hostPort": port + 1} for port in range(pick((0, 0, 1, 3000)))],
        "restartPolicy": pick((None, "Always", "Weird")),
    }
    spec: Document = {"containers": many(container, pick((1, 1, 1, 0, 2, 3000))), "restartPolicy": "Never"}
    match pick(range(12)):
        case 0:
            spec["tolerations"] = [{"key": f"k{each}", "operator": "Exists"} for each in range(pick(COUNTS))]
        case 1:
            spec["affinity"] = _affinity(pick)
        case 2:
            spec["nodeSelector"] = {f"k{each}": "v" for each in range(pick(COUNTS))}
        case 3:
            spec["initContainers"] = many(container, pick(COUNTS))
        case 4:
            spec["overhead"] = _amounts(pick)
        case 5:
            spec["resources"] = {"requests": _amounts(pick)}
        case 6:
            spec["activeDeadlineSeconds"] = pick(NUMBERS)
        case 7:
            spec["priority"] = pick(NUMBERS)
        case 8:
            spec["priorityClassName"] = pick(TEXTS)
        case 9:
            spec["hostNetwork"] = True
        case 10:
            named = pick(("resourceClaimTemplateName", "resourceClaimName", "resourceClaims"))
            claims = [
                {"name": f"c{each}", named: pick(("h0", "h1", *TEXTS))}
                for each in range(pick((1, 2, 0, 300)))
            ]
            spec["resourceClaims"] = claims
    return spec


def template(pick: Pick) -> Document:
    """A pod template."""
    return {"metadata": {"annotations": _some(pick, TEMPLATE_NAMES, TEXTS)}, "spec": pod_spec(pick)}


def _pod(pick: Pick, name: str) -> Hostile:
    metadata = _metadata(pick, name, annotations=(*POD_NAMES, *TEMPLATE_NAMES))
    gates = pick(([], [{"name": names.GATE}], [{"name": names.GATE}, {"name": "other.example/gate"}]))
    spec = {**pod_spec(pick), "schedulingGates": gates}
    if not gates and (node := pick((None, "o0", "ghost", "x" * 253))):
        spec["nodeName"] = node
    refused = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": pick(TEXTS),
        "lastTransitionTime": pick(("2026-01-01T00:00:00Z", "soon")),
    }
    ended = {"state": {"terminated": {"exitCode": pick(NUMBERS)}}, "restartCount": pick(NUMBERS)}
    status = {
        "phase": pick(("Pending", "Running", "Succeeded", "Failed", "Unknown", "", "Weird")),
        "conditions": many(refused, pick((0, 1))),
        "containerStatuses": many(ended, pick((0, 0, 1, 3000))),
    }
    return Hostile("pods", {"metadata": metadata, "spec": spec, "status": status})


def _job(pick: Pick, name: str) -> Hostile:
    metadata = _metadata(pick, name, annotations=WORKLOAD_NAMES)
    metadata["labels"] |= {names.QUEUE_LABEL: pick((*LABELS, "hostile"))}
    spec = {
        "suspend": pick((True, False)),
        "parallelism": pick(NUMBERS),
        "completions": pick(NUMBERS),
        "completionMode": pick(("Indexed", "NonIndexed", "Weird")),
        "activeDeadlineSeconds": pick(NUMBERS),
        "template": template(pick),
    }
    status = {
        "active": pick(NUMBERS),
        "succeeded": pick(NUMBERS),
        "completedIndexes": pick((None, "0-2000000000", "5-1,3", "1," * 50_000, "0-99999," * 10_000, "x")),
    }
    return Hostile("jobs", {"metadata": metadata, "spec": spec, "status": status})


def _network_topology(pick: Pick) -> Document:
    return {
        "mode": pick(("hard", "soft", "weird", None)),
        "highestTierAllowed": pick(NUMBERS),
        "highestTierName": pick((None, *TEXTS)),
    }


def _selector(pick: Pick) -> Document:
    return {
        "matchLabels": {f"k{each}": "v" for each in range(pick(COUNTS))},
        "matchExpressions": many(_requirement(pick), pick((0, 1, 300))),
    }


def _pod_group(pick: Pick, name: str) -> Hostile:
    subgroup = {
        "name": pick(TEXTS),
        "subGroupSize": pick(NUMBERS),
        "minSubGroups": pick(NUMBERS),
        "labelSelector": _selector(pick),
        "matchLabelKeys": [f"k{each}" for each in range(pick(COUNTS))],
        "networkTopology": _network_topology(pick),
    }
    spec = {
        "minMember": pick(NUMBERS),
        "minTaskMember": {f"{pick(LABELS)}{each}": pick(NUMBERS) for each in range(pick(COUNTS))},
        "queue": pick(("hostile", *TEXTS)),
        "priorityClassName": pick((None, *TEXTS)),
        "networkTopology": _network_topology(pick),
        "subGroupPolicy": many(subgroup, pick((0, 0, 1, 300))),
    }
    return Hostile("podgroups", {"metadata": _metadata(pick, name, annotations=WORKLOAD_NAMES), "spec": spec})


def _volcano_job(pick: Pick, name: str) -> Hostile:
    task = {
        "name": pick(("worker", *TEXTS)),
        "replicas": pick(NUMBERS),
        "minAvailable": pick(NUMBERS),
        "template": pick((template(pick), nested(150), nested(3000))),
        "partitionPolicy": pick(
            (
                None,
                {
                    "partitionSize": pick(NUMBERS),
                    "minPartitions": pick(NUMBERS),
                    "networkTopology": _network_topology(pick),
                },
            )
        ),
    }
    count = pick((1, 1, 2, 0, 300, 3000))
    spec = {
        "queue": pick(("hostile", *TEXTS)),
        "minAvailable": pick(NUMBERS),
        "maxRetry": pick(NUMBERS),
        "minSuccess": pick(NUMBERS),
        "ttlSecondsAfterFinished": pick(NUMBERS),
        "priorityClassName": pick((None, *TEXTS)),
        "tasks": [
            {**each, "name": f"t{index}"} if index else each for index, each in enumerate(many(task, count))
        ],
        "plugins": {pick(("svc", "env", "ssh", "weird", *TEXTS)): pick(([], [pick(TEXTS)], None))},
        "networkTopology": _network_topology(pick),
        "volumes": [{"mountPath": pick(TEXTS), "volumeClaim": pick((None, nested(5)))}] * pick((0, 0, 1)),
    }
    return Hostile(
        "volcano-jobs", {"metadata": _metadata(pick, name, annotations=WORKLOAD_NAMES), "spec": spec}
    )


def _queue(pick: Pick, name: str) -> Hostile:
    spec = {
        "weight": pick(NUMBERS),
        "parent": pick(("root", name, "h1", "h2", *TEXTS)),
        "capability": _amounts(pick),
        "deserved": _amounts(pick),
        "guarantee": {"resource": _amounts(pick)},
        "priority": pick(NUMBERS),
        "policy": {
            "starvation": {"clearAfter": pick(TEXTS)},
            "minRunTime": pick(TEXTS),
            "usageHalfLife": pick(("1h", "9" * 50 + "h", "1ns", "0")),
            "ageingPerHour": pick(NUMBERS),
        },
        "extra": pick((None, nested(150), nested(3000))),
    }
    metadata = _metadata(pick, name, annotations=(names.CHANGED_BY, names.CHANGE_REASON), namespaced=False)
    head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    return Hostile("queues", {**head, "metadata": metadata, "spec": spec})


def _flavor(pick: Pick, name: str) -> Hostile:
    labels = {f"k{each}": pick(("v", 1, None)) for each in range(pick(COUNTS))}
    metadata = _metadata(pick, name, namespaced=False)
    head = {"apiVersion": names.MUSTER, "kind": "ResourceFlavor"}
    classes = {pick(DEVICE_CLASSES): pick(("example.org/gpu", *TEXTS)) for _ in range(pick((1, 0, 2)))}
    spec = {"nodeLabels": labels, "deviceClasses": classes}
    return Hostile("resourceflavors", {**head, "metadata": metadata, "spec": spec})


def _topology(pick: Pick, name: str) -> Hostile:
    levels = [{"nodeLabel": f"{pick(('level', *TEXTS))}{each}"} for each in range(pick((0, 1, 16, 1000)))]
    metadata = _metadata(pick, name, namespaced=False)
    head = {"apiVersion": names.MUSTER, "kind": "Topology"}
    return Hostile("topologies", {**head, "metadata": metadata, "spec": {"levels": levels}})


def _hypernode(pick: Pick, name: str) -> Hostile:
    selectors = (
        {"exactMatch": {"name": pick((name, "h1", "h2", "o0", *TEXTS))}},
        {"regexMatch": {"pattern": pick(("(a+)+$", ".*", "(", r"\C", "x{1000}{1000}", *TEXTS))}},
        {"labelMatch": pick((_selector(pick), nested(5), nested(3000)))},
    )
    member = {"type": pick(("Node", "HyperNode", "Weird")), "selector": pick(selectors)}
    spec = {"tier": pick(NUMBERS), "tierName": pick(TEXTS), "members": many(member, pick((0, 1, 2, 300)))}
    metadata = _metadata(pick, name, namespaced=False)
    head = {"apiVersion": names.TOPOLOGY_VOLCANO, "kind": "HyperNode"}
    return Hostile("hypernodes", {**head, "metadata": metadata, "spec": spec})


def _budget(pick: Pick, name: str) -> Hostile:
    document = {
        "metadata": _metadata(pick, name),
        "spec": {"selector": pick((None, {}, _selector(pick)))},
        "status": {"disruptionsAllowed": pick(NUMBERS)},
    }
    return Hostile("poddisruptionbudgets", document)


def _namespace(pick: Pick, name: str) -> Hostile:
    keys = (names.QUEUE_LABEL, names.QUEUE_ANNOTATION)
    metadata = _metadata(pick, pick((name, "hostile")), annotations=keys, namespaced=False)
    return Hostile("namespaces", {"metadata": metadata})


def _priority_class(pick: Pick, name: str) -> Hostile:
    document = {
        "metadata": _metadata(pick, name, namespaced=False),
        "value": pick(NUMBERS),
        "preemptionPolicy": pick((None, "Never", "Weird")),
    }
    return Hostile("priorityclasses", document)


DEVICE_CLASSES: Final = ("h0", "h1", "gpu.example", *TEXTS)


def _device_requests(pick: Pick) -> Document:
    exactly = {
        "deviceClassName": pick(DEVICE_CLASSES),
        "allocationMode": pick(("ExactCount", None, "All", "Weird", *TEXTS)),
        "count": pick((1, *NUMBERS)),
        "adminAccess": pick((None, True, "yes")),
    }
    choices = many(
        {"name": "a", "deviceClassName": pick(DEVICE_CLASSES), "count": pick(NUMBERS)}, pick(COUNTS)
    )
    asked = pick(({"exactly": exactly}, {"firstAvailable": choices}, {"exactly": None}, {}))
    return {"devices": {"requests": many({"name": pick(("gpu", *TEXTS)), **asked}, pick((1, *COUNTS)))}}


def _claim_template(pick: Pick, name: str) -> Hostile:
    document = {"metadata": _metadata(pick, name), "spec": {"spec": _device_requests(pick)}}
    return Hostile("resourceclaimtemplates", document)


def _claim(pick: Pick, name: str) -> Hostile:
    results = many(
        {"request": pick(("gpu", "gpu/a", *TEXTS)), "adminAccess": pick((None, True))}, pick(COUNTS)
    )
    users = many({"resource": "pods", "name": "h0", "uid": pick(("uid-h0", *TEXTS))}, pick(COUNTS))
    status = {"allocation": pick((None, {"devices": {"results": results}})), "reservedFor": users}
    document = {"metadata": _metadata(pick, name), "spec": _device_requests(pick), "status": status}
    return Hostile("resourceclaims", document)


def _device_class(pick: Pick, name: str) -> Hostile:
    terms = (
        "device.driver == 'd'",
        "device.attributes['d'].type == 'gpu'",
        "true",
        "(" * 5000,
        "&&" * 5000,
        *TEXTS,
    )
    selectors = many({"cel": {"expression": f"{pick(terms)} && {pick(terms)}"}}, pick((1, *COUNTS)))
    document = {"metadata": _metadata(pick, name, namespaced=False), "spec": {"selectors": selectors}}
    return Hostile("deviceclasses", document)


def _resource_slice(pick: Pick, name: str) -> Hostile:
    attributes = {pick(("type", "d/type", *TEXTS)): {pick(("string", "int", "bool", "x")): pick(TEXTS)}}
    spec = {
        "driver": pick(("d", *TEXTS)),
        "nodeName": pick(("h0", "o0", None, *TEXTS)),
        "pool": {"name": pick(("p", *TEXTS)), "generation": pick(NUMBERS)},
        "devices": many({"name": "a", "attributes": attributes}, pick(COUNTS)),
    }
    return Hostile("resourceslices", {"metadata": _metadata(pick, name, namespaced=False), "spec": spec})


def _quota(pick: Pick, name: str) -> Hostile:
    amounts = {f"requests.{key}": units for key, units in _amounts(pick).items()}
    status = {"hard": {"pods": pick(QUANTITIES), **amounts}, "used": {"pods": pick(QUANTITIES)}}
    spec = {"scopes": pick((None, ["BestEffort"], [LONG]))}
    return Hostile("resourcequotas", {"metadata": _metadata(pick, name), "spec": spec, "status": status})


#: Kinds whose objects ordinary users may write, and kinds of administrators.
BY_USERS: Final = (_pod, _pod, _pod, _job, _pod_group, _volcano_job, _budget, _claim_template, _claim)
BY_ADMINISTRATORS: Final = (
    *(_queue, _flavor, _topology, _hypernode, _namespace, _priority_class),
    *(_device_class, _resource_slice, _quota),
)


def hostile_object(pick: Pick, name: str, *, by_users: bool = False) -> Hostile:
    """One object with this name. ``by_users``: of the kinds that ordinary users may write."""
    make: Callable[[Pick, str], Hostile] = pick(BY_USERS if by_users else (*BY_USERS, *BY_ADMINISTRATORS))
    return make(pick, name)


@st.composite
def hostile_objects(draw: st.DrawFn, most: int = 5) -> list[Hostile]:
    """Up to ``most`` objects of different names, told one after the other."""

    def pick(options: Sequence[Any]) -> Any:
        return draw(st.sampled_from(options))

    return [hostile_object(pick, f"h{number}") for number in range(draw(st.integers(1, most)))]


def json_of(document: Any) -> bytes:
    """A document as JSON, however deep: where the encoder, which follows nesting by recursion, cannot, without it."""
    try:
        return dumps(document, ensure_ascii=False).encode()
    except (RecursionError, TypeError):
        return _without_recursion(document)


def _without_recursion(document: Any) -> bytes:
    parts: list[bytes] = []
    stack: list[Any] = [document]
    while stack:
        value = stack.pop()
        if isinstance(value, bytes):
            parts.append(value)
        elif isinstance(value, dict):
            stack.append(b"}")
            for position, (key, each) in reversed(list(enumerate(value.items()))):
                stack += [each, (b"," if position else b"") + dumps(key).encode() + b":"]
            parts.append(b"{")
        elif isinstance(value, list | tuple):
            stack.append(b"]")
            for position, each in reversed(list(enumerate(value))):
                stack += [each, b"," if position else b""]
            parts.append(b"[")
        else:
            parts.append(dumps(value).encode())
    return b"".join(parts)
