"""Questions to the API server about users: whose token it is, what a user may do, and which user its proxy names."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from admission.kube.client.client import Client
from queues.api.api_resources import CONFIG_MAPS, ApiResource
from queues.errors import NotFound

_TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
#: Where the API server states how its proxy identifies itself to the servers behind it.
_FRONT_PROXY: Final = CONFIG_MAPS.path("kube-system", "extension-apiserver-authentication")


@dataclass(frozen=True, slots=True)
class Caller:
    """A user of the API server, as it authenticated the user."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    #: What the authenticator knows besides, for authorizers.
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRequest:
    """What a user wants to do: a verb on a kind of object, or on a URL path."""

    verb: str
    resource: ApiResource | None = None
    #: "": in all namespaces.
    namespace: str = ""
    #: "": any object.
    name: str = ""
    #: Of a request that is about no object.
    path: str = ""

    def attributes(self) -> dict[str, Any]:
        """As a SubjectAccessReview has it."""
        if self.resource is None:
            return {"nonResourceAttributes": {"verb": self.verb, "path": self.path}}
        return {
            "resourceAttributes": {
                "verb": self.verb,
                "group": self.resource.group,
                "version": self.resource.version,
                "resource": self.resource.plural,
                "namespace": self.namespace,
                "name": self.name,
            }
        }


async def holder_of(client: Client, token: str) -> Caller | None:
    """The user whose token it is (TokenReview). None if the token is not valid. Raises ApiError."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    status = msgspec.json.decode(await client.create(_TOKEN_REVIEWS, review)).get("status") or {}
    user = status.get("user") or {}
    if not status.get("authenticated") or not user.get("username"):
        return None
    return Caller(
        str(user["username"]),
        tuple(user.get("groups") or ()),
        str(user.get("uid") or ""),
        tuple(sorted((name, tuple(values)) for name, values in (user.get("extra") or {}).items())),
    )


async def may(client: Client, caller: Caller, access: AccessRequest) -> bool:
    """Whether the API server's authorizers let a user do it (SubjectAccessReview). Raises ApiError."""
    spec = {
        "user": caller.name,
        "groups": list(caller.groups),
        "uid": caller.uid,
        "extra": {name: list(values) for name, values in caller.extra},
        **access.attributes(),
    }
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    status = msgspec.json.decode(await client.create(_ACCESS_REVIEWS, review)).get("status") or {}
    return bool(status.get("allowed")) and not status.get("denied")


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontProxy:
    """How the API server names the user of a request that it passes on, and proves that it is the API server."""

    #: PEM; "": it proves nothing, and is not believed.
    authority: str = ""
    #: Common names of its client certificate; empty: any that the authority signed.
    names: frozenset[str] = frozenset()
    user_headers: tuple[str, ...] = ()
    group_headers: tuple[str, ...] = ()
    uid_headers: tuple[str, ...] = ()
    extra_prefixes: tuple[str, ...] = ()

    def speaks_for(self, common_name: str, headers: Any) -> Caller | None:
        """The user of a request. None if it does not come from the proxy.

        The client certificate was signed by ``authority`` and has this common name. ``headers``: an aiohttp
        multi-dictionary.
        """
        if not self.authority or (self.names and common_name not in self.names):
            return None
        user = next(iter(_values(headers, self.user_headers)), "")
        if not user:
            return None
        extra: dict[str, tuple[str, ...]] = {}
        for header in headers:
            for prefix in self.extra_prefixes:
                if header.lower().startswith(prefix.lower()):
                    extra[unquote(header[len(prefix) :].lower())] = tuple(_values(headers, (header,)))
        return Caller(
            user,
            tuple(_values(headers, self.group_headers)),
            next(iter(_values(headers, self.uid_headers)), ""),
            tuple(sorted(extra.items())),
        )


async def front_proxy(client: Client) -> FrontProxy:
    """What the API server states of its proxy. Raises ApiError."""
    try:
        data = msgspec.json.decode(await client.get(_FRONT_PROXY)).get("data") or {}
    except NotFound:
        data = {}

    def listed(name: str) -> tuple[str, ...]:
        return tuple(msgspec.json.decode(data.get(name) or "[]", type=list[str]))

    return FrontProxy(
        authority=data.get("requestheader-client-ca-file") or "",
        names=frozenset(listed("requestheader-allowed-names")),
        user_headers=listed("requestheader-username-headers"),
        group_headers=listed("requestheader-group-headers"),
        uid_headers=listed("requestheader-uid-headers"),
        extra_prefixes=listed("requestheader-extra-headers-prefix"),
    )


def _values(headers: Any, names: Iterable[str]) -> list[str]:
    return [value for name in names for value in headers.getall(name, ())]
