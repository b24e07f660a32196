"""``kubectl muster run``: make a Job of equal pods."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import click

from admission.cli.access.objects import path_of, send_with_warnings
from admission.cli.access.requests import Route
from admission.cli.access.workload_objects import find_workloads
from admission.cli.names import full_resource, kind_named
from admission.cli.options import AMOUNTS, PRIORITY_CLASS, QUEUE, WORKLOAD, amounts, cluster, namespace
from admission.cli.rendering.terminal import say, warn
from admission.cli.times import LastingTime
from queues.api.api_resources import JOBS, PODS, VOLCANO_JOBS, ApiResource, Document
from queues.api.names import AFTER, DEFAULT_QUEUE, GROUP_MIN_MEMBER, QUEUE_LABEL, RUN_TIME, VOLCANO_SCHEDULER
from queues.text_format import span

#: A pod that its node loses, or that is evicted, is no failure of its index: another one is made.
_LOST_PODS: Final = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}

#: The shell ends with the connection.
_AT_A_TERMINAL: Final = {"stdin": True, "stdinOnce": True, "tty": True}
#: How long a pod with a shell may run, unless --time says otherwise.
_SHELL_SECONDS: Final = 7200


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What a user asks to run: equal pods, with one container each."""

    name: str
    image: str
    #: Empty: what the image runs.
    command: tuple[str, ...]
    queue: str
    replicas: int
    #: Pods that must start together; None for all.
    minimum: int | None
    #: Amounts of each pod, by whole name.
    limits: Mapping[str, str]
    requests: Mapping[str, str]
    #: Seconds after which each pod is ended; None for no limit.
    time: int | None
    priority_class: str | None
    #: Indexes of an array, whose pods start one by one; None for a gang.
    array: int | None
    #: Pods of an array that run at the same time.
    at_a_time: int
    #: One pod with a shell.
    interactive: bool
    #: What it comes after, as KIND/NAME, with :ok or :any where that was said.
    after: tuple[str, ...]

    @property
    def resource(self) -> ApiResource:
        """The kind of the object that is made."""
        return PODS if self.interactive else VOLCANO_JOBS if self.array is None else JOBS

    def __str__(self) -> str:
        kinds = {PODS: "pod", JOBS: "job", VOLCANO_JOBS: "vcjob"}
        return f"{kinds[self.resource]}/{self.name}"

    def run_time(self) -> int | None:
        """Seconds that all of it takes at most once it runs; None if they are not known."""
        return self.time and self.time * -(-(self.array or 1) // self.at_a_time)


class _ArraySize(click.IntRange):
    """Pods of an array; Slurm's indexes, such as 0-199%20, are answered with what says the same."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number. Raises BadParameter: found, and expected."""
        if isinstance(value, str) and not value.isdigit():
            expected = "how many pods, such as 200 for 0-199; of 0-199%20 the 20 are --at-a-time 20"
            self.fail(f"found {value[:60]!r}, expected {expected}.", param, ctx)
        return super().convert(value, param, ctx)


@click.command(short_help="Make a Job of equal pods.")
@click.argument("name")
@click.option("-i", "--image", required=True, help="Image of the only container.")
@click.option("-r", "--replicas", type=click.IntRange(1), help="Pods [1].")
@click.option("-m", "--min", "minimum", type=click.IntRange(1), help="Pods that must start together [all].")
@click.option("--array", type=_ArraySize(1, 100_000), metavar="N", help="N pods that start one by one.")
@click.option(
    "--at-a-time", type=click.IntRange(1), metavar="M", help="Of an array: pods that run at once [N]."
)
@click.option("--gpus-per-pod", type=click.IntRange(1), metavar="N", help="As --limits nvidia.com/gpu=N.")
@click.option("-L", "--limits", metavar=AMOUNTS, help="Of each pod: nvidia.com/gpu=8,memory=64Gi.")
@click.option("-R", "--requests", metavar=AMOUNTS, help="Of each pod, where they are less than its limits.")
@click.option("-q", "--queue", default=DEFAULT_QUEUE, show_default=True, type=QUEUE, help="Its queue.")
@click.option(
    "--time",
    type=LastingTime(),
    metavar="DURATION",
    help="How long each pod may run; then it is ended, and has failed: 90m, 4h, 2d. Short work may pass gangs that"
    " wait.",
)
@click.option(
    "--interactive", is_flag=True, help="One pod with a shell, for --time [2h]; its end deletes the pod."
)
@click.option(
    "--after",
    type=WORKLOAD,
    multiple=True,
    metavar="[KIND/]NAME[:ok|any]",
    help="Wait until this has succeeded; with :any, until it has ended.",
)
@click.option("--priority", metavar="CLASS", type=PRIORITY_CLASS, help="Its priority class.")
@click.option(
    "--dry-run",
    is_flag=False,
    flag_value="client",
    type=click.Choice(["client", "server"]),
    help="Make nothing, and print the document; server: as the API server would store it.",
)
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), help="Print the document that is made.")
@click.argument("command", metavar="[-- COMMAND…]", nargs=-1)
@namespace
@cluster
def run(namespace: str | None, route: Route, dry_run: str | None, output: str | None, **given: Any) -> int:
    """Make a Job NAME of equal pods, with one container each.

    They start together, or none of them (a Volcano Job). With --array each starts when it has a place (an Indexed Job):
    JOB_COMPLETION_INDEX in its environment is its number, from 0, and one that fails does not stop the others. What has
    more to say is a document: `kubectl apply -f job.yaml`.

    With --interactive it is a pod whose shell (or COMMAND) is at this terminal once it runs. It is deleted when the
    shell ends, on Ctrl-C while it waits, and five minutes after this command has gone without doing so.
    """
    here = route.namespace(namespace)
    after = tuple(_predecessor(route, here, text) for text in given["after"])
    asked = _submission(**given | {"after": after})
    document = document_of(asked)
    form = output or ("yaml" if dry_run else None)
    if asked.interactive and dry_run is None:
        from admission.cli.plugin.interactive import be_at_shell

        return be_at_shell(route, here, document)
    if dry_run != "client":
        options = {"dryRun": "All"} if dry_run else {}
        tried, path = f"Creation of {asked}", path_of(asked.resource, here)
        document, warnings = send_with_warnings(route, "POST", path, document, tried=tried, **options)
        for warning in warnings:
            warn(warning)
        if asked.resource is VOLCANO_JOBS and asked.replicas > 1 and "it never fits" in "".join(warnings):
            it = f"--array {asked.replicas} --at-a-time M"
            warn(f"{it} in place of --replicas starts each pod when it has a place, at most M at a time")
    if form is not None:
        click.echo(_written(document, form))
    else:
        say(f"{asked} created; `kubectl muster explain {asked.name} -n {here}` tells how it is")
    return 0


