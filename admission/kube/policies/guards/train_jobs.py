"""Guards of TrainJobs: only Muster suspends and resumes one in a queue, and it stays in that queue. Pure."""

from admission.kube.policies.cel import label, text
from admission.kube.policies.guards.rules import WHO, guard, rule, shown
from admission.kube.policies.mutating import PolicyOptions
from admission.kube.policies.operators import SUSPENDED, suspended
from admission.kube.policies.train_jobs import MANAGER, PATCHES
from queues.api.api_resources import TRAIN_JOBS, Document
from queues.api.names import QUEUE_LABEL


def train_job_guards(options: PolicyOptions) -> list[Document]:
    """The policies with their bindings."""
    now, before = label(QUEUE_LABEL), f"(oldObject == null ? '' : {label(QUEUE_LABEL, 'oldObject')})"
    held, was_held = suspended("object", SUSPENDED), suspended("oldObject", SUSPENDED)
    told = f"p.?trainingRuntimeSpec.?template.?metadata.?labels[?{text(QUEUE_LABEL)}].orValue('')"
    mine = f"{PATCHES}.filter(p, p.?manager.orValue('') == {text(MANAGER)})"
    return guard(
        "muster-guard-train-jobs",
        [TRAIN_JOBS.rule(["CREATE", "UPDATE"])],
        [
            rule(
                f"({before} == '' && {held}) || ({before} != '' && {held} == {was_held})",
                f"'spec.suspend: found ' + string({held}) + ' written by ' + {WHO} + ', expected it to stay: Muster"
                f" suspends and resumes a TrainJob in queue \"' + {now} + '\" with its JobSet."
                f" Delete the TrainJob to stop it.'",
            ),
            rule(
                f"{before} == '' || {now} == {before}",
                f"'Label {QUEUE_LABEL}: found ' + {shown(now)} + ', expected ' + {shown(before)}"
                f" + ': a TrainJob stays in its queue. Delete it and create it again.'",
            ),
            rule(
                f"{mine}.all(p, {told} == {now})",
                f"'spec.runtimePatches of manager {MANAGER}: found another queue, expected ' + {shown(now)}"
                f" + ', as the label {QUEUE_LABEL} has it. Leave this entry to Muster.'",
            ),
        ],
        options,
        concerns=f"{now} != '' || {before} != ''",
    )
