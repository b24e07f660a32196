"""Guards of Jobs, and of the templates of other owners of pods: only Muster starts what waits. Pure."""

from collections.abc import Iterator

from admission.kube.policies.cel import annotation, label
from admission.kube.policies.guards.rules import (
    CREATED,
    SIGNS,
    WHO,
    carries_own_names,
    guard,
    no_node_name,
    no_system_priority,
    own_user,
    rule,
    shown,
    unchanged,
    unsigned,
    variable,
)
from admission.kube.policies.mutating import PolicyOptions
from queues.api.api_resources import (
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Document,
)
from queues.api.names import JOB_NAME, QUEUE_LABEL, RELEASED, USER

_TEMPLATE = ".spec.template"
_VARIABLES = (
    variable("suspended", "object.spec.?suspend.orValue(false)"),
    variable("wasSuspended", "oldObject != null && oldObject.spec.?suspend.orValue(false)"),
    variable("queue", label(QUEUE_LABEL)),
    variable("queueBefore", f"oldObject == null ? '' : {label(QUEUE_LABEL, 'oldObject')}"),
)


def job_guards(options: PolicyOptions) -> list[Document]:
    """The policies for Jobs, CronJobs, and all other built-in kinds with a pod template."""
    of_cron_job = "object.spec.jobTemplate"
    before = "oldObject.spec.jobTemplate"
    return [
        *guard(
            "muster-guard-jobs",
            [JOBS.rule(["CREATE", "UPDATE"])],
            _job_rules(),
            options,
            concerns=_concerns(),
            variables=_VARIABLES,
        ),
        *guard(
            "muster-guard-cron-jobs",
            [CRON_JOBS.rule(["CREATE", "UPDATE"])],
            [_unsigned_template(of_cron_job, before)],
            options,
            concerns=f"{_signed(of_cron_job)} || {_signed(f'{of_cron_job}.spec.template')}",
        ),
        *guard(
            "muster-guard-templates",
            [
                kind.rule(["CREATE", "UPDATE"])
                for kind in (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, REPLICATION_CONTROLLERS)
            ],
            [_unsigned_template("object.spec.template", "oldObject.spec.template")],
            options,
            concerns=f"has(object.spec.template) && {_signed('object.spec.template')}",
        ),
    ]


def _signed(of: str) -> str:
    return f"(has({of}.metadata) && {carries_own_names(of)})"


def _unsigned_template(now: str, before: str) -> Document:
    """A template says nothing that only Muster says. One that did before may stay as it is, to be deleted."""
    return rule(
        f"!({CREATED}) && {now} == {before}",
        f"'The pod template has a label {RELEASED} or an annotation {' or '.join((*SIGNS, USER))}, written by '"
        f" + {WHO} + '; expected none, only Muster writes them. Remove them.'",
    )


def _concerns() -> str:
    """Jobs in a queue, and Jobs with one of Muster's names on themselves or on their pods."""
    return f"{_is_marked('object')} || (oldObject != null && {_is_marked('oldObject')})"


def _is_marked(of: str) -> str:
    return f"({label(QUEUE_LABEL, of)} != '' || {carries_own_names(of)} || {_signed(of + _TEMPLATE)})"


def _job_rules() -> list[Document]:
    template = f"object{_TEMPLATE}"
    released = label(RELEASED, template)
    entered = "variables.queueBefore == '' && variables.queue != ''"
    queued = "(variables.queue != '' || variables.queueBefore != '')"
    return [
        rule(
            f"!({CREATED}) || ({label(RELEASED)} != 'true' && {released} != 'true'"
            f" && {unsigned('object')} && {unsigned(template)})",
            f"'The Job or its pod template has label {RELEASED} or annotation {' or '.join(SIGNS)}, written by '"
            f" + {WHO} + '; expected none, only Muster writes them. Remove them.'",
        ),
        own_user(),
        own_user(_TEMPLATE),
        # What a template names in these two fields never changes: asked when the Job enters a queue.
        no_node_name(f"{template}.spec", "spec.template.spec", unless=f"!({entered})"),
        no_system_priority(f"{template}.spec", "spec.template.spec", kept=f"!({entered})"),
        rule(
            f"!{queued} || variables.suspended || !variables.wasSuspended",
            f"'spec.suspend: found false written by ' + {WHO} + ', expected true until Muster admits the Job"
            f" to queue \"' + variables.queue + '\". Wait; `kubectl muster explain` tells what it waits for.'",
        ),
        rule(
            f"{CREATED} || variables.queue == variables.queueBefore"
            " || (variables.suspended && variables.queue != '')",
            _moved("", "variables.queue", "variables.queueBefore"),
        ),
        _queue_of_template(),
        _of_no_volcano_job(entered),
        *_keeps_its_size(released),
        unchanged("Annotation", USER, annotation, unless=f"({entered} && {annotation(USER)} == {WHO})"),
        unchanged("Label", RELEASED, label),
        *(unchanged("Annotation", key, annotation) for key in SIGNS),
        unchanged("Label", RELEASED, label, _TEMPLATE),
        *(unchanged("Annotation", key, annotation, _TEMPLATE) for key in (*SIGNS, USER)),
    ]


def _moved(place: str, now: str, before: str) -> str:
    return (
        f"'Label {QUEUE_LABEL}{place}: found ' + {shown(now)} + ', expected ' + {shown(before)}"
        f" + '; a Job may move to another queue only while it is suspended, and leave none. Suspend the Job first"
        f" (spec.suspend: true), or delete it and create it again.'"
    )


def _queue_of_template() -> Document:
    now, before = label(QUEUE_LABEL, f"object{_TEMPLATE}"), label(QUEUE_LABEL, f"oldObject{_TEMPLATE}")
    return rule(
        f"{CREATED} || {now} == {before} || (variables.suspended && {now} != '')",
        _moved(" of the pod template", now, before),
    )


def _of_no_volcano_job(entered: str) -> Document:
    """Pods with this label are taken for those that Muster makes of a Volcano Job, at which no policy looks."""
    now, before = label(JOB_NAME, f"object{_TEMPLATE}"), label(JOB_NAME, f"oldObject{_TEMPLATE}")
    return rule(
        f"{now} == '' || (!({CREATED}) && !({entered}) && {now} == {before})",
        f"'Label {JOB_NAME} of the pod template: found ' + {shown(now)} + ', expected none: it is for pods of Volcano"
        f" Jobs. Remove it.'",
    )


def _keeps_its_size(released: str) -> Iterator[Document]:
    """Neither number grows by which pods come up at the same time. An Indexed Job may change its completions, if they
    become equal to its parallelism."""
    for field, read in (("parallelism", _parallelism), ("completions", _completions)):
        now, before = read("object"), read("oldObject")
        yield rule(
            f"{CREATED} || {released} != 'true' || variables.suspended || {now} <= {before}",
            f"'spec.{field}: found ' + string({now}) + ', expected at most ' + string({before})"
            f" + ': the Job is admitted with so many seats. Suspend the Job first (spec.suspend: true), change it, and"
            f" resume it: it starts anew with all its pods. Or create another Job for more.'",
        )


def _parallelism(of: str) -> str:
    return f"{of}.spec.?parallelism.orValue(1)"


def _completions(of: str) -> str:
    """As far as they bound how many pods run at a time."""
    pods = _parallelism(of)
    completions = f"{of}.spec.?completions.orValue({pods})"
    return f"({completions} < {pods} ? {completions} : {pods})"
