"""Objects of the cluster, read and changed as the user of the kubeconfig."""

import json
from collections.abc import Callable
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

from admission.cli.access.missing_rights import MissingRight, missing_right
from admission.cli.access.requests import Route, decoded, request
from admission.cli.command_line import UNREACHABLE, CommandFailed
from admission.cli.rendering.terminal import warn
from queues.api.api_resources import COMMANDS, ApiResource, Document
from queues.errors import UnusableName
from queues.text_format import printable

#: Actions of Volcano's Commands, in the words of the command line.
_ACTIONS: Final = {
    "AbortJob": "Suspending",
    "ResumeJob": "Resuming",
    "CloseQueue": "Closing",
    "OpenQueue": "Opening",
}
#: Roles that may ask for actions on objects of a kind.
_ROLES: Final = {"Job": "muster-submitter (part of edit)", "Queue": "muster-queue-admin"}
_NOT_FOUND: Final = 404
_FORBIDDEN: Final = 403
_PATCHES: Final = {"Content-Type": "application/merge-patch+json"}

T = TypeVar("T")


class Refused(CommandFailed):
    """The API server answered with an error."""

    def __init__(
        self, *, status: int, tried: str, found: str, hint: str, lacks: MissingRight | None = None
    ) -> None:
        """``lacks``: the right that the user would need. None if it was refused for something else."""
        super().__init__(tried=tried, found=found, hint=hint)
        self.status = status
        self.lacks = lacks
        #: The server's own words.
        self.found = found


class ObjectNotFound(Refused):
    """There is no such object, or no such kind in the cluster."""


class ObjectForbidden(Refused):
    """The user may not do it."""


#: How the API server says that it could not ask Muster whether a write is allowed.
_WEBHOOK_AWAY: Final = "failed calling webhook"


def send(
    route: Route, method: str, path: str, body: Any = None, *, tried: str, form: Any = Any, **query: str
) -> Any:
    """The answer, in its form. ``tried``: what was tried, for people; the body of a PATCH is a merge patch.

    Raises CommandFailed, and Refused of an error.
    """
    return send_with_warnings(route, method, path, body, tried=tried, form=form, **query)[0]


def send_with_warnings(
    route: Route, method: str, path: str, body: Any = None, *, tried: str, form: Any = Any, **query: str
) -> tuple[Any, tuple[str, ...]]:
    """As ``send``: the answer, and what the API server warns of."""
    access = route.to_cluster()
    status, answer, warnings = request(
        access,
        path + (f"?{urlencode(query)}" if query else ""),
        timeout=route.timeout,
        tried=f"{tried} at {access.server}",
        unreachable=UNREACHABLE,
        method=method,
        body=None if body is None else json.dumps(body).encode(),
        headers=_PATCHES if method == "PATCH" else {},
    )
    if status < 300:
        return decoded(answer, form, tried), warnings
    raise _refused(status, decoded(answer, Any, tried, f"HTTP status {status} and "), method, tried)


def read(route: Route, path: str, form: type[T], *, tried: str, **query: str) -> T:
    """An object, or a list of them, in its form. Raises CommandFailed, and Refused of an error."""
    found: T = send(route, "GET", path, tried=tried, form=form, **query)
    return found


def all_objects(
    route: Route,
    resource: ApiResource,
    form: type[T],
    *,
    namespace: str | None = None,
    left_out: Callable[[str], None] = warn,
    **query: str,
) -> list[T]:
    """All objects of a kind, each in its form. One of another form keeps none of the others: it is left out, and
    ``left_out`` gets a sentence about it. Raises CommandFailed, and Refused of an error."""
    import msgspec

    from admission.cli.access.object_forms import ObjectList

    path, objects = path_of(resource, namespace), list[T]()
    for item in read(route, path, ObjectList, tried=f"Listing {resource.plural}", **query).items or ():
        try:
            objects.append(msgspec.json.decode(item, type=form))
        except msgspec.ValidationError as error:
            left_out(
                f"{_named(resource, msgspec.json.decode(item))} cannot be read and is left out: {error}."
            )
    return objects


