"""Whom the API server's proxy speaks for."""

from dataclasses import replace

from multidict import CIMultiDict

from admission.kube.access_reviews import Caller, FrontProxy

PROXY = FrontProxy(
    authority="-----BEGIN CERTIFICATE-----",
    names=frozenset({"front-proxy-client"}),
    user_headers=("X-Remote-User",),
    group_headers=("X-Remote-Group",),
    uid_headers=("X-Remote-Uid",),
    extra_prefixes=("X-Remote-Extra-",),
)
HEADERS = CIMultiDict(
    [
        ("X-Remote-User", "alice"),
        ("x-remote-group", "team-a"),
        ("X-Remote-Group", "system:authenticated"),
        ("X-Remote-Uid", "7"),
        ("X-Remote-Extra-Authentication.kubernetes.io%2Fpod-name", "p-0"),
    ]
)


def test_the_proxy_tells_user_groups_and_what_else_is_known() -> None:
    assert PROXY.speaks_for("front-proxy-client", HEADERS) == Caller(
        "alice",
        ("team-a", "system:authenticated"),
        "7",
        (("authentication.kubernetes.io/pod-name", ("p-0",)),),
    )


def test_another_certificate_of_the_same_authority_speaks_for_nobody() -> None:
    assert PROXY.speaks_for("kubelet", HEADERS) is None
    assert PROXY.speaks_for("front-proxy-client", CIMultiDict()) is None


def test_an_api_server_that_proves_nothing_is_not_believed() -> None:
    assert replace(PROXY, authority="").speaks_for("front-proxy-client", HEADERS) is None
