"""Names of resources, queues and kinds as people type them: what they mean, and which look alike."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from admission.cli.command_line import CommandFailed
from queues.kind_names import BUILT_IN
from queues.reason_codes import did_you_mean
from queues.text_format import names_alike

if TYPE_CHECKING:
    from admission.cli.access.object_forms import KindSpec


def full_resource(option: str, name: str) -> str:
    """The whole name of a resource: ``gpu`` is nvidia.com/gpu. Raises UsageError: no node can have it.

    ``option``: where it was found.
    """
    from queues.api.resource_names import resource_named

    with names_are_usage():
        return resource_named(option, name)


@contextmanager
def names_are_usage() -> Iterator[None]:
    """Raises UsageError for a resource that no node can have."""
    from queues.api.resource_names import NoSuchResource

    try:
        yield
    except NoSuchResource as error:
        raise click.UsageError(str(error)) from error


def shown_resource(option: str, name: str, there: Iterable[str]) -> str:
    """The whole name of a resource to show. Raises UsageError: no node can have it.

    ``there``: whole names of those there are. One of them may be named by what follows its ``/``: on a cluster whose
    only GPUs are amd.com/gpu these are ``gpu``.
    """
    names = sorted(set(there))
    alike = [each for each in names if each.rpartition("/")[2] == name]
    if name in names or len(alike) == 1:
        return name if name in names else alike[0]
    return full_resource(option, name)


# ── queues ──────────────────────────────────────────────────────────────────────────────────────────────────


#: Names that are shown, of all there are.
_TOLD: Final = 10


class NoSuchQueue(CommandFailed):
    """{found}. {hint}"""


def no_such_queue(name: str, known: Iterable[str]) -> NoSuchQueue:
    """The error for a queue that there is not. ``known``: names that the user may see."""
    return NoSuchQueue(found=f"There is no queue {name[:60]}", hint=queue_hint(name, known))


def queue_hint(name: str, known: Iterable[str]) -> str:
    """What a name may have meant, or else which queues there are."""
    names = sorted(set(known))
    if alike := did_you_mean(names_alike(name, names)):
        return alike
    if not names:
        return "`kubectl muster queues` lists those that you may see."
    more = f" and {len(names) - _TOLD} more: `kubectl muster queues`" if len(names) > _TOLD else ""
    return f"You may see: {', '.join(names[:_TOLD])}{more}."


# ── kinds ───────────────────────────────────────────────────────────────────────────────────────────────────


#: Other names that kubectl knows for kinds.
_SHORT: Final = {
    "jobs.batch.volcano.sh": "vcjob",
    "job.batch": "job",
    "jobs.batch": "job",
    "pg": "podgroup",
    "po": "pod",
    "deploy": "deployment",
    "sts": "statefulset",
    "rs": "replicaset",
    "cj": "cronjob",
}
_SCALED: Final = ("deployment", "replicaset", "statefulset")
#: Kinds of Kubernetes whose pods wait.
_OF_PODS: Final = (
    "its pods wait, `kubectl muster pending --pods` names them; together as podgroup/podgroup-{kind}-{name}"
)
#: What does it for them, by verb and kind; a kind that is not named here has only the sentence above.
_DONE_BY: Final = {
    "cancel": dict.fromkeys((*_SCALED, "cronjob"), "`kubectl delete {it}` removes it"),
    "logs": dict.fromkeys(_SCALED, "`kubectl logs {kind}/{name} -n {namespace} --all-pods` shows its logs"),
    "suspend": {
        **dict.fromkeys(_SCALED, "`kubectl scale {it} --replicas=0` takes its pods away"),
        "cronjob": '`kubectl patch {it} -p \'{{"spec":{{"suspend":true}}}}\'` makes no more Jobs',
    },
    "resume": {
        **dict.fromkeys(_SCALED, "`kubectl scale {it} --replicas=N` makes N pods again"),
        "cronjob": '`kubectl patch {it} -p \'{{"spec":{{"suspend":false}}}}\'` makes Jobs again',
    },
}


def kind_named(named: str, name: str, *, verb: str = "", namespace: str = "NAMESPACE") -> str:
    """The kind that a name of kubectl means, of the workload ``name``. Raises UsageError: its parts are what waits.

    ``verb``: what the user wants done, for what does it then.
    """
    found = _SHORT.get(named.lower(), named.lower())
    kind = _SHORT.get(found.removesuffix("s"), found.removesuffix("s"))
    if kind in BUILT_IN:
        return kind
    waits = _OF_PODS if kind in _SCALED else _passed_on(kind)
    if waits:
        names = {"kind": kind, "name": name, "namespace": namespace, "it": f"{kind} {name} -n {namespace}"}
        said = [each.format_map(names) for each in (waits, _DONE_BY.get(verb, {}).get(kind)) if each]
        raise click.UsageError(f"{named!r} is no kind of workload: {'. '.join(said)}.")
    return kind


def _passed_on(kind: str) -> str:
    """What waits of a kind whose objects hand their queue on; "": it is none."""
    for each in shipped_kinds():
        if each.passes_on and each.resource.kind.lower() == kind:
            return f"{each.waits_as.partition('. ')[0]}. `kubectl muster pending` names what waits"
    return ""


def shipped_kinds() -> "Iterator[KindSpec]":
    """Kinds of other projects, read from their documents without what only the server needs of them."""
    from importlib.resources import files

    import msgspec

    from admission.cli.access.object_forms import KindDocument

    for file in files("queues.api").joinpath("kinds").iterdir():
        if file.name.endswith(".yaml"):
            yield msgspec.yaml.decode(file.read_bytes(), type=KindDocument).spec
