"""The validating half of the admission policies: only Muster ends the waiting, and only it signs.

Pure: options in, documents out. Other users may neither take the gate off a pod, nor start a Job that
waits, nor write Muster's labels and annotations. The job controller copies these from templates, which are
guarded themselves; other controllers may not, or any Deployment could declare its pods released.
"""

from collections.abc import Callable, Iterable, Sequence

from admission.kube.policies.cel import annotation, label, text
from admission.kube.policies.mutating import PolicyOptions, by_job_controller, not_by, signed_kinds
from queues.api.api_resources import JOBS, PODS, POLICIES, POLICY_BINDINGS, ApiResource, Document
from queues.api.names import (
    ADMISSION_ID,
    DEVICES,
    FINALIZER,
    GATE,
    GROUP_ANNOTATION,
    GROUP_ANNOTATION_VOLCANO,
    QUEUE_LABEL,
    RECREATED_FROM,
    RELEASED,
    SEAT,
    USER,
)

_WHO = "request.userInfo.username"
_CREATED = "request.operation == 'CREATE'"
#: Annotations of pods that name their admission and seat; only Muster may write them.
_SIGNS = (ADMISSION_ID, SEAT, DEVICES, RECREATED_FROM)
#: ``label`` or ``annotation``: (key, of what) → a CEL expression for its value.
_Reader = Callable[[str, str], str]


def validating_policies(options: PolicyOptions) -> list[Document]:
    """The validating policies with their bindings."""
    marked = {"objectSelector": {"matchExpressions": [{"key": RELEASED, "operator": "Exists"}]}}
    queued = {"objectSelector": {"matchExpressions": [{"key": QUEUE_LABEL, "operator": "Exists"}]}}
    documents = [
        *_guard(
            "muster-guard-pods",
            PODS,
            marked,
            _pod_rules(options),
            options,
            _POD_VARIABLES,
            [_not_copied(options)],
        ),
        *_guard("muster-guard-jobs", JOBS, queued, _job_rules(), options, _JOB_VARIABLES),
    ]
    for name, kind in signed_kinds():
        signed = [_unchanged("Annotation", USER, annotation)]
        documents += _guard(f"muster-guard-{name}", kind, {}, signed, options)
    return documents


def _guard(
    name: str,
    kind: ApiResource,
    selector: Document,
    rules: Iterable[Document],
    options: PolicyOptions,
    variables: Sequence[Document] = (),
    conditions: Sequence[Document] = (),
) -> list[Document]:
    operations = ["CREATE", "UPDATE"] if selector else ["UPDATE"]
    spec: Document = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            # On update the selector looks at the old object as well: dropping the label is no way out.
            "resourceRules": [kind.rule(operations)],
            **selector,
        },
        "matchConditions": [not_by(options.identity), *conditions],
        **({"variables": list(variables)} if variables else {}),
        "validations": list(rules),
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    return [POLICIES[1].document(name, spec=spec), POLICY_BINDINGS[1].document(name, spec=binding)]


def _rule(expression: str, message: str) -> Document:
    """``message`` is CEL: found, expected, what to do. The plain one is used should CEL fail."""
    return {
        "expression": expression,
        "messageExpression": message,
        "message": "Only Muster may do this: it would release what waits in a queue.",
        "reason": "Forbidden",
    }


def _unchanged(what: str, key: str, read: _Reader, of: str = "") -> Document:
    """A label or annotation keeps its value on update. ``of``: ``.spec.template`` for a pod template's."""
    now, before = read(key, f"object{of}"), read(key, f"oldObject{of}")
    place = " of the pod template" if of else ""
    return _rule(
        f"{_CREATED} || {now} == {before}",
        f"'{what} {key}{place}: found ' + {_shown(now)} + ' written by ' + {_WHO}"
        f" + ', expected ' + {_shown(before)} + ', which only Muster writes. Leave it as it is.'",
    )


def _shown(value: str) -> str:
    return f"({value} == '' ? 'none' : '\"' + {value} + '\"')"


# -- pods ---------------------------------------------------------------------------------------------------

_POD_VARIABLES = (
    {
        "name": "gated",
        "expression": f"object.spec.?schedulingGates.orValue([]).exists(g, g.name == {text(GATE)})",
    },
    {
        "name": "wasGated",
        "expression": f"oldObject != null && "
        f"oldObject.spec.?schedulingGates.orValue([]).exists(g, g.name == {text(GATE)})",
    },
)


def _not_copied(options: PolicyOptions) -> Document:
    """Pods of released Jobs as they are made are in order; asking the rules about each costs a millisecond."""
    copied = f"{_CREATED} && {label(RELEASED)} == 'true' && {by_job_controller(options)}"
    return {"name": "not-copied-from-a-released-template", "expression": f"!({copied})"}


