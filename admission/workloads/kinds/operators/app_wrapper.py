"""AppWrappers (workload.codeflare.dev/v1beta2): objects of any kinds, created together once they may run. Pure.

A component says itself where the pod templates in its object are (``podSets``), or its operator works that out for
kinds that it knows, and shows it in the status. What Muster writes for the pods of a set goes into ``podSetInfos``, in
the order of the sets; the operator puts it into the templates of the objects that it creates.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from admission.workloads.kinds.operators.json_parts import (
    Path,
    UnexpectedPart,
    elements,
    number,
    part,
    text,
)
from admission.workloads.kinds.operators.support import (
    HeldTemplate,
    OperatorKind,
    WireOperatorJob,
    says_it_is_resumed,
)
from queues.api import names
from queues.api.api_resources import APP_WRAPPERS, LEADER_WORKER_SETS
from queues.api.model import excerpt
from queues.api.reading.user_values import MOST_PODS, UserValues
from queues.workload import WorkloadKind

_COMPONENTS: Final = ("spec", "components")
#: The operator itself refuses more.
_MOST_SETS: Final = 8
_STEP: Final = re.compile(r"\.([^.\[\]]{1,253})|\[([0-9]{1,4})\]")
#: Kinds whose objects wait by themselves, whatever contains them.
_QUEUED: Final = ("batch.volcano.sh/", "scheduling.volcano.sh/", "workload.codeflare.dev/")


class _Set(NamedTuple):
    """Pods of one template."""

    #: From ``template``, the object, to the pod template in it.
    path: str
    pods: int


def _held(job: WireOperatorJob, values: UserValues) -> Iterator[HeldTemplate]:
    """The pod templates of all components. Raises UnexpectedPart."""
    found = 0
    for index, component in enumerate(elements(job.part(_COMPONENTS), _COMPONENTS)):
        at = (*_COMPONENTS, str(index))
        content = _content(part(component, ("template",), at), (*at, "template"))
        sets = _sets(job, component, content, at)
        found += len(sets)
        if found > _MOST_SETS:
            values.refuse(".".join(_COMPONENTS), f"{found} pod sets", f"at most {_MOST_SETS}")
            return
        if sets:
            _refuse_queued(content, at, values)
        kind = str(content.get("kind", "")).lower()
        infos = elements(part(component, ("podSetInfos",), at), (*at, "podSetInfos"))
        for position, each in enumerate(sets):
            name = f"{kind}-{index}" if len(sets) == 1 else f"{kind}-{index}-{position}"
            template = _value_at(content, each.path)
            yield HeldTemplate(
                name=name,
                content=msgspec.json.encode(template) if isinstance(template, Mapping) else None,
                where=".".join((*at, each.path)),
                holder=at,
                pods=each.pods,
                written=(*at, "podSetInfos", str(position)),
                existing=tuple(at[:depth] for depth in range(1, len(at) + 1)),
                is_marked=position < len(infos) and says_it_is_resumed(infos[position], at, job.metadata.uid),
            )


def _content(raw: msgspec.Raw | None, where: Path) -> Mapping[str, Any]:
    """The object of a component. Raises UnexpectedPart."""
    content = {} if raw is None else msgspec.json.decode(raw)
    if not isinstance(content, Mapping):
        raise UnexpectedPart(where=".".join(where), found="found no object, expected one")
    return content


def _refuse_queued(content: Mapping[str, Any], at: Path, values: UserValues) -> None:
    """A component that waits by itself would wait for seats besides those that are held for it."""
    where = ".".join((*at, "template"))
    version = content.get("apiVersion")
    if isinstance(version, str) and version.startswith(_QUEUED):
        kind = f"{version} {content.get('kind')}"
        values.refuse(
            f"{where}.kind", kind, "another kind: it waits by itself. Create it beside the AppWrapper"
        )
    for field in ("labels", "annotations"):
        key = names.QUEUE_LABEL if field == "labels" else names.QUEUE_ANNOTATION
        queue = _value_at(content, f"template.metadata.{field}", key)
        if isinstance(queue, str) and queue:
            place = f"{where}.metadata.{field}[{key}]"
            values.refuse(place, excerpt(queue), "none: the queue of the AppWrapper is meant")


def _sets(
    job: WireOperatorJob, component: msgspec.Raw, content: Mapping[str, Any], at: Path
) -> Sequence[_Set]:
    """The pod sets of a component, in the order of its ``podSetInfos``. Raises UnexpectedPart."""
    known = tuple(_known(content))
    declared = _declared(part(component, ("podSets",), at), (*at, "podSets"))
    if not declared:
        declared = _shown(job, int(at[-1]))
    if not declared and content.get("kind") == LEADER_WORKER_SETS.kind:
        found = "found none, expected the paths of its leaderTemplate and its workerTemplate"
        raise UnexpectedPart(where=".".join((*at, "podSets")), found=found)
    if not declared:
        return known
    # Where too few are declared, pods beyond them would wait for seats without end.
    pods = {each.path: each.pods for each in known}
    return tuple(_Set(each.path, max(each.pods, pods.get(each.path, 0))) for each in declared)


def _declared(raw: msgspec.Raw | None, where: Path) -> tuple[_Set, ...]:
    return tuple(_declared_sets(raw, where))


def _declared_sets(raw: msgspec.Raw | None, where: Path) -> Iterator[_Set]:
    for index, each in enumerate(elements(raw, where)):
        at = (*where, str(index))
        path = text(part(each, ("path",), at), (*at, "path"))
        pods = number(part(each, ("replicas",), at), (*at, "replicas"))
        pods = 1 if pods is None else pods
        if not 0 <= pods <= MOST_PODS:
            raise UnexpectedPart(
                where=".".join((*at, "replicas")), found=f"found {pods}, expected 0 to {MOST_PODS}"
            )
        if _steps(path) is None:
            expected = "expected a path such as template.spec.template"
            raise UnexpectedPart(where=".".join((*at, "path")), found=f"found {excerpt(path)}, {expected}")
        yield _Set(path, pods)


def _shown(job: WireOperatorJob, index: int) -> tuple[_Set, ...]:
    """What the operator says of a component that declares nothing; (): it has said nothing that can be used."""
    at = ("status", "componentStatus")
    try:
        told = elements(job.part(at), at)
        return _declared(part(told[index], ("podSets",)), ("podSets",)) if index < len(told) else ()
    except UnexpectedPart:
        return ()


# ── kinds whose pod sets the operator works out, in its order ───────────────────────────────────────────────────


def _known(content: Mapping[str, Any]) -> Iterator[_Set]:
    """The pod sets of an object of a kind that need not be declared; and of LeaderWorkerSets, whose need to be."""
    match content.get("apiVersion"), content.get("kind"):
        case "v1", "Pod":
            yield _Set("template", 1)
        case "apps/v1", "Deployment" | "StatefulSet":
            yield _Set("template.spec.template", _number(content, "template.spec.replicas"))
        case "batch/v1", "Job":
            yield _Set("template.spec.template", _pods_of_job(content, "template.spec"))
        case "jobset.x-k8s.io/v1alpha2", "JobSet":
            for index in range(_length(content, "template.spec.replicatedJobs")):
                at = f"template.spec.replicatedJobs[{index}]"
                pods = _number(content, f"{at}.replicas") * _pods_of_job(content, f"{at}.template.spec")
                yield _Set(f"{at}.template.spec.template", pods)
        case "kubeflow.org/v1", "PyTorchJob":
            for role in ("Master", "Worker"):
                at = f"template.spec.pytorchReplicaSpecs.{role}"
                if _value_at(content, f"{at}.template") is not None:
                    yield _Set(f"{at}.template", _number(content, f"{at}.replicas"))
        case "ray.io/v1", "RayCluster":
            yield from _of_ray(content, "template.spec")
        case "ray.io/v1", "RayJob":
            yield from _of_ray(content, "template.spec.rayClusterSpec")
        case "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet":
            groups = _number(content, "template.spec.replicas")
            workers = max(0, _number(content, "template.spec.leaderWorkerTemplate.size") - 1)
            yield _Set("template.spec.leaderWorkerTemplate.leaderTemplate", groups)
            yield _Set("template.spec.leaderWorkerTemplate.workerTemplate", groups * workers)


def _of_ray(content: Mapping[str, Any], at: str) -> Iterator[_Set]:
    yield _Set(f"{at}.headGroupSpec.template", 1)
    for index in range(_length(content, f"{at}.workerGroupSpecs")):
        group = f"{at}.workerGroupSpecs[{index}]"
        hosts = _number(content, f"{group}.numOfHosts")
        yield _Set(f"{group}.template", _number(content, f"{group}.replicas") * hosts)


def _pods_of_job(content: Mapping[str, Any], at: str) -> int:
    pods = _number(content, f"{at}.parallelism")
    return min(pods, _number(content, f"{at}.completions", pods))


def _number(content: Mapping[str, Any], path: str, default: int = 1) -> int:
    found = _value_at(content, path)
    return min(found, MOST_PODS + 1) if isinstance(found, int) and found >= 0 else default


def _length(content: Mapping[str, Any], path: str) -> int:
    found = _value_at(content, path)
    return min(len(found), _MOST_SETS + 1) if isinstance(found, list) else 0


def _steps(path: str) -> list[str | int] | None:
    """The fields and indices of a path that begins with ``template``; None if it has another form."""
    if not path.startswith("template"):
        return None
    rest, steps = path.removeprefix("template"), list[str | int]()
    while rest:
        found = _STEP.match(rest)
        if found is None:
            return None
        steps.append(found[1] if found[1] else int(found[2]))
        rest = rest[found.end() :]
    return steps


def _value_at(content: Any, path: str, *more: str) -> Any:
    """The value at a path, and at these fields in it; None if there is none."""
    for step in (*(_steps(path) or ()), *more):
        if isinstance(step, int):
            content = content[step] if isinstance(content, list) and step < len(content) else None
        else:
            content = content.get(step) if isinstance(content, Mapping) else None
    return content


APP_WRAPPER = OperatorKind(
    kind=WorkloadKind.APP_WRAPPER,
    resource=APP_WRAPPERS,
    held=_held,
    ended_at=((("status", "phase"), frozenset({"Succeeded", "Failed"})),),
)
