"""Kubeconfig files and service accounts as kubectl reads them: files merged, certificates, tokens, exec plugins.

The command line, the controller and the node agent take their access from here: standard library and PyYAML only,
because a call of the plugin should take no longer than the answer.
"""

import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from admission.api_connection import SERVICE_ACCOUNT, Access, UnusableAccess

#: Fields that hold a path, by section; relative ones start at the file they are in.
_PATHS: Final = {
    "clusters": ("certificate-authority",),
    "users": ("client-certificate", "client-key", "tokenFile"),
}
_EXEC_SECONDS: Final = 60


def load(path: str | None, context: str | None, environment: Mapping[str, str] | None = None) -> Access:
    """The access that kubectl would use. Raises UnusableAccess with what was tried and what to do."""
    variables = os.environ if environment is None else environment
    files = files_named(path, variables)
    existing = [file for file in files if file.is_file()]
    if not existing:
        if (
            path is None
            and (SERVICE_ACCOUNT / "token").is_file()
            and variables.get("KUBERNETES_SERVICE_HOST")
        ):
            return Access.in_pod(variables)
        raise UnusableAccess(
            tried="Looking for a kubeconfig",
            found=f"no file at {', '.join(map(str, files))}",
            hint="Name one with --kubeconfig or KUBECONFIG, or ask Muster directly with --server URL.",
        )
    merged = merge(_document(file) for file in existing)
    return _access(merged, context, variables)


def is_in_pod(kubeconfig: Path | None, context: str | None) -> bool:
    """Whether a process that names no kubeconfig and no context runs in a pod, whose service account it has then."""
    return kubeconfig is None and context is None and "KUBERNETES_SERVICE_HOST" in os.environ


def current_namespace(path: str | None, context: str | None) -> str:
    """Namespace of the context, ``default`` when there is none to be found."""
    try:
        merged = merge(_document(file) for file in files_named(path, os.environ) if file.is_file())
    except UnusableAccess:
        return "default"
    chosen = _named(merged, "contexts").get(context or merged.get("current-context") or "", {})
    return str(chosen.get("namespace") or "default")


def files_named(path: str | None, variables: Mapping[str, str]) -> list[Path]:
    """Kubeconfig files that are meant, whether they exist or not: ``path``, ``$KUBECONFIG`` or ``~/.kube/config``."""
    if path:
        return [Path(path)]
    if variables.get("KUBECONFIG"):
        return [Path(part) for part in variables["KUBECONFIG"].split(os.pathsep) if part]
    return [Path(variables.get("HOME") or Path.home()) / ".kube" / "config"]


def _document(path: Path) -> dict[str, Any]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), loader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        found = " ".join(str(error).split())
        raise UnusableAccess(tried=f"Reading the kubeconfig {path}", found=found) from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise UnusableAccess(
            tried=f"Reading the kubeconfig {path}",
            found=f"a {type(document).__name__} instead of a mapping with clusters, users and contexts",
        )
    for section in ("clusters", "users", "contexts"):
        entries = document.get(section) or []
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise UnusableAccess(
                tried=f"Reading the kubeconfig {path}", found=f"{section} is not a list of mappings"
            )
    for section, fields in _PATHS.items():
        for entry in document.get(section) or ():
            body = entry.get(section[:-1]) or {}
            for name in fields:
                if body.get(name):
                    body[name] = str(path.parent / body[name])
            if "command" in (command := body.get("exec") or {}) and os.sep in command["command"]:
                command["command"] = str(path.parent / command["command"])
    return document


