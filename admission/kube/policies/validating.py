"""The validating half of the admission policies: only Muster ends the waiting, and only it signs.

Pure: options in, documents out. Other users may neither take the gate off a pod, nor start a Job that
waits, nor write Muster's labels and annotations, on any kind of object that has pods. The job controller copies
these from templates, which are guarded themselves; other controllers may not, or any Deployment could declare its
pods released.
"""

from admission.kube.policies.cel import annotation
from admission.kube.policies.guards.jobs import job_guards
from admission.kube.policies.guards.operators import operator_guards
from admission.kube.policies.guards.owners import owner_guards
from admission.kube.policies.guards.pods import pod_guards
from admission.kube.policies.guards.rules import guard, rule, shown
from admission.kube.policies.guards.train_jobs import train_job_guards
from admission.kube.policies.guards.volcano import volcano_guards
from admission.kube.policies.mutating import PolicyOptions
from queues.api.api_resources import NAMESPACES, Document
from queues.api.names import ADOPT, ADOPT_UNTIL

#: RFC 3339, in UTC.
_TIME = "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"


def validating_policies(options: PolicyOptions) -> list[Document]:
    """The validating policies with their bindings."""
    return [
        *pod_guards(options),
        *job_guards(options),
        *volcano_guards(options),
        *operator_guards(options),
        *train_job_guards(options),
        *owner_guards(options),
        *_namespace_guard(options),
    ]


def _namespace_guard(options: PolicyOptions) -> list[Document]:
    """A namespace with running pods to be adopted says until when."""
    mode, until = annotation(ADOPT), annotation(ADOPT_UNTIL)
    has_an_end = rule(
        f"{mode} == 'false' || ({mode} == 'true' && {until}.matches('{_TIME}'))",
        f"'Annotation {ADOPT}: found ' + {shown(mode)} + ' with {ADOPT_UNTIL} ' + {shown(until)}"
        f" + ', expected \"true\" with a time such as 2026-12-31T18:00:00Z, when the adoption ends.'",
    )
    mode_before, until_before = annotation(ADOPT, "oldObject"), annotation(ADOPT_UNTIL, "oldObject")
    news = f"oldObject == null || {mode} != {mode_before} || {until} != {until_before}"
    return guard(
        "muster-guard-namespaces",
        [NAMESPACES.rule(["CREATE", "UPDATE"])],
        [has_an_end],
        options,
        concerns=f"{mode} != '' && ({news})",
    )