def _submission(
    *,
    replicas: int | None,
    array: int | None,
    at_a_time: int | None,
    gpus_per_pod: int | None,
    limits: str | None,
    requests: str | None,
    time: str | None,
    priority: str | None,
    **given: Any,
) -> Submission:
    """What the options ask for. Raises UsageError if they contradict one another."""
    if array is None and at_a_time is not None:
        raise click.UsageError("--at-a-time M is of an array: expected --array N as well.")
    if array is not None and (replicas or given["minimum"]):
        raise click.UsageError(
            "--array N makes N pods that start one by one: leave --replicas and --min out."
        )
    if given["interactive"] and (array or replicas or given["minimum"]):
        raise click.UsageError("--interactive makes one pod: leave --array, --replicas and --min out.")
    usual = _SHELL_SECONDS if given["interactive"] else None
    return Submission(
        **given,
        replicas=replicas or 1,
        limits=_with_gpus(amounts("--limits", limits), gpus_per_pod),
        requests=amounts("--requests", requests),
        time=usual if time is None else int(time.removesuffix("s")),
        priority_class=priority,
        array=array,
        at_a_time=min(at_a_time or array or 1, array or 1),
    )


def _predecessor(route: Route, namespace: str, text: str) -> str:
    """What --after names, with its kind. Raises UsageError, and CommandFailed if a NAME alone is not unique."""
    named, _, end = text.partition(":")
    kind, _, name = named.rpartition("/")
    if not name or end not in ("", "ok", "any"):
        expected = "KIND/NAME or NAME, with :ok or :any where wanted, such as job/train:any"
        raise click.UsageError(f"--after: found {text!r}, expected {expected}.")
    if kind:  # it may have ended, and be gone
        found = f"{kind_named(kind, name)}/{name}"
    else:
        (found,) = map(str, find_workloads(route, namespace, [name], "run … --after"))
    return f"{found}:{end}" if end else found


