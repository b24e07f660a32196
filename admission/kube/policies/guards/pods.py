"""Guards of pods: only Muster lets a gated pod go, and only Muster and the job controller write its names. Pure."""

from collections.abc import Iterator
from typing import Final

from admission.kube.policies.cel import annotation, label, text, texts
from admission.kube.policies.guards.rules import (
    CREATED,
    SIGNS,
    WHO,
    carries_own_names,
    guard,
    no_system_priority,
    own_user,
    rule,
    shown,
    subresource_rule,
    unchanged,
    unsigned,
    variable,
)
from admission.kube.policies.mutating import (
    CONTROLLER_MANAGER,
    GARBAGE_COLLECTOR,
    PolicyOptions,
    by_job_controller,
    has_gate,
)
from queues.api.api_resources import PODS, Document
from queues.api.names import (
    ADMISSION_ID,
    BATCH,
    BATCH_VOLCANO,
    CONTROLLER_LABELS,
    FINALIZER,
    GATE,
    GROUP_ANNOTATION,
    GROUP_ANNOTATION_VOLCANO,
    JOB_NAME,
    QUEUE_LABEL,
    RELEASED,
    TASK_INDEX,
    TASK_SPEC,
    USER,
)

#: The verb of users who may delete by force pods that run: of administrators, who may do everything.
FORCE: Final = "force-delete"
#: Labels, and annotations, by which a pod is known as one of a Volcano Job.
_MEMBER_NAMES = (JOB_NAME, TASK_SPEC, TASK_INDEX)
_VARIABLES = (
    variable("gated", has_gate("object")),
    variable("wasGated", f"oldObject != null && {has_gate('oldObject')}"),
)


def pod_guards(options: PolicyOptions) -> list[Document]:
    """The policies for pods, for changes of their resources in place, and for deletions by force."""
    return [
        *guard(
            "muster-guard-pods",
            [PODS.rule(["CREATE", "UPDATE"])],
            _rules(options),
            options,
            concerns=_concerns(options),
            variables=_VARIABLES,
        ),
        *guard(
            "muster-guard-resize",
            [subresource_rule(PODS, "resize")],
            [_keeps_its_size()],
            options,
            concerns=_marked("object"),
        ),
        *guard(
            "muster-guard-deletion",
            [PODS.rule(["DELETE"])],
            # A request for a collection names no pod, and leaves it to each how long its grace period is.
            [
                _ends_before_it_goes(
                    "request.options.?gracePeriodSeconds"
                    ".orValue(oldObject.spec.?terminationGracePeriodSeconds.orValue(1))",
                    of="oldObject.metadata.name",
                )
            ],
            options,
            concerns=_runs_in_a_seat(),
        ),
        *guard(
            "muster-guard-eviction",
            [{**PODS.rule(["CREATE"]), "resources": ["pods/eviction"]}],
            [_ends_before_it_goes("object.?deleteOptions.?gracePeriodSeconds.orValue(1)", of="request.name")],
            options,
        ),
    ]


def _runs_in_a_seat() -> str:
    """A pod that Muster has released, whose containers may run on a node."""
    ended = "oldObject.?status.?phase.orValue('') in ['Succeeded', 'Failed']"
    return f"{label(RELEASED, 'oldObject')} == 'true' && oldObject.spec.?nodeName.orValue('') != '' && !({ended})"


def _ends_before_it_goes(grace: str, of: str) -> Document:
    """Without a grace period the API server drops the object at once, and containers go on for as long as their pod
    said: the next pod would run next to them on the same devices. Nodes delete so what has ended.

    ``grace``, ``of``: CEL, the grace period and the name of the pod.
    """
    system = f"{WHO}.startsWith('system:serviceaccount:kube-system:') || {WHO} == {text(CONTROLLER_MANAGER)}"
    may = (
        f"authorizer.group('').resource('pods').namespace(request.namespace).name({of})"
        f".check({text(FORCE)}).allowed()"
    )
    return rule(
        f"{grace} != 0 || 'system:nodes' in request.userInfo.groups || {system} || {may}",
        f"'gracePeriodSeconds: found 0 by ' + {WHO} + ', expected 1 or more: a pod keeps its seat until its node"
        f" confirms that it has ended. Use --grace-period=1 without --force. Muster removes pods of dead nodes itself;"
        f" users with the verb {FORCE} on pods may remove any.'",
    )


def _concerns(options: PolicyOptions) -> str:
    """Pods with one of Muster's names, or a Job that they claim to be of, or a queue that is new to them.

    Pods that the job controller copies from a template of Muster are in order; asking the rules about each costs
    a millisecond.
    """
    created = f"!({_copied(options)}) && ({_marked('object')} || {_jobs('object')} != [])"
    updated = (
        f"{_marked('object')} || {_marked('oldObject')}"
        f" || {label(QUEUE_LABEL)} != {label(QUEUE_LABEL, 'oldObject')}"
        f" || {_jobs('object')} != {_jobs('oldObject')}"
    )
    return f"{CREATED} ? ({created}) : ({updated})"


def _marked(of: str) -> str:
    return f"({carries_own_names(of)} || {_finalizer(of)})"


def _finalizer(of: str) -> str:
    return f"({text(FINALIZER)} in {of}.metadata.?finalizers.orValue([]))"


