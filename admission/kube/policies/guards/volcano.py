"""Guards of Volcano's kinds: what was admitted stays as it is, also while no webhook answers. Pure.

A Volcano Job's pods are made from its document as it is then, so a document that changes after the admission would
give pods of another size to seats that are taken. A policy refuses such a change in Volcano's words: it is evaluated by
the API server itself, and fails closed.
"""

from collections.abc import Iterator
from typing import Final

from admission.kube.policies.cel import annotation, text, texts
from admission.kube.policies.guards.fixed_fields import job_change
from admission.kube.policies.guards.rules import (
    CREATED,
    SIGNS,
    WHO,
    carries_own_names,
    guard,
    no_system_priority,
    rule,
    same_class,
    unchanged,
    variable,
)
from admission.kube.policies.mutating import JOB_STARTERS, PolicyOptions
from queues.api.api_resources import COMMANDS, POD_GROUPS, QUEUES, VOLCANO_JOBS, Document
from queues.api.names import RELEASED, USER
from queues.api.validation.command_rules import (
    ACTIONS_EXPECTED,
    JOB_COMMANDS,
    QUEUE_COMMANDS,
    TARGET_EXPECTED,
)
from queues.api.validation.queued_work import NO_NODE_NAME, NO_SYSTEM_CLASS

_UPDATE_REFUSED: Final = (
    "job updates may not change fields other than `minAvailable`, `tasks[*].replicas under spec` and "
    "`PriorityClassName`"
)
_TASKS_UPDATE_REFUSED: Final = "job updates may not add or remove tasks"
_TASKS = "object.spec.?tasks.orValue([])"
_TASKS_BEFORE = "oldObject.spec.?tasks.orValue([])"


def volcano_guards(options: PolicyOptions) -> list[Document]:
    """The policies for Volcano Jobs, PodGroups, Commands, and what starts Volcano Jobs."""
    operations = ["CREATE", "UPDATE"]
    of_group = [
        no_system_priority("object.spec", "spec", kept=same_class("object.spec", "oldObject.spec")),
        unchanged("Annotation", USER, annotation),
    ]
    return [
        *guard(
            "muster-guard-vcjobs",
            [VOLCANO_JOBS.rule(operations)],
            _job_rules(),
            options,
            variables=[variable("change", job_change())],
        ),
        *guard("muster-guard-podgroups", [POD_GROUPS.rule(operations)], of_group, options),
        *guard("muster-guard-commands", [COMMANDS.rule(operations)], _command_rules(), options),
        *guard(
            "muster-guard-job-starters",
            [kind.rule(operations) for _, kind in JOB_STARTERS],
            [unchanged("Annotation", USER, annotation)],
            options,
        ),
    ]


def _command_rules() -> list[Document]:
    """The author of a Command may do what it asks for. In Volcano the right to create Commands is enough."""
    target = "object.?target"
    kind = f"{target}.?kind.orValue('')"
    name = f"{target}.?name.orValue('')"
    group = f"{target}.?apiVersion.orValue('').split('/')[0]"
    is_job, is_queue = (
        f"({group} == {text(each.group)} && {kind} == {text(each.kind)})" for each in (VOLCANO_JOBS, QUEUES)
    )
    job, queue = (
        f"authorizer.group({text(each.group)}).resource({text(each.plural)})"
        for each in (VOLCANO_JOBS, QUEUES)
    )
    action = "object.?action.orValue('')"
    may = (
        f"({is_job} ? {job}.namespace(object.metadata.namespace).name({name}).check('update').allowed()"
        f" : {queue}.name({name}).check('update').allowed())"
    )
    return [
        rule(
            f"({is_job} && {action} in {texts(JOB_COMMANDS)}) || ({is_queue} && {action} in {texts(QUEUE_COMMANDS)})",
            f"'Command: found action \"' + {action} + '\" on ' + ({kind} == '' ? 'nothing' : {kind})"
            f" + ', expected {ACTIONS_EXPECTED}, with its apiVersion, kind, name and uid as target.'",
        ),
        rule(
            f"{name} != '' && ({is_queue} || {target}.?uid.orValue('') != '')",
            f"'target: found no name or no uid, expected {TARGET_EXPECTED}.'",
        ),
        rule(
            f"!({is_job} || {is_queue}) || {name} == '' || {may}",
            f"'Command: ' + {WHO} + ' may not update ' + {kind} + ' ' + {name}"
            " + ', and so may not ask for this. Ask an administrator of its queue or namespace.'",
        ),
    ]


def _job_rules() -> list[Document]:
    as_many = f"size({_TASKS}) == size({_TASKS_BEFORE})"
    return [
        no_system_priority("object.spec", "spec", kept=same_class("object.spec", "oldObject.spec")),
        *_template_rules(),
        unchanged("Annotation", USER, annotation),
        rule(
            f"{CREATED} || {as_many}",
            f"'{_TASKS_UPDATE_REFUSED}: found ' + string(size({_TASKS})) + ' tasks, expected '"
            f" + string(size({_TASKS_BEFORE})) + '. Delete the Job and create it again.'",
        ),
        rule(
            f"{CREATED} || !({as_many}) || variables.change == ''",
            f"'{_UPDATE_REFUSED}: ' + variables.change + '. Delete the Job and create it again.'",
        ),
    ]


def _template_rules() -> Iterator[Document]:
    """Templates of new Jobs: no node, no class of the system, none of Muster's names."""
    templates = f"{_TASKS}.filter(task, has(task.template)).map(task, task.template)"
    yield _of_each(
        templates,
        "template.?spec.?nodeName.orValue('') != ''",
        f"nodeName: found in the template of a task, expected {NO_NODE_NAME.expected}.",
    )
    yield _of_each(
        templates,
        f"template.?spec.?priorityClassName.orValue('').startsWith('{NO_SYSTEM_CLASS.beginning}')",
        "priorityClassName: found a class of the system in the template of a task, expected"
        f" {NO_SYSTEM_CLASS.expected}.",
    )
    yield _of_each(
        templates,
        f"has(template.metadata) && {carries_own_names('template')}",
        f"The template of a task has a label {RELEASED} or an annotation {' or '.join((*SIGNS, USER))}:"
        " expected none, only Muster writes them. Remove them.",
    )


def _of_each(templates: str, broken: str, message: str) -> Document:
    return rule(f"!({CREATED}) || !{templates}.exists(template, {broken})", text(message))
