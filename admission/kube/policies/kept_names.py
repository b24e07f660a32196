"""What Muster wrote on an object stays there when an update does not name it. Pure.

A PUT of a file, and a patch that takes all labels away because the file has none, know nothing of it. To a policy a
removal by name is the same request, so it is undone too. Another value is left for the guards, which refuse it.

What is written in the place of a user's value (the scheduler, whether it preempts, a grace period of 0, that an object
is not suspended, nodes that it may use) is written there again when the same file is applied.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from admission.kube.policies.cel import (
    add,
    annotation,
    has_any,
    join,
    label,
    map_exists,
    only_if,
    remove,
    text,
    texts,
)
from admission.kube.policies.operators import (
    GROUPS,
    MAKERS,
    SUSPENDED,
    is_said,
    kinds_by,
    made_by,
    parents,
    suspended,
    was_made_as_part,
)
from admission.kube.policies.policy_forms import binding, not_by, policy
from admission.workloads.kinds.operators.json_parts import Path
from queues.api.api_resources import (
    JOB_FLOWS,
    JOBS,
    POD_GROUPS,
    PODS,
    TRAIN_JOBS,
    VOLCANO_CRON_JOBS,
    VOLCANO_JOBS,
    ApiResource,
    Document,
)
from queues.api.json_patch import escaped
from queues.api.names import (
    ADMISSION_ID,
    CREATED_SUSPENDED,
    DEVICES,
    FINALIZER,
    HOLD,
    QUEUE_LABEL,
    RECREATED_FROM,
    RELEASED,
    SEAT,
    USER,
)
from queues.api.node_affinity import REQUIRED

#: Annotations and labels that Muster writes on workloads and pods.
_ANNOTATIONS: Final = (USER, ADMISSION_ID, SEAT, DEVICES, RECREATED_FROM, CREATED_SUSPENDED, HOLD)
_LABELS: Final = (QUEUE_LABEL, RELEASED)
_QUEUE: Final = "object.?spec.?queue.orValue('')"
_QUEUE_BEFORE: Final = "oldObject.?spec.?queue.orValue('')"


#: When something was lost, and the patches that restore it.
_Lost = tuple[str, str]


def keeping_policies(identity: str, scheduler: str, aliases: Sequence[str]) -> list[Document]:
    """The policies with their bindings. ``identity``: Muster's user name; ``scheduler``: what ``aliases`` stand for."""

    def renamed(spec: str) -> _Lost:
        """The scheduler of a pod spec was replaced at creation."""
        was = f"oldObject.{spec}.?schedulerName.orValue('') == {text(scheduler)}"
        return _rewritten(
            spec, "schedulerName", f"object.{spec}.?schedulerName.orValue('') in {texts(aliases)} && {was}"
        )

    return [
        *_documents("muster-keep", [VOLCANO_CRON_JOBS, JOB_FLOWS], identity),
        *_documents(
            "muster-keep-jobs",
            [JOBS],
            identity,
            renamed("spec.template.spec"),
            _kept_nodes("spec.template.spec", "spec.template.metadata"),
            _copied_label(),
            _kept_suspended(SUSPENDED, of_a_queue=f"!{made_by(MAKERS, 'oldObject')}"),
        ),
        *_documents(
            "muster-keep-pods",
            [PODS],
            identity,
            (_finalizer_lost(), _restored_finalizer()),
            renamed("spec"),
            _kept_nodes("spec", "metadata"),
            _kept_preemption(),
            _kept_grace(),
        ),
        *_documents("muster-keep-vcjobs", [VOLCANO_JOBS], identity, _kept_queue(("''", "'default'"))),
        *_documents("muster-keep-podgroups", [POD_GROUPS], identity, _kept_queue(("''",))),
        *(
            document
            for noun, path in GROUPS.items()
            for document in _documents(
                f"muster-keep-{noun}",
                [description.resource for description in kinds_by(path)],
                identity,
                _kept_suspended(path, of_a_queue=f"!{was_made_as_part()}"),
            )
        ),
        *_documents("muster-keep-train-jobs", [TRAIN_JOBS], identity, _kept_suspended(SUSPENDED)),
    ]


def _documents(name: str, kinds: Sequence[ApiResource], identity: str, *also: _Lost) -> Iterator[Document]:
    """One policy with its binding. ``also``: what else may be lost."""
    lost = [_lost(field, keys) for field, keys in (("annotations", _ANNOTATIONS), ("labels", _LABELS))]
    conditions = [
        not_by(identity),
        {"name": "lost-something", "expression": " || ".join((*lost, *(each for each, _ in also)))},
    ]
    patches = join(
        *_restored("annotations", _ANNOTATIONS),
        *_restored("labels", _LABELS),
        *(only_if(condition, restored) for condition, restored in also),
    )
    yield policy(name, [kind.rule(["UPDATE"]) for kind in kinds], patches, conditions=conditions)
    yield binding(name, name, {})


