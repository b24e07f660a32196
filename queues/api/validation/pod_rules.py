"""Rules for pods and pod templates: the most frequent errors of users, from the core API's validation.

The API server finds the others when the pod is created.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from queues.api.names import (
    BALANCED,
    CHECKPOINT_INTERVAL,
    GATE,
    HYPERNODE_TIER,
    MIN_RUN_TIME,
    NVL_DOMAIN,
    PARTITIONS,
    PREEMPTABLE,
    PREFERRED_TOPOLOGY,
    REQUIRED_TOPOLOGY,
    RUN_TIME,
)
from queues.api.reading.pod_places import (
    NVLINK,
    cross_namespace_anti_affinity,
    level_of,
    partitions_of,
)
from queues.api.reading.pod_requests import requests_of
from queues.api.reading.user_values import (
    LABEL,
    MOST_CONTAINERS,
    MOST_ENTRIES,
    MOST_EXPRESSIONS,
    MOST_LISTED,
    MOST_PORTS,
    MOST_RESOURCES,
    MOST_TOLERATIONS,
    is_label_key,
    shared_claim_problem,
)
from queues.api.resource_names import HUGE_PAGES, doubt_about, is_extended, page_size, problem_of_request
from queues.api.types.flavor import TolerationSpec
from queues.api.types.pod import (
    WireAffinity,
    WireAmounts,
    WireContainer,
    WirePodSpec,
    WireToleration,
    WrittenPod,
    WrittenPodSpec,
    read_pod,
)
from queues.api.validation.pod_fields import type_problems
from queues.api.validation.violations import (
    NOT_A_LABEL,
    Violation,
    entry_path,
    in_order,
    quantity_violations,
)
from queues.errors import InvalidDocument, InvalidQuantity
from queues.resources import BEYOND_NODES, GPU, MOST_ON_NODE, amount, show
from queues.text_format import excerpt, seconds_of

#: Entries of lists and maps of a pod's spec, by their field.
_COUNTED: Final = {
    **dict.fromkeys(("containers", "initContainers"), MOST_CONTAINERS),
    **dict.fromkeys(("requests", "limits", "overhead"), MOST_RESOURCES),
    **dict.fromkeys(("schedulingGates", "resourceClaims"), MOST_ENTRIES),
    **dict.fromkeys(
        ("nodeSelector", "nodeSelectorTerms", "matchExpressions", "matchFields"), MOST_EXPRESSIONS
    ),
    **dict.fromkeys(
        (
            "requiredDuringSchedulingIgnoredDuringExecution",
            "preferredDuringSchedulingIgnoredDuringExecution",
        ),
        MOST_EXPRESSIONS,
    ),
    **dict.fromkeys(("values", "namespaces"), MOST_LISTED),
    "ports": MOST_PORTS,
    "tolerations": MOST_TOLERATIONS,
}
_EFFECTS: Final = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def template_violations(
    template: Mapping[str, Any], path: str, namespace: str, levels: Collection[str] | None
) -> list[Violation]:
    """Violations of a PodTemplateSpec. ``levels``: node label keys that are topology levels; None if not known.

    ``namespace``: of the pods; "": not known.
    """
    pod = _read(template, path)
    if not isinstance(pod, WrittenPod):
        return pod
    found = list(_spec_violations(pod, f"{path}.spec", namespace))
    found += _other_gates(pod.spec, f"{path}.spec")
    found += annotation_violations(pod.annotations, f"{path}.metadata.annotations", levels)
    return found


def pod_violations(spec: Mapping[str, Any], path: str, namespace: str) -> Iterator[Violation]:
    """Violations of a pod's spec. ``namespace``: of the pod; "": not known."""
    pod = _read({"spec": spec}, "")
    if isinstance(pod, WrittenPod):
        yield from _spec_violations(pod, path, namespace)
    else:
        yield from pod


