"""JobFlows as text: the list of them, and one with its Jobs, their phases and what each waits for."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from admission.cli.rendering.table import NONE, Cell, age, table
from admission.cli.rendering.terminal.fitting import Narrowing, fitted_table, with_texts
from admission.cli.rendering.terminal.sentences import filled
from queues.json_values import list_at, mapping_at
from queues.text_format import counted

Document = Mapping[str, Any]

#: The phase of a Job that does not exist yet.
WAITING: Final = "Waiting"
_OVER: Final = ("Succeed", "Failed")
_COUNTS: Final = ("pending", "running", "succeeded", "failed", "terminating", "unknown")
_PENDING: Final = "Pending"
_NARROW: Final = Narrowing(
    names={"NAME": 14, "NAMESPACE": 9}, left_out=("AGE", "COMPLETED"), rest="WAITS-FOR", least_rest=20
)
_NARROW_JOBS: Final = Narrowing(names={"JOB": 14, "PODS": 9, "AFTER": 9}, left_out=("AGE",))


def list_table(
    flows: Sequence[Document], now: str, *, wide: bool, headers: bool, width: int | None = None
) -> str:
    """One line per JobFlow: how far it is, and what it waits for. ``wide``: all that it waits for, and what failed."""
    columns = ["NAME", "NAMESPACE", "PHASE", "COMPLETED", "AGE", *(["FAILED"] if wide else ()), "WAITS-FOR"]
    rows = [_row(flow, now, wide) for flow in flows]
    return fitted_table(columns, rows, _NARROW, width=width, headers=headers, right="COMPLETED AGE")


def flow_text(
    flow: Document,
    jobs: Mapping[str, Document],
    now: str,
    *,
    wide: bool,
    headers: bool,
    width: int | None = None,
) -> str:
    """A JobFlow, and a line for each of its Jobs. ``jobs``: those that exist, by name; ``wide``: retries as well.

    ``width``: characters of a line, None for any number.
    """
    metadata = flow["metadata"]
    lines = [
        f"jobflow/{metadata['name']} in namespace {metadata['namespace']}",
        f"Phase    {_phase(flow)}, {_completed(flow)} of {counted(len(_steps(flow)), 'job')} completed",
        f"Age      {age(metadata.get('creationTimestamp'), now)}",
    ]
    problem = mapping_at(_conditions(flow).get(metadata["name"]))
    if problem:
        lines.append(f"Problem  {problem.get('reason', '')}: {_one_line(problem.get('message'))}")
    columns = ["JOB", "PHASE", "PODS", *(["RETRIES"] if wide else ()), "AGE", "AFTER", "WAITS-FOR"]
    rows = [_job_row(flow, name, after, jobs.get(name), now, wide) for name, after in _jobs(flow, jobs)]
    told = filled("\n".join(lines), width, hanging=" " * 9) + "\n"
    right = "RETRIES AGE"
    text = table(columns, rows, headers=headers, right=right)
    if width is not None and max(map(len, text.splitlines()), default=0) > width:
        short = fitted_table(
            columns[:-1], [row[:-1] for row in rows], _NARROW_JOBS, width=width, headers=headers, right=right
        )
        waits = [str(row[-1] or NONE) for row in rows]
        text = with_texts(short, waits, width, title=columns[-1] if headers else "")
    return f"{told}\n{text}" if rows else told


def _row(flow: Document, now: str, wide: bool) -> list[Cell]:
    metadata, status = flow["metadata"], _status(flow)
    waits = list(_waits(flow))
    more = f" (and {len(waits) - 1} more)" if len(waits) > 1 else ""
    told = "; ".join(waits) if wide else f"{waits[0]}{more}" if waits else ""
    failed = [*_names(status, "failedJobs"), *_names(status, "terminatedJobs")]
    return [
        metadata["name"],
        metadata.get("namespace"),
        _phase(flow),
        f"{_completed(flow)}/{len(_steps(flow))}",
        age(metadata.get("creationTimestamp"), now),
        *([", ".join(failed) or None] if wide else ()),
        told or None,
    ]


def _waits(flow: Document) -> Iterator[str]:
    """What a JobFlow waits for, Job by Job in the order of its spec. Over: nothing."""
    if _phase(flow) in _OVER:
        return
    conditions = _conditions(flow)
    pending = _names(_status(flow), "pendingJobs")
    for step in _steps(flow):
        name = _job_name(flow, step)
        if name in pending:
            yield f"{name}: admission, or its pods to start"
        elif told := _awaited(mapping_at(conditions, name)):
            yield f"{name}: {told}"


def _job_row(flow: Document, name: str, after: str, job: Document | None, now: str, wide: bool) -> list[Cell]:
    told = mapping_at(_conditions(flow).get(name))
    status = _status(job) if job is not None else {}
    state = mapping_at(status, "state")
    gone = "Completed" if name in _names(_status(flow), "completedJobs") else WAITING
    phase = str(state.get("phase") or told.get("phase") or (_PENDING if job is not None else gone))
    waits = _queued(state) if job is not None else _awaited(told)
    counts = [f"{status[count]} {count}" for count in _COUNTS if status.get(count)]
    return [
        name,
        phase,
        ", ".join(counts) or None,
        *([status.get("retryCount", 0) if job is not None else None] if wide else ()),
        age(job["metadata"].get("creationTimestamp") if job is not None else None, now),
        after or None,
        waits or None,
    ]


def _queued(state: Document) -> str:
    """Why a Job that exists has not all of its pods; "": nothing is said."""
    reason, message = state.get("reason"), _one_line(state.get("message"))
    if state.get("phase", _PENDING) != _PENDING:
        return ""
    return ": ".join(part for part in (str(reason or ""), message) if part)


def _awaited(told: Document) -> str:
    """What a Job waits for that does not exist yet."""
    message = _one_line(told.get("message")) if told.get("phase") == WAITING else ""
    return message.removeprefix("waits for ")


def _jobs(flow: Document, jobs: Mapping[str, Document]) -> Iterator[tuple[str, str]]:
    """Names of the Jobs of a flow and what comes before each; last those of steps that are no longer in its spec."""
    named = {_job_name(flow, step): _after(step) for step in _steps(flow)}
    yield from named.items()
    yield from ((name, "") for name in sorted(jobs.keys() - named.keys()))


def _after(step: Document) -> str:
    depends_on = mapping_at(step, "dependsOn")
    targets = [str(target) for target in list_at(depends_on, "targets")]
    probed = " (probed)" if depends_on.get("probe") else ""
    joined = (" or " if depends_on.get("strategy") == "any" else ", ").join(targets)
    return f"{joined}{probed}" if joined else ""


def _phase(flow: Document) -> str:
    return str(mapping_at(_status(flow).get("state")).get("phase") or _PENDING)


def _completed(flow: Document) -> int:
    names = {_job_name(flow, step) for step in _steps(flow)}
    return len(names.intersection(_names(_status(flow), "completedJobs")))


def _steps(flow: Document) -> list[Document]:
    steps = list_at(flow, "spec", "flows")
    return [step for step in steps if isinstance(step, Mapping) and step.get("name")]


def _job_name(flow: Document, step: Document) -> str:
    return f"{flow['metadata']['name']}-{step['name']}"


def _status(of: Document) -> Document:
    return mapping_at(of, "status")


def _conditions(flow: Document) -> Document:
    return mapping_at(_status(flow).get("conditions"))


def _names(status: Document, key: str) -> list[str]:
    return [str(name) for name in list_at(status, key)]


def _one_line(text: object) -> str:
    return " ".join(str(text or "").split())