def merge(documents: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Several files as one: the first file that names an entry, or sets the current context, decides."""
    merged: dict[str, Any] = {"clusters": [], "users": [], "contexts": []}
    for document in documents:
        if document.get("current-context") and "current-context" not in merged:
            merged["current-context"] = document["current-context"]
        for section in ("clusters", "users", "contexts"):
            known = {entry.get("name") for entry in merged[section]}
            merged[section] += [
                entry for entry in document.get(section) or () if entry.get("name") not in known
            ]
    return merged


def _named(merged: Mapping[str, Any], section: str) -> dict[str, dict[str, Any]]:
    return {str(entry.get("name")): entry.get(section[:-1]) or {} for entry in merged[section]}


def _access(merged: dict[str, Any], context: str | None, variables: Mapping[str, str]) -> Access:
    contexts = _named(merged, "contexts")
    name = context or merged.get("current-context")
    if not name or name not in contexts:
        raise UnusableAccess(
            tried="Choosing a context of the kubeconfig",
            found=f"there is no context {name}" if name else "no current-context is set",
            hint=f"Name one with --context; there are: {', '.join(sorted(contexts)) or 'none'}.",
        )
    chosen = contexts[name]
    cluster = _referred(merged, "clusters", str(chosen.get("cluster")), name)
    user = _referred(merged, "users", str(chosen["user"]), name) if chosen.get("user") else {}
    if not cluster.get("server"):
        raise UnusableAccess(
            tried=f"Reading cluster {chosen.get('cluster')} of the kubeconfig", found="it has no server"
        )
    if user.get("auth-provider"):
        raise UnusableAccess(
            tried=f"Reading user {chosen['user']} of the kubeconfig",
            found="an auth-provider, expected a token, a certificate or exec",
            hint="Use the credential plugin of your provider (exec), such as kubelogin for OpenID Connect.",
        )
    if user.get("exec"):
        user = {**user, **_from_plugin(user["exec"], cluster, variables)}
    return Access(
        server=str(cluster["server"]).rstrip("/"),
        namespace=str(chosen.get("namespace") or "default"),
        authority=_pem(cluster, "certificate-authority"),
        certificate=_pem(user, "client-certificate"),
        key=_pem(user, "client-key"),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        server_name=cluster.get("tls-server-name"),
        proxy=cluster.get("proxy-url"),
        token_file=Path(user["tokenFile"]) if user.get("tokenFile") and not user.get("token") else None,
        headers=_headers(user),
        by_plugin=bool(user.get("exec")),
        expires=user.get("expires"),
    )


def _referred(merged: Mapping[str, Any], section: str, name: str, context: str) -> dict[str, Any]:
    entries = _named(merged, section)
    if name not in entries:
        raise UnusableAccess(
            tried=f"Reading context {context} of the kubeconfig",
            found=f"it names {section[:-1]} {name}, which is not there",
            hint=f"There are: {', '.join(sorted(entries)) or 'none'}.",
        )
    return entries[name]


def _pem(body: Mapping[str, Any], name: str) -> str | None:
    import base64

    encoded, path = body.get(f"{name}-data"), body.get(name)
    try:
        if encoded:
            return base64.b64decode(encoded, validate=False).decode("ascii")
        return Path(path).read_text(encoding="ascii") if path else None
    except (OSError, ValueError) as error:
        field = f"{name}-data" if encoded else name
        raise UnusableAccess(tried=f"Reading {field} of the kubeconfig", found=f"{error}") from error


def _headers(user: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    import base64

    headers: list[tuple[str, str]] = []
    token = user.get("token")
    if token:
        headers.append(("Authorization", f"Bearer {token}"))
    elif user.get("username") and not user.get("tokenFile"):
        pair = f"{user['username']}:{user.get('password', '')}"
        headers.append(("Authorization", "Basic " + base64.b64encode(pair.encode()).decode()))
    if user.get("as"):
        headers.append(("Impersonate-User", str(user["as"])))
    headers += [("Impersonate-Group", str(group)) for group in user.get("as-groups") or ()]
    return tuple(headers)


def _from_plugin(
    spec: Mapping[str, Any], cluster: Mapping[str, Any], variables: Mapping[str, str]
) -> dict[str, Any]:
    """Runs a credential plugin (client.authentication.k8s.io); its answer as fields of a kubeconfig's user."""
    import base64
    import json
    import subprocess

    version = spec.get("apiVersion", "client.authentication.k8s.io/v1")
    asked: dict[str, Any] = {"interactive": os.isatty(0) and spec.get("interactiveMode") != "Never"}
    if spec.get("provideClusterInfo"):
        shown = ("server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data")
        asked["cluster"] = {name: cluster[name] for name in shown if name in cluster}
    info = json.dumps({"apiVersion": version, "kind": "ExecCredential", "spec": asked})
    extra = {str(item["name"]): str(item["value"]) for item in spec.get("env") or ()}
    command = [str(spec.get("command")), *map(str, spec.get("args") or ())]
    tried = f"Running the credential plugin {command[0]}"
    try:
        done = subprocess.run(
            command,
            env={**variables, **extra, "KUBERNETES_EXEC_INFO": info},
            stdout=subprocess.PIPE,
            timeout=_EXEC_SECONDS,
            check=False,
        )
        status = json.loads(done.stdout)["status"] if done.returncode == 0 else None
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError, TypeError) as error:
        found = f"{type(error).__name__}: {error}"
        raise UnusableAccess(tried=tried, found=found, hint=str(spec.get("installHint") or "")) from error
    if status is None:
        raise UnusableAccess(tried=tried, found=f"it ended with exit code {done.returncode}")
    given: dict[str, Any] = {"token": status.get("token")}
    if status.get("expirationTimestamp"):
        given["expires"] = datetime.fromisoformat(status["expirationTimestamp"]).timestamp()
    for name, key in (("client-certificate", "clientCertificateData"), ("client-key", "clientKeyData")):
        if status.get(key):
            given[f"{name}-data"] = base64.b64encode(status[key].encode()).decode()
    return given