def _lost(field: str, keys: Sequence[str]) -> str:
    missing = " || ".join(_is_missing(field, key) for key in keys)
    marked = has_any("oldObject", **{field: keys})
    return f"({marked} && ({missing}))"


def _is_missing(field: str, key: str) -> str:
    read = label if field == "labels" else annotation
    return f"({read(key, 'oldObject')} != '' && {read(key)} == '')"


def _restored(field: str, keys: Sequence[str]) -> Iterator[str]:
    read = label if field == "labels" else annotation
    added = [
        only_if(_is_missing(field, key), add(f"/metadata/{field}/{escaped(key)}", read(key, "oldObject")))
        for key in keys
    ]
    yield only_if(_lost(field, keys), join(map_exists("object", "", field), *added))


def _finalizer_lost() -> str:
    finalizers = "metadata.?finalizers.orValue([])"
    return f"({text(FINALIZER)} in oldObject.{finalizers} && !({text(FINALIZER)} in object.{finalizers}))"


def _restored_finalizer() -> str:
    return join(
        only_if("!has(object.metadata.finalizers)", add("/metadata/finalizers", "[]")),
        add("/metadata/finalizers/-", text(FINALIZER)),
    )


def _rewritten(spec: str, field: str, lost: str) -> _Lost:
    """A field of a pod spec that was written in the place of the user's value."""
    at = "/" + spec.replace(".", "/")
    return f"({lost})", add(f"{at}/{field}", f"oldObject.{spec}.{field}")


def _kept_nodes(spec: str, metadata: str) -> _Lost:
    """The nodes of an admission. The terms of the owner stand there once for each node, each with the node as its last
    field, unless it asks nothing."""
    place = ("affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms")
    terms, tied = (
        f"{of}.{spec}{''.join(f'.?{field}' for field in place)}.orValue([])" for of in ("object", "oldObject")
    )
    term, fields = f"{terms}[i % size({terms})]", "e.?matchFields.orValue([])"
    of_node = (
        f"e.?matchExpressions.orValue([]) == {term}.?matchExpressions.orValue([])"
        f" && {fields} == {term}.?matchFields.orValue([])"
        f" + (size({fields}) == 0 ? [] : [{fields}[size({fields}) - 1]])"
    )
    lost = (
        f"(oldObject.{metadata}.?annotations[?{text(ADMISSION_ID)}].orValue('') != ''"
        f" && size({terms}) > 0 && {terms} != {tied} && size({tied}) % size({terms}) == 0"
        f" && {tied}.transformList(i, e, {of_node}).all(same, same))"
    )
    return lost, add("/" + "/".join((*spec.split("."), *place)), tied)


def _copied_label() -> _Lost:
    """A Job without labels gets those of its template from the API server, which say that its pods wait."""
    copied = f"({label(RELEASED)} == 'false' && {label(RELEASED, 'oldObject')} == '')"
    return copied, remove(f"/metadata/labels/{escaped(RELEASED)}")


def _kept_preemption() -> _Lost:
    """Pods in queues preempt none, whatever they say."""
    said = "spec.?preemptionPolicy.orValue('')"
    lost = f"{label(RELEASED, 'oldObject')} != '' && oldObject.{said} == 'Never' && object.{said} != 'Never'"
    return _rewritten("spec", "preemptionPolicy", lost)


def _kept_grace() -> _Lost:
    """The least grace period, of a pod that asks for none."""
    grace = "spec.?terminationGracePeriodSeconds.orValue(1)"
    lost = f"{label(RELEASED, 'oldObject')} != '' && object.{grace} == 0 && oldObject.{grace} == 1"
    return _rewritten("spec", "terminationGracePeriodSeconds", lost)


def _kept_queue(unnamed: Sequence[str]) -> _Lost:
    """The queue that was chosen when the object was created. ``unnamed``: values of ``spec.queue`` that name none."""
    lost = f"({_QUEUE_BEFORE} != '' && {_QUEUE} != {_QUEUE_BEFORE} && {_QUEUE} in [{', '.join(unnamed)}])"
    return lost, add("/spec/queue", _QUEUE_BEFORE)


def _kept_suspended(path: Path, of_a_queue: str = "true") -> _Lost:
    """An object that waits is suspended, whether an update does not say so or a file says ``false``, as at creation.

    What its owner resumes is left to the policies of holds.
    """
    waits = f"{suspended('oldObject', path)} && {label(QUEUE_LABEL, 'oldObject')} != ''"
    resumes = f"({is_said(path)} && {annotation(HOLD, 'oldObject')} == 'true')"
    lost = f"({waits} && !{suspended('object', path)} && !{resumes} && {of_a_queue})"
    return lost, join(*parents(path), add("/" + "/".join(path), "true"))
