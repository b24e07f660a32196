"""Admission policies that run inside the API server: they make pods and Jobs wait, and note the user who asked.

Pure: options in, documents out. The mutating half is here: pods get the gate, Jobs are suspended, schedulers
with another name are replaced, and the requester is written down. The API server itself evaluates the
policies, so things wait also while Muster is down. ``validating_policies`` has the other half.

Cost decides the shape. Measured on 1.36.3, a pod that a policy changes takes 3 ms more of the API
server's CPU, and one of 3,000 containers 0.28 s more, where creating it takes 0.13 s without policies: what is
copied and compared grows with the pod, and the expressions do not matter. After a change the API server asks all
policies a second time; one that would change nothing now is left out by a condition, else the figures were
larger by half. One that selectors leave out takes no measurable time. So three bindings that never match the same
object do the work, and a fourth where Kueue's names count (``kueue_names``):

- *named*: the object has the label ``muster.dev/queue-name``;
- *namespace*: it has not, but its namespace is labelled ``muster.dev/gated: "true"``;
- *volcano*: neither; but it asks for Volcano's scheduler, names a Volcano queue or group, or has Muster's gate
  already. Selectors see labels only, so here a condition looks at every remaining object outside ``kube-system``.

No condition can see annotations of the namespace. So a namespace that names a default queue by an annotation gets the
label ``muster.dev/gated: "true"`` from a policy of its own, once, when it is written.

Pods that Muster has released (label ``muster.dev/released: "true"``) are matched by none of these. Every pod that
waits gets that label with the value ``"false"``. Jobs are matched whatever they or their templates say: Muster makes
none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from admission.kube.policies.cel import (
    add,
    annotation,
    join,
    label,
    map_exists,
    only_if,
    remove,
    text,
    texts,
)
from admission.kube.policies.holds import hold_policies
from admission.kube.policies.kept_names import keeping_policies
from admission.kube.policies.kueue_names import kueue_policies
from admission.kube.policies.operators import SUSPENDED, made_by, noted_suspension, operator_policies
from admission.kube.policies.owners import owner_policies
from admission.kube.policies.policy_forms import (
    MAY_ADMINISTER,
    binding,
    bindings,
    names_queue,
    names_volcano_queue,
    not_by,
    policy,
    queue_of,
    understands_kueue,
)
from admission.kube.policies.train_jobs import train_job_policies
from admission.workloads.kinds import KINDS, OPERATOR_KINDS
from queues.api.api_resources import (
    JOB_FLOWS,
    JOBS,
    NAMESPACES,
    NODE_DRAINS,
    POD_GROUPS,
    PODS,
    QUEUES,
    RESERVATIONS,
    VOLCANO_CRON_JOBS,
    VOLCANO_JOBS,
    ApiResource,
    Document,
)
from queues.api.json_patch import escaped
from queues.api.kueue_names import KUEUE_PRIORITY, KUEUE_QUEUE
from queues.api.names import (
    CHANGE_REASON,
    CHANGED_BY,
    DEFAULT_QUEUE,
    DEFAULT_SCHEDULER,
    GATE,
    GATED_NAMESPACE,
    GROUP_ANNOTATION,
    GROUP_ANNOTATION_VOLCANO,
    JOB_NAME,
    OF_TENANT,
    QUEUE_ANNOTATION,
    QUEUE_LABEL,
    RELEASED,
    USER,
    VOLCANO_SCHEDULER,
)

#: Copies the template of a batch/v1 Job into pods; the second form is a controller manager without
#: ``--use-service-account-credentials``, which is believed for pods of Jobs only.
JOB_CONTROLLER: Final = "system:serviceaccount:kube-system:job-controller"
CONTROLLER_MANAGER: Final = "system:kube-controller-manager"
#: Takes the owner from what outlives it: ``kubectl delete --cascade=orphan``.
GARBAGE_COLLECTOR: Final = "system:serviceaccount:kube-system:generic-garbage-collector"

#: Kinds whose objects have Muster create Volcano Jobs, in the name of their requester.
JOB_STARTERS: Final = (("vccronjobs", VOLCANO_CRON_JOBS), ("jobflows", JOB_FLOWS))

_WRITTEN_QUEUE: Final = "object.?spec.?queue.orValue('')"
_IN_A_GROUP: Final = f"({annotation(GROUP_ANNOTATION)} != '' || {annotation(GROUP_ANNOTATION_VOLCANO)} != '')"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOptions:
    """What differs between clusters."""

    #: User name of Muster at the API server; no other user may release pods.
    identity: str
    #: The scheduler that binds what Muster releases.
    scheduler: str = DEFAULT_SCHEDULER
    #: Scheduler names that mean "through the queues": replaced by ``scheduler`` at creation.
    aliases: tuple[str, ...] = (VOLCANO_SCHEDULER,)


#: On a pod between the two times that policies are asked about it; no user sees it.
_NEVER_NEXT: Final = "muster.dev/never-preempts-next"
#: A class of users: what runs for the cluster itself may remove others.
_HAS_CLASS: Final = (
    "(object.spec.?priorityClassName.orValue('') != ''"
    " && !object.spec.priorityClassName.startsWith('system-'))"
)
_PREEMPTS: Final = "object.spec.?preemptionPolicy.orValue('') != 'Never'"

#: A pod is made for one that is gone, not for one that is still ending.
_REPLACES_LATE: Final = "object.spec.?podReplacementPolicy.orValue('') == 'Failed'"
#: A deletion that says nothing of a grace period has the API server drop a pod at once that asks for 0 seconds, also
#: while its containers run: the next pod would run next to them on the same devices.
_VANISHES: Final = "object.spec.?terminationGracePeriodSeconds.orValue(1) == 0"


def mutating_policies(options: PolicyOptions) -> list[Document]:
    """The mutating policies with their bindings: gate, suspend, rename the scheduler, note the requester."""
    documents = [
        *_waiting(
            PODS,
            _pod_patches(options),
            _pod_of_volcano(options),
            options,
        ),
        *_waiting(
            JOBS,
            _job_patches(options),
            f"{_of_volcano('object.spec.template', options)} || {names_volcano_queue('object')}",
            options,
        ),
        *_late_jobs(options),
        *_replaced_pods(),
        *_ending_on_their_nodes(),
        *_never_preempting(options),
        *_gated_namespaces(),
    ]
    unsigned = {"name": "not-signed-yet", "expression": f"!({_is_signed(options)})"}
    for plural, kind in signed_kinds():
        name = f"muster-requester-{plural}"
        patches, conditions = _note_requester(options), [not_by(options.identity), unsigned]
        if kind in (VOLCANO_JOBS, POD_GROUPS):
            complete = f"({_is_signed(options)}) && {_WRITTEN_QUEUE} != ''"
            conditions = [
                not_by(options.identity),
                {"name": "not-complete-yet", "expression": f"!({complete})"},
            ]
            patches = join(patches, _note_queue())
        documents += [
            _policy(name, kind, ["CREATE"], patches, conditions=conditions),
            binding(name, name, {}),
        ]
    for name, kind in (
        ("muster-changed-by", QUEUES),
        ("muster-changed-by-reservations", RESERVATIONS),
        ("muster-changed-by-nodedrains", NODE_DRAINS),
    ):
        documents += [
            _policy(name, kind, ["CREATE", "UPDATE"], _changed_by_patch()),
            binding(name, name, {}),
        ]
    documents += [
        _policy("muster-reserved-by", RESERVATIONS, ["CREATE", "UPDATE"], _of_tenant_patch()),
        binding("muster-reserved-by", "muster-reserved-by", {}),
    ]
    return [
        *documents,
        *owner_policies(),
        *operator_policies(options.identity),
        *train_job_policies(options.identity),
        *keeping_policies(options.identity, options.scheduler, options.aliases),
        *hold_policies(options.identity),
        *kueue_policies(),
    ]


def signed_kinds() -> list[tuple[str, ApiResource]]:
    """Kinds that are not changed at creation but for their queue and the name of the requester, with a plural of each.

    Workloads with pods that are gated, or do not exist while they wait; and what starts Volcano Jobs, which get the
    name from it.
    """
    of_workloads = [
        (f"{support.kind}s", support.resource)
        for support in KINDS
        if not support.is_pod and not support.holding.is_suspended
    ]
    return [*of_workloads, *JOB_STARTERS]


# -- documents ----------------------------------------------------------------------------------------------


def _waiting(kind: ApiResource, patches: str, of_volcano: str, options: PolicyOptions) -> list[Document]:
    """Everything that makes one kind wait: two policies, three bindings that exclude one another."""
    noun = {"pods": "gate", "jobs": "suspend"}[kind.plural]
    # Jobs are not released by a label: a Job with this one has it from its user.
    unreleased = [{"key": RELEASED, "operator": "NotIn", "values": ["true"]}] if kind is PODS else []
    # Static pods are shown to the API server by their kubelet; they run already and cannot be gated.
    static = {"name": "not-by-a-node", "expression": "!('system:nodes' in request.userInfo.groups)"}
    # A pod has all of it already from its Job's template, unless that was written before the policies were; and any
    # object has, when the API server asks the policies once more because one of them changed something.
    complete = _complete_pod(options) if kind is PODS else _complete_job(options)
    incomplete = {"name": "not-complete-yet", "expression": f"!({complete})"}
    conditions = [static, incomplete] if kind is PODS else [_no_part(), incomplete]
    volcano = {"name": "meant-for-volcano", "expression": of_volcano}
    others = [volcano, incomplete] if kind is PODS else [volcano, _no_part(), incomplete]
    by_selector, by_condition = f"muster-{noun}", f"muster-{noun}-volcano"
    return [
        _policy(by_selector, kind, ["CREATE"], patches, conditions=conditions),
        _policy(by_condition, kind, ["CREATE"], patches, conditions=others),
        *bindings(noun, unreleased),
    ]


def _no_part() -> Document:
    """A match condition: a Job is not made for an object that waits itself, unless it names a queue of its own."""
    parents = made_by(description.resource for description in OPERATOR_KINDS)
    return {"name": "no-part-of-another", "expression": f"{label(QUEUE_LABEL)} != '' || !({parents})"}


def _late_jobs(options: PolicyOptions) -> list[Document]:
    """A Job that names a queue later is signed by the user who names it. It must be suspended, by the guard of Jobs."""
    late = f"{names_queue('object')} && !{names_queue('oldObject')}"
    conditions = [not_by(options.identity), {"name": "enters-a-queue", "expression": late}]
    name = "muster-requester-jobs"
    queue = f"({label(QUEUE_LABEL)} != '' ? {label(QUEUE_LABEL)} : {queue_of('object')})"
    patches = join(
        map_exists("object", "", "labels"),
        add(f"/metadata/labels/{escaped(QUEUE_LABEL)}", queue),
        map_exists("object", "", "annotations"),
        add(f"/metadata/annotations/{escaped(USER)}", "request.userInfo.username"),
    )
    return [_policy(name, JOBS, ["UPDATE"], patches, conditions=conditions), binding(name, name, {})]


def _replaced_pods() -> list[Document]:
    """No pod of a Job takes the place of one that is still ending, also where the Job said so later, or was there
    before these policies. Pods of a Job that was resumed with its nodes come up without a gate: a second one would run
    next to the first, with twice what was admitted."""
    name = "muster-replace-pods"
    condition = {"name": "replaces-too-early", "expression": f"!({_REPLACES_LATE})"}
    named = {"matchExpressions": [{"key": QUEUE_LABEL, "operator": "Exists"}]}
    return [
        _policy(name, JOBS, ["UPDATE"], join(_replace_late()), conditions=[condition]),
        binding(name, name, {"objectSelector": named}),
    ]


def _ending_on_their_nodes() -> list[Document]:
    """Pods that start when they are created, as copies of a Job's template, get a grace period if they ask for none.
    Those that wait first get theirs with their gate.

    Muster gives one to the pods that it makes of Volcano Jobs, which a selector leaves out: a policy copies each pod
    that it looks at. A guard keeps their label from the templates of other Jobs.
    """
    name = "muster-grace-period"
    condition = {"name": "asks-for-none", "expression": _VANISHES}
    copied = [
        {"key": RELEASED, "operator": "In", "values": ["true"]},
        {"key": JOB_NAME, "operator": "DoesNotExist"},
    ]
    return [
        _policy(name, PODS, ["CREATE"], _least_grace(), conditions=[condition]),
        binding(name, name, {"objectSelector": {"matchExpressions": copied}}),
    ]


def _never_preempting(options: PolicyOptions) -> list[Document]:
    """Pods of queues keep their class, and have no others removed by the scheduler: which work is evicted is decided by
    the queues. Else the scheduler removes the work of others that stands against a pod's anti-affinity.

    The API server compares a pod's ``preemptionPolicy`` with that of its class (admission plugin ``Priority``). After a
    policy changed a pod, it asks its own plugins once more, and then the policies a second and last time. So the first
    time the pod is only marked, and the second time it gets its preemption policy and loses the mark.

    One binding for all pods: labels that other policies add would have another binding match the second time.
    """
    name, at = "muster-never-preempt", f"/metadata/annotations/{escaped(_NEVER_NEXT)}"
    marked = f"{annotation(_NEVER_NEXT)} != ''"
    gated = f"namespaceObject.metadata.?labels[?{text(GATED_NAMESPACE)}].orValue('') == 'true'"
    in_queue = (
        f"{label(QUEUE_LABEL)} != '' || {_pod_of_volcano(options)} || {gated}"
        f" || ({label(KUEUE_QUEUE)} != '' && {understands_kueue()})"
    )
    mark = join(map_exists("object", "", "annotations"), add(at, "'true'"))
    never = join(remove(at), add("/spec/preemptionPolicy", "'Never'"))
    patches = f"({marked} ? {never} : {only_if(in_queue, mark)})"
    preempts = {
        "name": "preempts-by-its-class",
        "expression": f"({_HAS_CLASS} && {_PREEMPTS}) || {label(KUEUE_PRIORITY)} != ''",
    }
    ordinary = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}
    return [
        _policy(name, PODS, ["CREATE"], patches, conditions=[preempts]),
        binding(name, name, {"namespaceSelector": {"matchExpressions": [ordinary]}}),
    ]


def _gated_namespaces() -> list[Document]:
    """Everything waits in a namespace that names a queue, unless its label says otherwise."""
    names_queue = f"{annotation(QUEUE_LABEL)} != '' || {annotation(QUEUE_ANNOTATION)} != ''"
    expression = f"({names_queue}) && {label(GATED_NAMESPACE)} == '' && object.metadata.name != 'kube-system'"
    condition = {"name": "names-a-queue", "expression": expression}
    patches = join(
        map_exists("object", "", "labels"), add(f"/metadata/labels/{escaped(GATED_NAMESPACE)}", "'true'")
    )
    name = "muster-gate-namespaces"
    return [
        _policy(name, NAMESPACES, ["CREATE", "UPDATE"], patches, conditions=[condition]),
        binding(name, name, {}),
    ]


def _policy(
    name: str,
    kind: ApiResource,
    operations: Sequence[str],
    patches: str,
    *,
    conditions: Sequence[Document] = (),
) -> Document:
    return policy(name, [kind.rule(operations)], patches, conditions=conditions)


# -- expressions --------------------------------------------------------------------------------------------


def by_job_controller(options: PolicyOptions) -> str:
    """Whether the request comes from a controller that copies templates of Jobs into pods, or from Muster."""
    of_a_job = (
        "object.metadata.?ownerReferences.orValue([])"
        ".exists(o, o.kind == 'Job' && o.apiVersion == 'batch/v1' && o.?controller.orValue(false))"
    )
    user = "request.userInfo.username"
    return (
        f"({user} in {texts([options.identity, JOB_CONTROLLER])}"
        f" || ({user} == {text(CONTROLLER_MANAGER)} && {of_a_job}))"
    )


def has_gate(of: str) -> str:
    """Whether a pod carries Muster's gate."""
    return f"{of}.spec.?schedulingGates.orValue([]).exists(g, g.name == {text(GATE)})"


