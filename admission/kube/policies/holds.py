"""What a user who suspends an object means, or unsuspends it: its owner's hold, which stands in an annotation. Pure.

``spec.suspend`` is what work waits by, and only Muster writes it to resume. When a user suspends what runs, a policy
writes an annotation, by which Muster takes the seats back and does not resume. When the user unsuspends it, the policy
takes that back, and the object stays suspended and waits in its queue. An object that was created suspended is marked:
the same file applied again does not stop what runs.
"""

from collections.abc import Iterator, Sequence

from admission.kube.policies.cel import add, annotation, join, label, map_exists, only_if
from admission.kube.policies.operators import (
    GROUPS,
    MAKERS,
    SUSPENDED,
    is_said,
    kinds_by,
    made_by,
    parents,
    suspended,
)
from admission.kube.policies.policy_forms import binding, not_by, policy
from admission.workloads.kinds.operators.json_parts import Path
from queues.api.api_resources import JOBS, ApiResource, Document
from queues.api.json_patch import escaped
from queues.api.names import CREATED_SUSPENDED, HOLD, QUEUE_LABEL


def hold_policies(identity: str) -> list[Document]:
    """The mutating policies with their bindings. ``identity``: Muster's user name."""
    return [
        *_documents("jobs", [JOBS], SUSPENDED, identity),
        *(
            document
            for noun, path in GROUPS.items()
            for document in _documents(noun, [each.resource for each in kinds_by(path)], path, identity)
        ),
    ]


def _documents(noun: str, kinds: Sequence[ApiResource], path: Path, identity: str) -> Iterator[Document]:
    now, before = suspended("object", path), suspended("oldObject", path)
    always = f"{annotation(CREATED_SUSPENDED)} == 'true'"
    suspends = f"({now} && !{before} && ({always} || {annotation(HOLD)} != 'true'))"
    resumes = f"(!{now} && {before} && {annotation(HOLD, 'oldObject')} == 'true' && {is_said(path)})"
    at, hold = "/" + "/".join(path), f"/metadata/annotations/{escaped(HOLD)}"
    patches = join(
        map_exists("object", "", "annotations"),
        only_if(f"{suspends} && {always}", add(at, "false")),
        only_if(f"{suspends} && !({always})", add(hold, "'true'")),
        only_if(resumes, join(*parents(path), add(at, "true"), add(hold, "'false'"))),
    )
    conditions = [
        not_by(identity),
        {"name": "is-in-a-queue", "expression": f"{label(QUEUE_LABEL, 'oldObject')} != ''"},
        {"name": "no-part-of-another", "expression": f"!{made_by(MAKERS, 'oldObject')}"},
        {"name": "suspends-or-resumes", "expression": f"{suspends} || {resumes}"},
    ]
    name = f"muster-hold-{noun}"
    yield policy(name, [kind.rule(["UPDATE"]) for kind in kinds], patches, conditions=conditions)
    yield binding(name, name, {})