def _with_gpus(limits: Mapping[str, str], gpus: int | None) -> Mapping[str, str]:
    if gpus is None:
        return limits
    resource = full_resource("--gpus-per-pod", "gpu")
    if limits.get(resource, str(gpus)) != str(gpus):
        found = f"found --gpus-per-pod {gpus} and --limits {resource}={limits[resource]}"
        raise click.UsageError(f"{found}, expected one of the two, or the same amount.")
    return {**limits, resource: str(gpus)}


def document_of(asked: Submission) -> Document:
    """The document of the object: a Volcano Job whose pods start together, the Indexed Job of an array, or a pod."""
    container: Document = {"name": "main", "image": asked.image}
    said = {"limits": dict(asked.limits), "requests": dict(asked.requests)}
    if resources := {field: amounts for field, amounts in said.items() if amounts}:
        container["resources"] = resources
    if asked.command:
        container["command"] = list(asked.command)
    pod: Document = {"restartPolicy": "Never", "containers": [container]}
    if asked.time is not None:
        pod["activeDeadlineSeconds"] = asked.time
    metadata: Document = {"name": asked.name}
    annotations = {} if (seconds := asked.run_time()) is None else {RUN_TIME: span(seconds)}
    if asked.resource is not VOLCANO_JOBS:
        metadata["labels"] = {QUEUE_LABEL: asked.queue}
        pod |= {"priorityClassName": asked.priority_class} if asked.priority_class else {}
    if asked.interactive:
        spec = pod
        container |= {"command": list(asked.command) or ["/bin/sh"], **_AT_A_TERMINAL}
    elif asked.array is None:
        spec = _gang_spec(asked, pod)
    else:
        spec = _array_spec(asked, pod)
        annotations[GROUP_MIN_MEMBER] = "1"
    if asked.after:
        annotations[AFTER] = ", ".join(asked.after)
    if annotations:
        metadata["annotations"] = annotations
    kind = asked.resource
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}


def _gang_spec(asked: Submission, pod: Document) -> Document:
    return {
        "schedulerName": VOLCANO_SCHEDULER,
        "queue": asked.queue,
        **({"priorityClassName": asked.priority_class} if asked.priority_class else {}),
        "minAvailable": asked.minimum or asked.replicas,
        "tasks": [{"name": "main", "replicas": asked.replicas, "template": {"spec": pod}}],
    }


def _array_spec(asked: Submission, pod: Document) -> Document:
    return {
        "completionMode": "Indexed",
        "completions": asked.array,
        "parallelism": asked.at_a_time,
        "backoffLimitPerIndex": 0,
        "podFailurePolicy": {"rules": [_LOST_PODS]},
        "template": {"spec": pod},
    }


def _written(document: Document, form: str) -> str:
    if form == "json":
        import json

        return json.dumps(document, indent=2, ensure_ascii=False)
    import yaml

    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True).rstrip()