def _pod_patches(options: PolicyOptions) -> str:
    """Gate, mark, name the queue (unless in a group, which has one), rename the scheduler, have it end in its own
    time, note who asked."""
    gates = "object.spec.?schedulingGates.orValue([])"
    gate = f"{{'name': {text(GATE)}}}"
    return join(
        only_if(f"size({gates}) == 0", add("/spec/schedulingGates", f"[{gate}]")),
        only_if(
            f"size({gates}) > 0 && !{gates}.exists(g, g.name == {text(GATE)})",
            add("/spec/schedulingGates/-", gate),
        ),
        map_exists("object", "", "labels"),
        add(f"/metadata/labels/{escaped(RELEASED)}", "'false'"),
        only_if(
            f"{label(QUEUE_LABEL)} == '' && !{_IN_A_GROUP}",
            add(f"/metadata/labels/{escaped(QUEUE_LABEL)}", queue_of("object")),
        ),
        _scheduler("object.spec", "/spec", options),
        only_if(_VANISHES, _least_grace()),
        _note_requester(options),
    )


def _job_patches(options: PolicyOptions) -> str:
    """Suspend, name the queue on the Job and on its pods, which makes those wait too, note who asked."""
    template, at = "object.spec.template", "/spec/template"
    queue = f"({label(QUEUE_LABEL)} != '' ? {label(QUEUE_LABEL)} : {queue_of('object')})"
    return join(
        add("/spec/suspend", "true"),
        _replace_late(),
        map_exists("object", "", "labels"),
        add(f"/metadata/labels/{escaped(QUEUE_LABEL)}", queue),
        map_exists(template, at, "labels"),
        add(f"{at}/metadata/labels/{escaped(QUEUE_LABEL)}", queue),
        # Anything else in its place is refused by the guard.
        only_if(
            f"{label(RELEASED, template)} == ''",
            add(f"{at}/metadata/labels/{escaped(RELEASED)}", "'false'"),
        ),
        _scheduler(f"{template}.spec", f"{at}/spec", options),
        _note_requester(options),
        noted_suspension(SUSPENDED),
        map_exists(template, at, "annotations"),
        add(f"{at}/metadata/annotations/{escaped(USER)}", "request.userInfo.username"),
    )


