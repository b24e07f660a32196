"""Rules for JobFlows and JobTemplates, those of Volcano's validating webhook among them."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from queues.api.reading.user_values import LABEL, is_dns_name
from queues.api.schedules.made_jobs import guard_violations, made_job, made_job_violations
from queues.api.types.job_flow import Flow, JobFlow
from queues.api.types.job_template import JobTemplate
from queues.api.validation.cycles import cycles
from queues.api.validation.known import NOTHING_KNOWN, Known
from queues.api.validation.violations import NOT_A_LABEL, Violation
from queues.text_format import excerpt

#: Phases that a probe of a task may ask for, as Kubernetes has them.
PHASES: Final = ("Pending", "Running", "Succeeded", "Failed", "Unknown")


def job_template_violations(template: JobTemplate, known: Known) -> list[Violation]:
    """Violations of a JobTemplate: those of a Job with its spec."""
    metadata = {"name": template.metadata.name, "namespace": template.metadata.namespace}
    return made_job_violations(made_job(metadata, template.spec.document()), known)


def job_flow_violations(flow: JobFlow, _: Known = NOTHING_KNOWN) -> list[Violation]:
    """Violations of a JobFlow. Whether its JobTemplates exist is not asked: they may come later."""
    found = list(_names(flow))
    defined = {one.name for one in flow.spec.flows}
    for index, one in enumerate(flow.spec.flows):
        found += _dependencies(one, defined, f"spec.flows[{index}]")
        found += _patch(one, f"spec.flows[{index}].patch")
    for cycle in cycles({one.name: one.targets for one in flow.spec.flows}):
        ring = f"flows that depend on one another in a cycle: {' → '.join(cycle)}"
        found.append(Violation("spec.flows", ring, "no cycle"))
    return found


def _names(flow: JobFlow) -> Iterator[Violation]:
    if not flow.spec.flows:
        yield Violation(
            "spec.flows", "nothing", "at least one flow; without any it does nothing", tolerable=True
        )
    seen: set[str] = set()
    for index, one in enumerate(flow.spec.flows):
        path = f"spec.flows[{index}].name"
        if not is_dns_name(one.name):
            yield Violation(path, excerpt(one.name) if one.name else "nothing", "the name of a JobTemplate")
        elif one.name in seen:
            yield Violation(path, excerpt(one.name), "a name that no other flow has")
        elif flow.metadata.name and len(job := f"{flow.metadata.name}-{one.name}") > 63:
            expected = f"at most 63 characters in the name of its Job, {excerpt(job)}"
            yield Violation(path, f"{len(job)} characters", expected)
        seen.add(one.name)


def _dependencies(one: Flow, defined: Collection[str], path: str) -> Iterator[Violation]:
    path = f"{path}.dependsOn"
    for name in one.targets:
        if name not in defined:
            yield Violation(f"{path}.targets", excerpt(name), "the name of a flow of this JobFlow")
    probe = one.depends_on.probe if one.depends_on is not None else None
    if probe is None:
        return
    if not one.targets:
        yield Violation(f"{path}.probe", "a probe without targets", "targets, whose pods it asks")
    for index, tcp in enumerate(probe.tcp_socket_list):
        yield from _port(tcp.task_name, tcp.port, f"{path}.probe.tcpSocketList[{index}]")
    for index, http in enumerate(probe.http_get_list):
        here = f"{path}.probe.httpGetList[{index}]"
        yield from _port(http.task_name, http.port, here)
        if http.path and (not http.path.startswith("/") or any(sign <= " " for sign in http.path)):
            yield Violation(f"{here}.path", excerpt(http.path), "a path that begins with /, without spaces")
        yield from _header(http.http_header, f"{here}.httpHeader")
    for index, status in enumerate(probe.task_status_list):
        yield from _task(status.task_name, f"{path}.probe.taskStatusList[{index}].taskName")
        if status.phase not in PHASES:
            here = f"{path}.probe.taskStatusList[{index}].phase"
            yield Violation(here, excerpt(status.phase), f"one of {', '.join(PHASES)}")


def _port(task: str, port: int, path: str) -> Iterator[Violation]:
    yield from _task(task, f"{path}.taskName")
    if not port:
        yield Violation(f"{path}.port", "0", "a port of the pods, 1 to 65535")


def _header(header: Mapping[str, Any] | None, path: str) -> Iterator[Violation]:
    if not header:
        return
    for field in ("name", "value"):
        text = header.get(field, "")
        if not isinstance(text, str) or any(sign < " " for sign in text) or (field == "name" and not text):
            yield Violation(f"{path}.{field}", excerpt(text), "text in one line")


def _task(name: str, path: str) -> Iterator[Violation]:
    if LABEL.fullmatch(name) is None:
        found = excerpt(name) if name else "nothing"
        yield Violation(path, found, f"the name of a task of a target: {NOT_A_LABEL}")


def _patch(one: Flow, path: str) -> Iterator[Violation]:
    """What a patch may not say whatever it is applied to; the whole Job is judged when it is made."""
    if one.patch is None:
        return
    for field, changes in (("spec", one.patch.spec), ("jobSpec", one.patch.job_spec)):
        for each in guard_violations({"spec": changes or {}}):
            yield replace(each, path=f"{path}.{field}{each.path.removeprefix('spec')}")
