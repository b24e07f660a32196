"""A history as people read it: a line for everything that happened, in the order in which it happened."""

from tests.chaos.history import History


def timeline(history: History) -> str:
    """Faults, pods, elections and admissions in the order in which they happened."""
    lines = [(fault.at, f"{fault.name} {fault.target} {fault.detail}".rstrip()) for fault in history.faults]
    phases: dict[str, str] = {}
    for change in history.objects:
        meta = change.document["metadata"]
        if change.number <= history.prepared or change.resource not in ("pods", "jobs"):
            continue
        state = f"{change.change.lower()} {_state(change.document)}"
        name = f"{change.resource} {meta['namespace']}/{meta['name']}"
        if phases.get(name) != state:
            phases[name] = state
            lines.append((change.at, f"    {name} {state} by {change.writer or '?'}"))
    for row in history.rows:
        if row.table == "admissions" and row.after is not None:
            told = f"admission {row.after['id']} of {row.after['kind']} {row.after['name']}: {row.after['state']}"
            lines.append((row.at - history.began, f"  {row.writer} {told} ended={row.after['ended']}"))
        elif (
            row.table == "fences"
            and row.after is not None
            and (row.before or {}).get("term") != row.after["term"]
        ):
            lines.append((row.at - history.began, f"  {row.writer} begins term {row.after['term']}"))
    return "\n".join(f"{at:7.2f} s  {line}" for at, line in sorted(lines, key=lambda each: each[0]))


def _state(document: dict[str, object]) -> str:
    meta, spec, status = (dict(document.get(part) or {}) for part in ("metadata", "spec", "status"))  # type: ignore[call-overload]
    if document.get("kind") == "Job":
        return f"suspend={spec.get('suspend')} active={status.get('active')} succeeded={status.get('succeeded', 0)}"
    admission = (meta.get("annotations") or {}).get("muster.dev/admission-id", "-")
    gated = " gated" if spec.get("schedulingGates") else ""
    going = " deleting" if "deletionTimestamp" in meta else ""
    return f"{status.get('phase')}{gated}{going} on {spec.get('nodeName', '-')} admission {admission}"