def _complete_pod(options: PolicyOptions) -> str:
    """Whether the patches of a pod would change nothing."""
    waits = f"{has_gate('object')} && {label(RELEASED)} == 'false' && ({label(QUEUE_LABEL)} != '' || {_IN_A_GROUP})"
    return f"{waits} && !{_is_renamed('object.spec', options)} && !({_VANISHES}) && {_is_signed(options)}"


def _complete_job(options: PolicyOptions) -> str:
    """Whether the patches of a Job would change nothing."""
    template = "object.spec.template"
    waits = f"object.spec.?suspend.orValue(false) && {label(QUEUE_LABEL)} != ''"
    marked = f"{label(QUEUE_LABEL, template)} == {label(QUEUE_LABEL)} && {label(RELEASED, template)} != ''"
    signed = f"{_is_signed(options)} && {annotation(USER, template)} == request.userInfo.username"
    waits = f"{waits} && {_REPLACES_LATE}"
    return f"{waits} && {marked} && !{_is_renamed(f'{template}.spec', options)} && {signed}"


def _replace_late() -> str:
    return add("/spec/podReplacementPolicy", "'Failed'")


def _least_grace() -> str:
    return add("/spec/terminationGracePeriodSeconds", "1")


def _scheduler(of: str, at: str, options: PolicyOptions) -> str:
    return only_if(_is_renamed(of, options), add(f"{at}/schedulerName", text(options.scheduler)))


