"""Pod templates of SparkApplications, which have none: what a driver and its executors ask for. Pure.

It is worked out as Spark does: cores, and memory with the overhead on top of the JVM's heap.
"""

import math
import re
from typing import Any, Final

import msgspec

from admission.workloads.kinds.operators.json_parts import UnexpectedPart, WireOperatorJob, part, text
from queues.api.types.workload_kind import Path

_JAVA_SIZE: Final = re.compile(r"([0-9]{1,12})([kmgtp]?)b?", re.IGNORECASE)
#: MiB; a number without a unit is one of MiB.
_UNITS: Final = {"k": 1 / 1024, "": 1, "m": 1, "g": 1024, "t": 1024**2, "p": 1024**3}
#: MiB: the least overhead; and its part of the memory, for programs of the JVM and for others.
_LEAST_OVERHEAD: Final = 384
_OF_JVM, _OF_OTHERS = 0.1, 0.4
#: MiB.
_DEFAULT_MEMORY: Final = 1024
#: Fields of a role that its pods have as they are.
_KEPT: Final = ("nodeSelector", "tolerations", "affinity", "priorityClassName")


def pod_template(job: WireOperatorJob, raw: msgspec.Raw | None, where: Path) -> bytes:
    """The template of the pods of a role, which is ``raw`` at a place. Raises UnexpectedPart."""
    kept = ((name, part(raw, (name,), where)) for name in _KEPT)
    fields: dict[str, Any] = {name: value for name, value in kept if value is not None}
    if "nodeSelector" not in fields and (selector := job.part(("spec", "nodeSelector"))) is not None:
        fields["nodeSelector"] = selector
    memory = _mebibytes(raw, "memory", where) or _DEFAULT_MEMORY
    overhead = _mebibytes(raw, "memoryOverhead", where)
    if overhead is None:
        overhead = _overhead(job, memory)
    cores = part(raw, ("coreRequest",), where) or part(raw, ("cores",), where) or 1
    requests: dict[str, Any] = {"cpu": cores, "memory": f"{memory + overhead}Mi"}
    gpu = part(raw, ("gpu", "name"), where)
    if gpu is not None:
        requests[text(gpu, (*where, "gpu", "name"))] = part(raw, ("gpu", "quantity"), where) or 0
    containers = [{"name": "spark", "resources": {"requests": requests, "limits": requests}}]
    annotations = part(raw, ("annotations",), where)
    metadata = {} if annotations is None else {"annotations": annotations}
    return msgspec.json.encode({"metadata": metadata, "spec": {**fields, "containers": containers}})


def _mebibytes(raw: msgspec.Raw | None, name: str, where: tuple[str, ...]) -> int | None:
    """An amount of memory of a role; None if it states none. Raises UnexpectedPart."""
    said = text(part(raw, (name,), where), (*where, name))
    return _size(said, (*where, name)) if said else None


def _size(said: str, where: tuple[str, ...]) -> int:
    found = _JAVA_SIZE.fullmatch(said)
    if found is None:
        expected = "found an unknown form, expected one such as 512m or 2g"
        raise UnexpectedPart(where=".".join(where), found=expected)
    return -int(-int(found[1]) * _UNITS[found[2].lower()] // 1)


def _overhead(job: WireOperatorJob, memory: int) -> int:
    said = text(job.part(("spec", "memoryOverheadFactor")), ("spec", "memoryOverheadFactor"))
    kind = text(job.part(("spec", "type")), ("spec", "type"))
    factor = _OF_JVM if kind in ("Java", "Scala", "") else _OF_OTHERS
    if said:
        try:
            factor = float(said)
        except ValueError:
            factor = math.nan
        if not math.isfinite(factor):
            raise UnexpectedPart(
                where="spec.memoryOverheadFactor", found='found no number, expected one such as "0.1"'
            )
    if said and factor == 0:
        return 0
    return max(_LEAST_OVERHEAD, int(memory * min(max(factor, 0.0), 100.0)))