def _read(template: Mapping[str, Any], path: str) -> WrittenPod | list[Violation]:
    """A pod or template; where it cannot be read, all that is wrong with the types of its fields."""
    if too_many := list(_too_many(template, path)):
        return too_many
    try:
        pod = read_pod(template)
    except msgspec.DecodeError as error:
        found = [each for each in type_problems(template, path) if not each.tolerable]
        return found or [Violation(path or "spec", str(error), "a pod that the API server can read")]
    return pod


def _too_many(value: Any, path: str) -> Iterator[Violation]:
    """Lists and maps with more entries than are read, in a template or a part of it."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            where = f"{path}.{key}".removeprefix(".")
            if isinstance(part, list | Mapping) and len(part) > (most := _COUNTED.get(key, len(part))):
                yield Violation(where, f"{len(part)} entries", f"at most {most}")
            else:
                yield from _too_many(part, where)
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _too_many(part, f"{path}[{index}]")


def _other_gates(spec: WrittenPodSpec, path: str) -> Iterator[Violation]:
    """Volcano and the API server accept such gates; the workload waits until its template has none."""
    for index, gate in enumerate(spec.scheduling_gates or ()):
        if gate.name != GATE:
            expected = (
                "none of other controllers: the pods on which these remove it are made once they have seats"
            )
            yield Violation(f"{path}.schedulingGates[{index}]", excerpt(gate.name), expected, tolerable=True)


def _spec_violations(pod: WrittenPod, path: str, namespace: str) -> Iterator[Violation]:
    spec = pod.spec
    if not spec.containers:
        yield Violation(f"{path}.containers", "nothing", "at least one container (Required value)")
    seen: set[str] = set()
    for field, containers in (
        ("initContainers", spec.init_containers or ()),
        ("containers", spec.containers),
    ):
        for index, container in enumerate(containers):
            here = f"{path}.{field}[{index}]"
            yield from _container(container, here, seen)
            if container.restart_policy == "Always" and field == "containers":
                yield Violation(
                    f"{here}.restartPolicy", "'Always'", "nothing: only init containers can be sidecars"
                )
    if spec.resources is not None:
        yield from _resources(spec.resources, f"{path}.resources")
        for name in {**(spec.resources.requests or {}), **(spec.resources.limits or {})}:
            if name not in ("cpu", "memory") and not name.startswith("hugepages-"):
                expected = "cpu, memory or huge pages, the only pod-level resources"
                yield Violation(f"{path}.resources[{name}]", name, expected)
    for claim in spec.resource_claims or ():
        if not claim.resource_claim_template_name:
            found, expected = shared_claim_problem(claim.resource_claim_name or "")
            # Volcano accepts them; the workload waits with this message.
            yield Violation(f"{path}.resourceClaims[{claim.name}]", found, expected, tolerable=True)
    yield from quantity_violations(spec.overhead or {}, f"{path}.overhead")
    yield from _names_of_resources(spec.overhead or {}, f"{path}.overhead")
    yield from _beyond_nodes(spec, path)
    yield from _affinity(pod.affinity, f"{path}.affinity")
    if harm := cross_namespace_anti_affinity(pod.affinity, namespace):
        field, found, expected = harm
        # The API server accepts it; the workload waits with this message.
        yield Violation(f"{path}.{field}", found, expected, tolerable=True)
    yield from toleration_violations(spec.tolerations or (), f"{path}.tolerations")
    if spec.restart_policy not in ("", "Always", "OnFailure", "Never"):
        yield Violation(
            f"{path}.restartPolicy", excerpt(spec.restart_policy), "one of Always, OnFailure, Never"
        )


def _beyond_nodes(spec: WirePodSpec, path: str) -> Iterator[Violation]:
    try:
        takes = requests_of(spec)
    except InvalidQuantity:
        return  # quantity_violations reports it
    for resource, units in takes.items():
        if beyond := beyond_nodes(resource, units):
            yield Violation(path, *beyond)


def beyond_nodes(resource: str, units: int) -> tuple[str, str] | None:
    """What is found and expected if a pod requests more than any node counts as having; None if it does not."""
    if units <= MOST_ON_NODE:
        return None
    more = " or more" if units == BEYOND_NODES else ""
    most = show(resource, MOST_ON_NODE)
    return f"{show(resource, units)} {resource}{more}", f"at most {most}: no node counts as having more"


def toleration_violations(
    tolerations: Iterable[WireToleration | TolerationSpec], path: str
) -> Iterator[Violation]:
    """Tolerations of a pod, or of a flavor, that the API server refuses."""
    for index, toleration in enumerate(tolerations):
        here = f"{path}[{index}]"
        operator = toleration.operator or "Equal"
        if (toleration.effect or "") not in _EFFECTS:
            yield Violation(f"{here}.effect", excerpt(toleration.effect), f"one of {', '.join(_EFFECTS[1:])}")
        if operator not in ("Equal", "Exists", "Lt", "Gt"):
            yield Violation(f"{here}.operator", excerpt(operator), "Equal or Exists")
        elif not toleration.key and operator != "Exists":
            yield Violation(f"{here}.operator", excerpt(operator), "Exists, since there is no key")
        elif operator == "Exists" and toleration.value:
            yield Violation(f"{here}.value", excerpt(toleration.value), "nothing with operator Exists")


def _container(container: WireContainer, path: str, seen: set[str]) -> Iterator[Violation]:
    if not container.name:
        yield Violation(f"{path}.name", "nothing", "a name (Required value)")
    elif LABEL.fullmatch(container.name) is None or len(container.name) > 63:
        yield Violation(f"{path}.name", excerpt(container.name), NOT_A_LABEL)
    elif container.name in seen:
        yield Violation(
            f"{path}.name", excerpt(container.name), "a name that no other container has (Duplicate value)"
        )
    seen.add(container.name)
    if not container.image:
        yield Violation(f"{path}.image", "nothing", "an image (Required value)")
    if container.resources is not None:
        yield from _resources(container.resources, f"{path}.resources")


def _resources(resources: WireAmounts, path: str) -> Iterator[Violation]:
    requests, limits = resources.requests or {}, resources.limits or {}
    yield from quantity_violations(requests, f"{path}.requests")
    yield from quantity_violations(limits, f"{path}.limits")
    yield from in_order(requests, limits, ("requests", "limits"), path)
    yield from _names_of_resources(limits, f"{path}.limits")
    yield from _names_of_resources(requests.keys() - limits.keys(), f"{path}.requests")
    yield from _huge_pages({**requests, **limits}, path)
    for name in requests:
        if not (is_extended(name) or name.startswith(HUGE_PAGES)):
            continue
        if name not in limits:
            expected = f"it there too: {_what(name)} go under limits; requests follow"
            yield Violation(f"{path}.limits", f"no {name}", expected)
        elif not _equal(name, requests[name], limits[name]):
            expected = f"must be equal to {name} limit of {limits[name]}"
            yield Violation(f"{path}.requests[{name}]", excerpt(requests[name]), expected)


def _huge_pages(amounts: Mapping[str, Any], path: str) -> Iterator[Violation]:
    """Huge pages are given whole, and not to a container that asks for neither cpu nor memory."""
    for name, text in amounts.items():
        if (size := page_size(name)) is None:
            continue
        here = entry_path(path, name)
        if not amounts.keys() & {"cpu", "memory"}:
            yield Violation(here, excerpt(text), "cpu or memory besides: HugePages require cpu or memory")
        with suppress(InvalidQuantity):
            if amount(name, text) % size:
                yield Violation(
                    here, excerpt(text), f"whole pages, a multiple of {name.removeprefix(HUGE_PAGES)}"
                )


def _what(resource: str) -> str:
    """The word for what a resource that cannot be overcommitted counts."""
    return "huge pages" if resource.startswith(HUGE_PAGES) else "GPUs" if resource == GPU else "devices"


def _names_of_resources(amounts: Iterable[str], path: str) -> Iterator[Violation]:
    """Names that the API server refuses in pods, and names that no node is likely to have."""
    for name in amounts:
        if problem := problem_of_request(name):
            yield Violation(entry_path(path, name), *problem)
        elif problem := doubt_about(name):
            yield Violation(entry_path(path, name), *problem, tolerable=True)


def _equal(resource: str, request: str | int | float, limit: str | int | float) -> bool:
    try:
        return amount(resource, request) == amount(resource, limit)
    except InvalidQuantity:
        return True  # quantity_violations reports it


def _affinity(affinity: WireAffinity | None, path: str) -> Iterator[Violation]:
    node_affinity = affinity.node_affinity if affinity else None
    required = node_affinity.required_during_scheduling_ignored_during_execution if node_affinity else None
    if required is None:
        return
    path = f"{path}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    if not required.node_selector_terms:
        yield Violation(path, "nothing", "must have at least one node selector term")
    for index, term in enumerate(required.node_selector_terms or ()):
        for field, requirement in [
            *(("matchExpressions", each) for each in term.match_expressions or ()),
            *(("matchFields", each) for each in term.match_fields or ()),
        ]:
            here = f"{path}[{index}].{field}"
            operator, values = requirement.operator, requirement.values or ()
            if operator not in _OPERATORS:
                yield Violation(f"{here}.operator", excerpt(operator), f"one of {', '.join(_OPERATORS)}")
            elif operator in ("In", "NotIn") and not values:
                yield Violation(here, "no values", f"at least one value with operator {operator}")
            elif operator in ("Exists", "DoesNotExist") and values:
                yield Violation(here, excerpt(values), f"no values with operator {operator}")
            elif operator in ("Gt", "Lt") and not (len(values) == 1 and values[0].lstrip("+-").isdecimal()):
                yield Violation(here, excerpt(values), f"one whole number with operator {operator}")


def _level(value: str, here: str, levels: Collection[str] | None) -> Iterator[Violation]:
    if not is_label_key(value):
        beside = f", alone or beside {NVLINK}" if "," in value else ""
        yield Violation(here, excerpt(value), f"a node label key that is a level of a Topology{beside}")
    elif levels is not None and value not in (*levels, NVL_DOMAIN) and not value.startswith(HYPERNODE_TIER):
        known = ", ".join(sorted(levels)) or "none exists"
        yield Violation(here, excerpt(value), f"a level of a Topology ({known})", missing=value)


def annotation_violations(
    annotations: Mapping[str, str], path: str, levels: Collection[str] | None
) -> Iterator[Violation]:
    """Violations of Muster's and Volcano's annotations."""
    for key in (REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY):
        if key in annotations and (level := level_of(annotations[key])) is not None:
            yield from _level(level, f"{path}[{key}]", levels)
    try:
        for part in partitions_of(annotations):
            yield from _level(part.level, f"{path}[{PARTITIONS}]", levels)
    except InvalidDocument as error:
        yield Violation(f"{path}[{PARTITIONS}]", error.facts["found"], error.facts["expected"])
    if annotations.get(BALANCED, "true") not in ("true", "false"):
        yield Violation(f"{path}[{BALANCED}]", excerpt(annotations[BALANCED]), "'true' or 'false'")
    for key in (RUN_TIME, CHECKPOINT_INTERVAL, MIN_RUN_TIME):
        if key in annotations and seconds_of(annotations[key]) is None:
            yield Violation(f"{path}[{key}]", excerpt(annotations[key]), "a duration such as 90s, 30m or 2h")
    if annotations.get(PREEMPTABLE, "true") not in ("true", "false"):
        found, expected = (
            excerpt(annotations[PREEMPTABLE]),
            "'true' or 'false'; anything else counts as false",
        )
        yield Violation(f"{path}[{PREEMPTABLE}]", found, expected, tolerable=True)
