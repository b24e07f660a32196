"""Policies for TrainJobs (trainer.kubeflow.org), which wait as the JobSets that their operator makes of them. Pure.

What a TrainJob asks for stands in its runtime, in its own patches and in the operator's plugins; the JobSet has all of
it. So the queue of a TrainJob is written into its ``runtimePatches``, by which the operator labels the JobSet, and the
TrainJob is suspended, so that the JobSet is created suspended. Muster admits the JobSet, and resumes both. The operator
makes a JobSet like its TrainJob whenever one of them is suspended: between the two writes of Muster a policy keeps the
JobSet as Muster has it.
"""

from typing import Final

from admission.kube.policies.cel import add, annotation, join, label, map_exists, only_if, text
from admission.kube.policies.operators import SUSPENDED, made_by, suspended
from admission.kube.policies.policy_forms import (
    binding,
    bindings,
    names_queue,
    names_volcano_queue,
    not_by,
    policy,
    queue_of,
)
from queues.api.api_resources import JOB_SETS, TRAIN_JOBS, Document
from queues.api.json_patch import escaped
from queues.api.names import QUEUE_LABEL, USER

#: Who patches the runtime, as the operator wants it said: a domain and a path.
MANAGER: Final = "muster.dev/queue"
_WHO: Final = "request.userInfo.username"
_CREATED: Final = "request.operation == 'CREATE'"
PATCHES: Final = "object.spec.?runtimePatches.orValue([])"
_QUEUE: Final = f"({label(QUEUE_LABEL)} != '' ? {label(QUEUE_LABEL)} : {queue_of('object')})"
_PATCHED: Final = f"{PATCHES}.exists(p, p.?manager.orValue('') == {text(MANAGER)})"
_ENTERS: Final = f"({_CREATED} || !{names_queue('oldObject')})"


def train_job_policies(identity: str) -> list[Document]:
    """The mutating policies with their bindings. ``identity``: Muster's user name."""
    in_queue = f"{label(QUEUE_LABEL)} != '' && {_PATCHED}"
    complete = f"{in_queue} && {suspended('object', SUSPENDED)} && {annotation(USER)} == {_WHO}"
    conditions = [
        not_by(identity),
        {"name": "named-or-new", "expression": f"{_CREATED} || {names_queue('object')}"},
        {
            "name": "not-complete-yet",
            "expression": f"({_ENTERS} && !({complete})) || (!{_ENTERS} && !{_PATCHED})",
        },
    ]
    volcano = {"name": "names-a-queue-of-volcano", "expression": names_volcano_queue("object")}
    rules = [TRAIN_JOBS.rule(["CREATE", "UPDATE"])]
    return [
        policy("muster-train-jobs", rules, _patches(), conditions=conditions),
        policy("muster-train-jobs-volcano", rules, _patches(), conditions=[volcano, *conditions]),
        *bindings("train-jobs", []),
        *_kept_job_sets(identity),
    ]


def _patches() -> str:
    """Suspended, in a queue, signed; and the queue written into the JobSet."""
    told = f"{{'template': {{'metadata': {{'labels': {{{text(QUEUE_LABEL)}: {_QUEUE}}}}}}}}}"
    entry = f"{{'manager': dyn({text(MANAGER)}), 'trainingRuntimeSpec': dyn({told})}}"
    enters = join(
        add("/spec/suspend", "true"),
        map_exists("object", "", "labels"),
        add(f"/metadata/labels/{escaped(QUEUE_LABEL)}", _QUEUE),
        map_exists("object", "", "annotations"),
        add(f"/metadata/annotations/{escaped(USER)}", _WHO),
    )
    return join(
        only_if(_ENTERS, enters),
        only_if("!has(object.spec.runtimePatches)", add("/spec/runtimePatches", "[]")),
        only_if(f"!{_PATCHED}", add("/spec/runtimePatches/-", entry)),
    )


def _kept_job_sets(identity: str) -> list[Document]:
    """The JobSet of a TrainJob is suspended and resumed by Muster alone, and its operator gets no error.

    Nor does the operator take what Muster wrote out of its templates, where it applies late what it saw before.
    """
    now, before = suspended("object", SUSPENDED), suspended("oldObject", SUSPENDED)
    replaced = f"(!({before}) && object.spec.?replicatedJobs != oldObject.spec.?replicatedJobs)"
    conditions = [
        not_by(identity),
        {"name": "of-a-train-job", "expression": made_by([TRAIN_JOBS])},
        {
            "name": "changes-in-a-queue",
            "expression": f"{label(QUEUE_LABEL, 'oldObject')} != '' && ({now} != {before} || {replaced})",
        },
    ]
    patches = join(
        add("/spec/suspend", before),
        only_if(replaced, add("/spec/replicatedJobs", "oldObject.spec.replicatedJobs")),
    )
    name = "muster-keep-job-sets"
    named = {"matchExpressions": [{"key": QUEUE_LABEL, "operator": "Exists"}]}
    return [
        policy(name, [JOB_SETS.rule(["UPDATE"])], patches, conditions=conditions),
        binding(name, name, {"objectSelector": named}),
    ]