def _copied(options: PolicyOptions) -> str:
    """Copied from the template of a Job, which is guarded: released with its admission, or gated."""
    released = f"{label(RELEASED)} == 'true' && {annotation(ADMISSION_ID)} != ''"
    gated = f"{has_gate('object')} && {label(RELEASED)} == 'false'"
    return f"{by_job_controller(options)} && (({released}) || ({gated}))"


def _jobs(of: str) -> str:
    """The Jobs, of Kubernetes or of Volcano, that are said to have made the pod: one at most."""
    versions = texts((BATCH, BATCH_VOLCANO))
    return (
        f"{of}.metadata.?ownerReferences.orValue([])"
        f".filter(o, o.?controller.orValue(false) && o.kind == 'Job' && o.apiVersion in {versions})"
        ".map(o, o.apiVersion + '/' + o.name + '/' + o.uid)"
    )


def _rules(options: PolicyOptions) -> list[Document]:
    released, copied = label(RELEASED), f"({_copied(options)})"
    # What the mutating policies make of every pod that they see. They see none with the value "true".
    made_to_wait = f"(variables.gated && {released} == 'false')"
    copier = by_job_controller(options)
    return [
        rule(
            f"!({CREATED}) || {released} == '' || {made_to_wait} || {copied}",
            f"'Pod with label {RELEASED}: found \"' + {released} + '\", created by ' + {WHO}"
            f" + '; expected no such label, which only Muster writes."
            f" Remove it and name a queue by label {QUEUE_LABEL}.'",
        ),
        rule(
            f"!({CREATED}) || {copied} || ({unsigned('object')})",
            f"'Annotations {', '.join(SIGNS)}: found on a pod created by ' + {WHO}"
            f" + '; expected none, only Muster writes them. Remove them.'",
        ),
        own_user(unless=copier),
        *_owner_rules(copier),
        no_system_priority("object.spec", "spec", unless="!variables.gated"),
        rule(
            "!variables.wasGated || variables.gated",
            f"'Scheduling gate {GATE}: found removed by ' + {WHO}"
            f" + '; expected it to stay until Muster releases the pod."
            f" Wait, or delete the pod; `kubectl muster explain` tells what it waits for.'",
        ),
        rule(
            f"{_finalizer('object')} == ({CREATED} ? false : {_finalizer('oldObject')})",
            f"'Finalizer {FINALIZER}: found ' + ({_finalizer('object')} ? 'added' : 'removed') + ' by ' + {WHO}"
            f" + '; expected it to stay until Muster has stored how the pod ended: only Muster adds and removes it.'",
        ),
        unchanged("Label", RELEASED, label),
        *(unchanged("Annotation", key, annotation) for key in (*SIGNS, USER)),
        *_queue_and_group_rules(),
    ]


def _owner_rules(copier: str) -> Iterator[Document]:
    """No pod enters a Job but by its controller, nor leaves it: another one would be made past the Job's admission.

    The garbage collector takes the pods from a Job that is deleted without them; that Job makes no others.
    """
    let_be = f"{CREATED} || !{_marked('oldObject')}"
    same = f"(oldObject != null && {_jobs('object')} == {_jobs('oldObject')})"
    collector = f"{WHO} in {texts((GARBAGE_COLLECTOR, CONTROLLER_MANAGER))}"
    yield rule(
        f"{let_be} || {same} || {_jobs('oldObject')} == [] || {copier} || {collector}",
        f"'metadata.ownerReferences: found the Job of the pod removed or changed by ' + {WHO}"
        f" + '; expected it to stay: the Job would make another pod in place of this one."
        f" Delete the pod, or the Job, with or without its pods.'",
    )
    yield rule(
        f"{copier} || {_jobs('object')} == [] || {same}",
        f"'metadata.ownerReferences: found a Job as controller, written by ' + {WHO}"
        f" + '; expected none: only the controller of Jobs makes the pods of a Job. Remove it.'",
    )
    for what, keys in (("Label", (*CONTROLLER_LABELS, *_MEMBER_NAMES)), ("Annotation", _MEMBER_NAMES)):
        field = f"metadata.?{what.lower()}s"
        same = f"object.{field}[?key].orValue('') == oldObject.{field}[?key].orValue('')"
        changed = f"{texts(keys)}.filter(key, !({same}))"
        yield rule(
            f"{let_be} || {changed} == []",
            f"'{what} ' + {changed}.join(', ') + ': found written by ' + {WHO}"
            f" + '; expected it to stay: it tells which Job the pod is of. Leave it as it is.'",
        )


def _queue_and_group_rules() -> Iterator[Document]:
    """A pod changes its queue or its group only while it waits, and enters a queue only when it is created."""
    for what, key, read in (
        ("Label", QUEUE_LABEL, label),
        ("Annotation", GROUP_ANNOTATION, annotation),
        ("Annotation", GROUP_ANNOTATION_VOLCANO, annotation),
    ):
        now, before = read(key, "object"), read(key, "oldObject")
        yield rule(
            f"{CREATED} || {now} == {before} || (variables.gated && {now} != '')",
            f"'{what} {key}: found ' + {shown(now)} + ', expected ' + {shown(before)}"
            f" + '; a pod may move to another queue or group only while it waits, and leave none."
            f" Delete the pod and create it again.'",
        )


def _keeps_its_size() -> Document:
    """A pod with a seat keeps the size of its seat; one that waits is created again with another size."""
    return rule(
        "object.spec == oldObject.spec",
        f"'spec.containers: found resources changed in place by ' + {WHO}"
        f" + '; expected those that the pod was created with: its queue is charged for them."
        f" Delete the pod and create it again.'",
    )
