"""The table of pod fields, and what is said by it, are those of a real API server."""

from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec
import pytest
import pytest_asyncio

from admission.kube.client.client import Client
from deploy.local.cluster import LocalCluster
from deploy.local.kubernetes import RELEASE
from queues.api.api_resources import PODS
from queues.api.validation.pod_fields import KUBERNETES as POD_FIELDS_OF
from queues.api.validation.pod_fields import PodField, pod_problems, pod_types
from queues.errors import ApiError

#: Types that the document defines and the table has a word for.
_WORDS: Final = {"Quantity": "quantity", "IntOrString": "int-or-string", "Time": "time"}
#: The server lists some thirty signals; the table takes any text.
_LONG: Final = {("Lifecycle", "stopSignal"): "string"}

MAIN: Final = {"name": "main", "image": "busybox"}


@pytest_asyncio.fixture(scope="session")
async def admin(door_cluster: LocalCluster) -> AsyncIterator[Client]:
    async with await Client.connect(door_cluster.kubeconfig) as connected:
        yield connected


def table_of(schemas: dict[str, Any], root: str) -> dict[str, dict[str, PodField]]:
    """The table for the type of that name and all that it contains, from an OpenAPI document."""
    found: dict[str, dict[str, PodField]] = {}
    names = [root]
    for name in names:
        short, required = _short(name), set(schemas[name].get("required", ()))
        if short not in found:
            found[short] = {
                field: PodField(_LONG.get((short, field)) or _type_of(written, names), field in required)
                for field, written in schemas[name].get("properties", {}).items()
            }
    return found


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _type_of(written: dict[str, Any], names: list[str]) -> str:
    whole = {**written, **written["allOf"][0]} if len(written.get("allOf", ())) == 1 else written
    if reference := whole.get("$ref"):
        name = reference.rpartition("/")[2]
        if _short(name) not in _WORDS:
            names.append(name)
        return _WORDS.get(_short(name), _short(name))
    match whole["type"]:
        case "array":
            return f"[{_type_of(whole['items'], names)}]"
        case "object":
            return f"{{{_type_of(whole['additionalProperties'], names)}}}"
        case "string" if "enum" in whole:
            return "|".join(whole["enum"])
    return whole["type"] + (f":{whole['format']}" if "format" in whole else "")


async def test_the_table_of_fields_is_the_servers(admin: Client) -> None:
    document = msgspec.json.decode(await admin.get("/openapi/v3/api/v1"))
    served = table_of(document["components"]["schemas"], "io.k8s.api.core.v1.PodTemplateSpec")
    known = pod_types()
    if not RELEASE.version.startswith(f"{POD_FIELDS_OF}."):
        # A newer release has further ones, of which `muster check` warns; those that it knows have not changed.
        served = {
            name: {field: fields[field] for field in known[name] if field in fields}
            for name, fields in served.items()
            if name in known
        }
    assert known == served


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [{**MAIN, "command": "sleep 3"}]},
        {"containers": [{**MAIN, "env": [{"name": "A", "value": 1}]}]},
        {"containers": [{**MAIN, "imagePullPolicy": "Sometimes"}]},
        {"containers": [{**MAIN, "ports": [{"containerPort": "80"}]}]},
        {"containers": [{**MAIN, "ports": [{}]}]},
        {"containers": [{**MAIN, "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]},
        {"containers": [{**MAIN, "volumeMounts": [{"name": "data"}]}], "volumes": [{"name": "data"}]},
        {"containers": [{**MAIN, "livenessProbe": {"httpGet": {"path": "/"}}}]},
        {"containers": [{**MAIN, "env": [{"value": "a"}]}]},
        {"containers": [{**MAIN, "tty": "yes"}]},
        {"containers": [MAIN], "volumes": [{"name": "a"}, {"name": "a"}]},
        {"containers": [MAIN], "volumes": [{"name": "a", "persistentVolumeClaim": {}}]},
        {"containers": [MAIN], "volumes": [{"name": "a", "emptyDir": {"sizeLimit": "big"}}]},
        {"containers": [MAIN], "dnsPolicy": "Best"},
        {"containers": [MAIN], "nodeSelector": {"a": True}},
        {"containers": [MAIN], "terminationGracePeriodSeconds": 1.5},
        {
            "containers": [MAIN],
            "topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
        },
        # And those that it accepts.
        {"containers": [{**MAIN, "env": [{"name": "A"}], "stdin": None}], "dnsPolicy": ""},
        {
            "containers": [
                {**MAIN, "livenessProbe": {"httpGet": {"port": 80, "httpHeaders": [{"name": "a"}]}}}
            ]
        },
        {"containers": [{**MAIN, "resources": {"requests": {"cpu": 0.5}}}], "volumes": [{"name": "a"}]},
        {"containers": [MAIN], "volumes": [{"name": "a", "hostPath": {"path": "/d", "type": ""}}]},
        {"containers": [{**MAIN, "lifecycle": {"preStop": {"sleep": {}}}}]},
    ],
    ids=str,
)
async def test_what_is_called_wrong_is_refused_by_the_server_and_nothing_else(
    admin: Client, spec: dict[str, Any]
) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "tried-"}, "spec": spec}
    refused = ""
    try:
        await admin.create(f"{PODS.path('default')}?dryRun=All", pod)
    except ApiError as error:
        refused = str(error)
    found = [str(problem) for problem in pod_problems(pod)]
    assert bool(found) == bool(refused), refused or found