def _pod_rules(options: PolicyOptions) -> list[Document]:
    released = label(RELEASED)
    copied = f"({by_job_controller(options)} && {released} == 'true')"
    unsigned = " && ".join(f"{annotation(key)} == ''" for key in _SIGNS)
    rules = [
        _rule(
            f"!({_CREATED}) || variables.gated || {copied}",
            f"'Pod with label {RELEASED}: found \"' + {released} + '\" and no scheduling gate, created by '"
            f" + {_WHO} + '; expected no such label, which only Muster writes."
            f" Remove it and name a queue by label {QUEUE_LABEL}.'",
        ),
        _rule(
            f"!({_CREATED}) || {copied} || ({unsigned})",
            f"'Annotations {', '.join(_SIGNS)}: found on a pod created by ' + {_WHO}"
            f" + '; expected none, only Muster writes them. Remove them.'",
        ),
        _rule(
            "!variables.wasGated || variables.gated",
            f"'Scheduling gate {GATE}: found removed by ' + {_WHO}"
            f" + '; expected it to stay until Muster releases the pod."
            f" Wait, or delete the pod; `kubectl muster explain` tells what it waits for.'",
        ),
        _rule(
            f"{_CREATED} || !('{FINALIZER}' in oldObject.metadata.?finalizers.orValue([]))"
            f" || '{FINALIZER}' in object.metadata.?finalizers.orValue([])",
            f"'Finalizer {FINALIZER}: found removed by ' + {_WHO}"
            f" + '; expected it to stay until Muster has stored how the pod ended. Wait a moment.'",
        ),
        _unchanged("Label", RELEASED, label),
        *(_unchanged("Annotation", key, annotation) for key in (*_SIGNS, USER)),
    ]
    for what, key, read in (
        ("Label", QUEUE_LABEL, label),
        ("Annotation", GROUP_ANNOTATION, annotation),
        ("Annotation", GROUP_ANNOTATION_VOLCANO, annotation),
    ):
        now, before = read(key, "object"), read(key, "oldObject")
        rules.append(
            _rule(
                f"{_CREATED} || {now} == {before} || (variables.gated && {now} != '')",
                f"'{what} {key}: found ' + {_shown(now)} + ', expected ' + {_shown(before)}"
                f" + '; a pod may move to another queue or group only while it waits, and leave none."
                f" Delete the pod and create it again.'",
            )
        )
    return rules


# -- Jobs ---------------------------------------------------------------------------------------------------

_JOB_VARIABLES = (
    {"name": "suspended", "expression": "object.spec.?suspend.orValue(false)"},
    {"name": "wasSuspended", "expression": "oldObject != null && oldObject.spec.?suspend.orValue(false)"},
)


def _job_rules() -> list[Document]:
    of = ".spec.template"
    released = label(RELEASED, f"object{of}")
    queue = label(QUEUE_LABEL)
    pods, pods_before = "object.spec.?parallelism.orValue(1)", "oldObject.spec.?parallelism.orValue(1)"
    signs = [annotation(key, f"object{of}") + " == ''" for key in _SIGNS]
    return [
        _rule(
            f"!({_CREATED}) || ({released} != 'true' && {' && '.join(signs)})",
            f"'The pod template has label {RELEASED} or annotation {' or '.join(_SIGNS)}, written by '"
            f" + {_WHO} + '; expected none, only Muster writes them. Remove them.'",
        ),
        _rule(
            "variables.suspended || !variables.wasSuspended",
            f"'spec.suspend: found false written by ' + {_WHO} + ', expected true until Muster admits the Job"
            f" to queue \"' + {queue} + '\". Wait; `kubectl muster explain` tells what it waits for.'",
        ),
        *(
            _rule(
                f"{_CREATED} || {now} == {before} || (variables.suspended && {now} != '')",
                f"'Label {QUEUE_LABEL}{place}: found ' + {_shown(now)} + ', expected ' + {_shown(before)}"
                f" + '; a Job may move to another queue only while it is suspended, and leave none."
                f" Delete the Job and create it again.'",
            )
            for place, now, before in (
                ("", queue, label(QUEUE_LABEL, "oldObject")),
                (
                    " of the pod template",
                    label(QUEUE_LABEL, f"object{of}"),
                    label(QUEUE_LABEL, f"oldObject{of}"),
                ),
            )
        ),
        _rule(
            f"{_CREATED} || {released} != 'true' || variables.suspended || {pods} <= {pods_before}",
            f"'spec.parallelism: found ' + string({pods})"
            f" + ', expected at most ' + string({pods_before})"
            f" + ': the Job is admitted with so many seats. Create another Job for more.'",
        ),
        _unchanged("Annotation", USER, annotation),
        _unchanged("Label", RELEASED, label, of),
        *(_unchanged("Annotation", key, annotation, of) for key in (*_SIGNS, USER)),
    ]
