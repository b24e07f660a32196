"""Guards of kinds of other projects that wait by a field that suspends them: only Muster resumes them. Pure."""

from admission.kube.policies.cel import label
from admission.kube.policies.guard_rules import CREATED, WHO, guard, rule, shown
from admission.kube.policies.mutating import PolicyOptions
from admission.kube.policies.operators import GROUPS, is_part, kinds_by, suspended
from admission.workloads.kinds.operators.json_parts import Path
from queues.api.api_resources import Document
from queues.api.names import QUEUE_LABEL


def operator_guards(options: PolicyOptions) -> list[Document]:
    """The policies with their bindings."""
    return [document for noun, path in GROUPS.items() for document in _guards(noun, path, options)]


def _guards(noun: str, path: Path, options: PolicyOptions) -> list[Document]:
    now, before = label(QUEUE_LABEL), f"(oldObject == null ? '' : {label(QUEUE_LABEL, 'oldObject')})"
    held, was_held = suspended("object", path), suspended("oldObject", path)
    field = ".".join(path)
    return guard(
        f"muster-guard-{noun}",
        [each.resource.rule(["CREATE", "UPDATE"]) for each in kinds_by(path)],
        [
            rule(
                f"{held} || (!({CREATED}) && !{was_held})",
                f"'{field}: found false written by ' + {WHO} + ', expected true until Muster admits the object to"
                f" queue \"' + {now} + '\". Wait; `kubectl muster explain` tells what it waits for.'",
            ),
            rule(
                f"{CREATED} || {now} == {before} || ({held} && {now} != '')",
                f"'Label {QUEUE_LABEL}: found ' + {shown(now)} + ', expected ' + {shown(before)}"
                f" + '; it may move to another queue only while it is suspended, and leave none."
                f" Delete the object and create it again.'",
            ),
        ],
        options,
        concerns=f"({now} != '' || {before} != '') && !({is_part()})",
    )