def _is_renamed(of: str, options: PolicyOptions) -> str:
    """Whether a scheduler is to be replaced."""
    return f"({of}.?schedulerName.orValue('') in {texts(options.aliases)})"


def _note_requester(options: PolicyOptions) -> str:
    """Overwritten in requests of all but the copiers, so that no user can sign with another user's name."""
    return join(
        map_exists("object", "", "annotations"),
        only_if(
            f"!({_is_copied(options)})",
            add(f"/metadata/annotations/{escaped(USER)}", "request.userInfo.username"),
        ),
    )


def _note_queue() -> str:
    """Store the queue of a Volcano Job or a PodGroup, as ``queues.api.validation.defaults.queue_named`` has it: the
    default of the namespace may become another one."""
    inherited = [
        f"namespaceObject.metadata.?annotations[?{text(key)}]" for key in (QUEUE_LABEL, QUEUE_ANNOTATION)
    ]
    named = f"{_WRITTEN_QUEUE} in ['', {text(DEFAULT_QUEUE)}]"
    fallback = (
        f"object.metadata.?annotations[?{text(QUEUE_ANNOTATION)}].or({inherited[0]}).or({inherited[1]})"
    )
    queue = (
        f"({label(QUEUE_LABEL)} != '' ? {label(QUEUE_LABEL)}"
        f" : {named} ? {fallback}.orValue({text(DEFAULT_QUEUE)}) : {_WRITTEN_QUEUE})"
    )
    return join(only_if("!has(object.spec)", add("/spec", "{}")), add("/spec/queue", queue))