def _named(resource: ApiResource, document: Any) -> str:
    """``Device node-7``, of an object of any form."""
    metadata = document.get("metadata") if isinstance(document, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return f"{resource.kind} {printable(str(name or '(without a name)'))}"


def listed(
    route: Route, resource: ApiResource, form: type[T], *, namespace: str | None = None, **more: Any
) -> list[T] | None:
    """As ``all_objects``. Empty if the cluster has no such kind, None if the user may not list them."""
    try:
        return all_objects(route, resource, form, namespace=namespace, **more)
    except ObjectNotFound:
        return []
    except ObjectForbidden:
        return None


def _refused(status: int, document: Any, method: str, tried: str) -> Refused:
    """The error of an answer."""
    if method != "GET" and _WEBHOOK_AWAY in _message(document, status):
        # Answered, and so certain: nothing was written.
        return Refused(
            status=503,
            tried=tried,
            found="no replica of Muster answers the API server, so this was refused and nothing is changed",
            hint="Try again when one does: kubectl -n muster-system get pods. Platform administrators (role "
            "muster-queue-admin) may change queues meanwhile.",
        )
    message = _message(document, status)
    lacks = missing_right(message) if status == _FORBIDDEN else None
    found = message if lacks is None else lacks.sentence
    kind = {_NOT_FOUND: ObjectNotFound, _FORBIDDEN: ObjectForbidden}.get(status, Refused)
    hint = "Your credentials are not known to the API server; log in again." if status == 401 else ""
    return kind(status=status, tried=tried, found=found, hint=hint, lacks=lacks)


def delete_this(route: Route, path: str, uid: str, *, tried: str, **options: Any) -> None:
    """Delete this very object: not one of its name that was made again meanwhile. Raises CommandFailed, Refused."""
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}, **options}
    send(route, "DELETE", path, body, tried=tried)


def path_of(resource: ApiResource, namespace: str | None, name: str | None = None) -> str:
    """Where an object, or all of a kind, is. Raises CommandFailed for a name that no object can have."""
    try:
        return resource.path(namespace, name)
    except UnusableName as error:
        raise CommandFailed(tried=f"Looking for {resource.kind} {name!r}", found=str(error)) from error


def ask_for_action(
    route: Route, action: str, resource: ApiResource, namespace: str, target: Document
) -> None:
    """Create a Command for an object that there is. ``namespace``: that of the Command. Raises CommandFailed."""
    tried = f"{_ACTIONS[action]} {resource.kind.lower()} {target['metadata']['name']}"
    command = _command(action, resource, target)
    try:
        send(route, "POST", path_of(COMMANDS, namespace), command, tried=tried)
    except Refused as refused:
        if refused.lacks is None or refused.lacks[1:3] != ("create", "commands"):
            raise
        # The API server names the object by which it is asked for, which users know nothing of.
        found = (
            f"you may not create commands.bus.volcano.sh in namespace {namespace}, by which this is asked for"
        )
        hint = f"Ask for that right there; the ClusterRole {_ROLES[resource.kind]} has it."
        raise ObjectForbidden(status=_FORBIDDEN, tried=tried, found=found, hint=hint) from refused


def _command(action: str, resource: ApiResource, target: Document) -> Document:
    """A Command that goes with its target, as vcctl makes it."""
    name = target["metadata"]["name"]
    reference = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": name,
        "uid": target["metadata"]["uid"],
    }
    owned = {"ownerReferences": [{**reference, "controller": True}]}
    return {
        "apiVersion": COMMANDS.api_version,
        "kind": COMMANDS.kind,
        # What is generated has five characters more, of 253.
        "metadata": {"generateName": f"{name[:200]}-{action.lower()}-", **owned},
        "action": action,
        "target": reference,
        "message": "asked for by kubectl muster",
    }


def _message(document: Any, status: int) -> str:
    found = document.get("message") if isinstance(document, dict) else None
    return str(found or f"HTTP status {status}")
