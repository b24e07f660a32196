"""Kubeconfig files are read as kubectl reads them."""

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from admission.api_connection import UnusableAccess
from admission.kube.client.kubeconfig import current_namespace, load


def write(path: Path, **sections: Any) -> str:
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **sections}), encoding="utf-8")
    return str(path)


def config(path: Path, *, user: dict[str, Any], cluster: dict[str, Any] | None = None, **context: Any) -> str:
    return write(
        path,
        clusters=[{"name": "c", "cluster": {"server": "https://one:6443", **(cluster or {})}}],
        users=[{"name": "u", "user": user}],
        contexts=[{"name": "x", "context": {"cluster": "c", "user": "u", **context}}],
        **{"current-context": "x"},
    )


def test_a_token_becomes_a_header_and_the_context_names_the_namespace(tmp_path: Path) -> None:
    file = config(tmp_path / "config", user={"token": "abc"}, namespace="ml")

    access = load(file, None)

    assert (access.server, access.namespace) == ("https://one:6443", "ml")
    assert access.headers == (("Authorization", "Bearer abc"),)
    assert current_namespace(file, None) == "ml"


def test_credentials_are_never_shown(tmp_path: Path) -> None:
    assert "abc" not in repr(load(config(tmp_path / "config", user={"token": "abc"}), None))


def test_embedded_and_referred_certificates_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("PEM", encoding="ascii")
    (tmp_path / "key.pem").write_text("KEY", encoding="ascii")
    file = config(
        tmp_path / "config",
        user={
            "client-certificate-data": base64.b64encode(b"CERT").decode(),
            "client-key": "key.pem",
        },
        cluster={"certificate-authority": "ca.pem", "tls-server-name": "other"},
    )

    access = load(file, None)

    assert (access.authority, access.certificate, access.key) == ("PEM", "CERT", "KEY")
    assert access.server_name == "other"


def test_of_several_files_the_first_to_name_something_is_right(tmp_path: Path) -> None:
    first = write(
        tmp_path / "first",
        contexts=[{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "first"}}],
        **{"current-context": "x"},
    )
    second = config(tmp_path / "second", user={"token": "abc"}, namespace="second")
    environment = {"KUBECONFIG": f"{tmp_path / 'missing'}:{first}:{second}"}

    access = load(None, None, environment)

    assert (access.namespace, access.server) == ("first", "https://one:6443")


def test_groups_are_impersonated_one_header_each(tmp_path: Path) -> None:
    access = load(
        config(tmp_path / "config", user={"token": "t", "as": "ada", "as-groups": ["a", "b"]}), None
    )

    assert access.headers[1:] == (
        ("Impersonate-User", "ada"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
    )


def test_a_credential_plugin_is_asked_and_told_about_the_cluster(tmp_path: Path) -> None:
    script = tmp_path / "plugin.py"
    script.write_text(
        "import json, os\n"
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "token = os.environ['PREFIX'] + info['spec']['cluster']['server']\n"
        "print(json.dumps({'kind': 'ExecCredential', 'status': {'token': token}}))\n",
        encoding="utf-8",
    )
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(script)],
        "env": [{"name": "PREFIX", "value": "for "}],
        "provideClusterInfo": True,
        "interactiveMode": "Never",
    }

    access = load(config(tmp_path / "config", user={"exec": plugin}), None)

    assert access.headers == (("Authorization", "Bearer for https://one:6443"),)


@pytest.mark.parametrize(
    ("plugin", "found"),
    [
        ({"command": "no-such-plugin", "installHint": "Install it."}, "FileNotFoundError"),
        ({"command": sys.executable, "args": ["-c", "raise SystemExit(3)"]}, "it ended with exit code 3"),
        ({"command": sys.executable, "args": ["-c", "print('hello')"]}, "JSONDecodeError"),
    ],
)
def test_a_credential_plugin_that_fails_is_named(tmp_path: Path, plugin: dict[str, Any], found: str) -> None:
    with pytest.raises(UnusableAccess) as caught:
        load(config(tmp_path / "config", user={"exec": plugin}), None)

    assert f"Running the credential plugin {plugin['command']}" in str(caught.value)
    assert found in str(caught.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "Reading the kubeconfig"),
        ("[]", "a list instead of a mapping"),
        ("clusters: 3", "clusters is not a list of mappings"),
        ("users: [u]", "users is not a list of mappings"),
        ("", "no current-context is set"),
        ("current-context: x", "there is no context x"),
        (
            "{current-context: x, contexts: [{name: x, context: {cluster: c}}]}",
            "it names cluster c, which is not there",
        ),
        (
            json.dumps(
                {
                    "current-context": "x",
                    "contexts": [{"name": "x", "context": {"cluster": "c"}}],
                    "clusters": [{"name": "c", "cluster": {}}],
                }
            ),
            "it has no server",
        ),
    ],
)
def test_a_broken_kubeconfig_is_told_in_words(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "config"
    file.write_text(text, encoding="utf-8")

    with pytest.raises(UnusableAccess, match=complaint):
        load(str(file), None)


def test_an_unknown_context_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UnusableAccess, match="there are: x"):
        load(config(tmp_path / "config", user={}), "y")


def test_the_end_of_a_plugins_answer_is_known(tmp_path: Path) -> None:
    status = {"token": "abc", "expirationTimestamp": "2026-11-20T09:00:00Z"}
    plugin = {"command": sys.executable, "args": ["-c", f"print({json.dumps({'status': status})!r})"]}
    access = load(config(tmp_path / "config", user={"exec": plugin}), None)
    assert (access.by_plugin, access.expires) == (True, 1_795_165_200.0)
    access = load(config(tmp_path / "token", user={"token": "abc"}), None)
    assert (access.by_plugin, access.expires) == (False, None)


def test_a_provider_that_kubectl_has_dropped_is_refused_with_what_takes_its_place(tmp_path: Path) -> None:
    with pytest.raises(UnusableAccess, match=r"auth-provider, expected .*\n.*\(exec\)"):
        load(config(tmp_path / "config", user={"auth-provider": {"name": "oidc"}}), None)