def _is_copied(options: PolicyOptions) -> str:
    return f"{annotation(USER)} != '' && {by_job_controller(options)}"


def _is_signed(options: PolicyOptions) -> str:
    return f"({annotation(USER)} == request.userInfo.username || ({_is_copied(options)}))"


def _changed_by_patch() -> str:
    """The user who changed the spec last, and why. Changes of metadata keep both, whatever they write."""
    kept = "request.operation == 'UPDATE' && object.?spec == oldObject.?spec"
    value = f"({kept} ? {annotation(CHANGED_BY, 'oldObject')} : request.userInfo.username)"
    given, before = annotation(CHANGE_REASON), annotation(CHANGE_REASON, "oldObject")
    at = f"/metadata/annotations/{escaped(CHANGE_REASON)}"
    # A reason that a change of the spec leaves as it was belongs to the change before, perhaps of another user.
    left_over = f"request.operation == 'UPDATE' && object.?spec != oldObject.?spec && {given} == {before}"
    restored = f"{kept} && {given} != {before}"
    return join(
        map_exists("object", "", "annotations"),
        add(f"/metadata/annotations/{escaped(CHANGED_BY)}", value),
        only_if(f"{given} != '' && ({left_over} || ({restored} && {before} == ''))", remove(at)),
        only_if(f"{restored} && {before} != ''", add(at, before)),
    )


def _of_tenant_patch() -> str:
    """Whether who stated what a Reservation keeps is no platform administrator: whatever they write there themselves.

    Changes of metadata keep it.
    """
    kept = "request.operation == 'UPDATE' && object.?spec == oldObject.?spec"
    stated = f"({MAY_ADMINISTER} ? 'false' : 'true')"
    value = f"({kept} ? {annotation(OF_TENANT, 'oldObject')} : {stated})"
    return join(
        map_exists("object", "", "annotations"),
        add(f"/metadata/annotations/{escaped(OF_TENANT)}", value),
    )


def _pod_of_volcano(options: PolicyOptions) -> str:
    """A pod that waits without a queue of Muster's on it or on its namespace."""
    return f"{_of_volcano('object', options)} || {has_gate('object')}"


def _of_volcano(of: str, options: PolicyOptions) -> str:
    """Asks for an aliased scheduler; or for ours, and names a Volcano queue or group."""
    keys = texts([QUEUE_ANNOTATION, GROUP_ANNOTATION, GROUP_ANNOTATION_VOLCANO])
    named = (
        f"({of}.metadata.?annotations.orValue({{}}).exists(k, k in {keys})"
        f" || {label(QUEUE_ANNOTATION, of)} != '')"
    )
    scheduler = f"{of}.spec.?schedulerName.orValue({text(options.scheduler)})"
    return (
        f"({scheduler} in {texts(options.aliases)} || ({scheduler} == {text(options.scheduler)} && {named}))"
    )
