"""Fields that an update may not change, compared by what they mean. Pure.

A client writes the same object in other words: absent, ``null`` and an empty list or mapping are one thing; so are a
field's default and its absence, and amounts of equal value (``1`` and ``1000m``). The tables below say it once: inside
the API server a policy compares by them as well (``admission.kube.policies.guards.fixed_fields``), and a test gives
both the same pairs.

Only fields that are known to be so are the same as absent when they are zero, and some are not when they are empty:
``runAsUser: 0`` is root, and ``labelSelector: {}`` selects all pods.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from queues.api.model import path_of
from queues.api.validation.defaults import HOST_DNS, MAX_RETRY, NEED_SVC, default_task_name
from queues.errors import InvalidQuantity
from queues.resources import quantity

Path = tuple[str | int, ...]
#: A value now, and before.
_Pair = tuple[Any, Any]


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


#: Fields below a spec that are looked at one by one; what lies deeper is equal, or not. The deepest amount is
#: ``spec.tasks[0].template.spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests.storage``.
LEVELS: Final = 12
#: Levels of the first fields that are an amount, a port, or another thing when they are empty; and of fields of a pod.
AMOUNTS_FROM: Final = 6
PORTS_FROM: Final = 9
KEPT_FROM: Final = 4
POD_FIELD: Final = 5
#: Mappings with keys that users choose: no field is meant there, whatever the key.
KEYS_OF_USERS: Final = _names(
    "labels annotations nodeSelector matchLabels limits requests capacity overhead volumeAttributes options"
)
#: Mappings of quantities, and fields that are one.
QUANTITY_MAPS: Final = ("limits", "requests", "capacity", "overhead")
QUANTITIES: Final = ("sizeLimit", "divisor")
#: Numbers that may be written as text.
NUMBER_OR_TEXT: Final = ("port",)
#: Empty is something else than absent.
KEPT_WHEN_EMPTY: Final = ("labelSelector", "namespaceSelector", "selector", "projected")
#: "", 0 and false are the same as absent: fields that Kubernetes' and Volcano's own types leave out then.
ABSENT_WHEN_ZERO: Final = _names(
    "apiVersion audience chapAuthDiscovery chapAuthSession containerName dnsPolicy driver effect failureThreshold"
    " fsType group highestTierName host hostIP hostIPC hostNetwork hostPID hostPort hostname imagePullPolicy"
    " initialDelaySeconds iteration key keyring level maxRetry medium minPartitions mode name nodeName operator"
    " optional partition path periodSeconds pool prefix priorityClassName protocol pullPolicy queue readOnly reference"
    " registry request restartPolicy revision role schedulerName scheme secretFile secretName serviceAccount"
    " serviceAccountName sslEnabled stdin stdinOnce storageMode storagePool subPath subPathExpr subdomain"
    " runningEstimate successThreshold targetContainerName tenant terminationMessagePath terminationMessagePolicy"
    " timeoutSeconds topologyPolicy tty type user value volumeClaimName volumeName workingDir"
)
#: What absence means.
DEFAULTS: Final[Mapping[str, str | int]] = {
    "defaultMode": 420,
    "dnsPolicy": "ClusterFirst",
    "failureThreshold": 3,
    "iteration": "all",
    "maxRetry": MAX_RETRY,
    "mode": "hard",
    "operator": "Equal",
    "periodSeconds": 10,
    "protocol": "TCP",
    "queue": "default",
    "schedulerName": "volcano",
    "scheme": "HTTP",
    "successThreshold": 1,
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "timeoutSeconds": 1,
    "topologyPolicy": "none",
}
#: The same, in the spec of a pod only.
POD_DEFAULTS: Final[Mapping[str, str | int]] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
}
#: Fields of a Volcano Job, and of its tasks, that may change.
FREE_OF_JOB: Final = ("minAvailable", "priorityClassName")
FREE_OF_TASK: Final = ("replicas", "minAvailable")


@dataclass(frozen=True, slots=True)
class ChangedField:
    """A field that an update would change."""

    #: ``spec.tasks[0].template.spec.containers[0].image``
    path: str
    found: str
    expected: str


def job_change(before: Mapping[str, Any], now: Mapping[str, Any]) -> ChangedField | None:
    """The first field of a Volcano Job's spec with another meaning that may not change; None if there is none."""
    return _change((now, before), (), ({}, {}))


def _is_free(path: Path) -> bool:
    """Whether the field of a Volcano Job may change."""
    match path:
        case (str(field),):
            return field in FREE_OF_JOB
        case ("tasks", _, str(field)):
            return field in FREE_OF_TASK
        case _:
            return False


def _change(values: _Pair, path: Path, holders: _Pair) -> ChangedField | None:
    """The change of a value now from before. ``holders``: the mappings or lists that have them."""
    if _is_same(values, path, holders):
        return None
    if len(path) == LEVELS or not _are_alike(values, path, holders):
        return ChangedField(path_of(("spec", *path)), *map(_shown, values))
    for key in _keys(*values):
        below = (*path, key)
        if not _is_free(below):
            now, before = (_child(value, key) for value in values)
            if change := _change((now, before), below, values):
                return change
    return None


def _are_alike(values: _Pair, path: Path, holders: _Pair) -> bool:
    """Whether two values are looked at field by field: two mappings or lists, or one that is absent."""
    if len(path) >= KEPT_FROM and path[-1] in KEPT_WHEN_EMPTY and None in values:
        return False
    if path[:1] == ("plugins",) and len(path) == 2:
        here = [_has_plugin(str(path[1]), holder or {}) for holder in holders]
        if here[0] != here[1]:
            return False
    return any(all(value is None or isinstance(value, kind) for value in values) for kind in (Mapping, list))


def _keys(now: Any, before: Any) -> list[Any]:
    keys = [_keys_of(value) for value in (now, before)]
    return [*keys[0], *(key for key in keys[1] if key not in keys[0])]


def _keys_of(value: Any) -> list[Any]:
    return list(range(len(value))) if isinstance(value, list) else list(value or ())


def _child(of: Any, key: Any) -> Any:
    """A field or an entry; None if there is none."""
    if isinstance(of, list):
        return of[key] if key < len(of) else None
    return (of or {}).get(key)


def _meaning(value: Any, path: Path, holder: Any) -> Any:
    """A value, or what its absence means."""
    key = str(path[-1])
    if value is not None and not (key in ABSENT_WHEN_ZERO and _is_zero(value)):
        return value
    if path == ("tasks", path[1] if len(path) > 1 else 0, "name"):
        return default_task_name(int(path[1]))
    if len(path) == POD_FIELD and path[3] == "spec":
        if key == "dnsPolicy" and isinstance(holder, Mapping) and holder.get("hostNetwork") is True:
            return HOST_DNS
        if key in POD_DEFAULTS:
            return POD_DEFAULTS[key]
    return DEFAULTS.get(key)


def _is_zero(value: Any) -> bool:
    return isinstance(value, str | int | float) and not value


def _has_plugin(plugin: str, plugins: Mapping[str, Any]) -> bool:
    """Whether a Job has the plugin, as it is written or because another one needs it."""
    needed = plugin == "svc" and any(name in plugins for name in NEED_SVC)
    return plugins.get(plugin) is not None or needed or (plugin == "ssh" and "mpi" in plugins)


def _is_same(values: _Pair, path: Path, holders: _Pair) -> bool:
    """Whether two values that are looked at as a whole mean the same."""
    is_whole = len(path) == LEVELS or not any(isinstance(value, Mapping | list) for value in values)
    if not path or not is_whole:
        return False
    if _is_equal(*values):
        return True
    key, holder = path[-1], path[-2] if len(path) > 1 else ""
    is_amount = holder in QUANTITY_MAPS or (key in QUANTITIES and holder not in KEYS_OF_USERS)
    if len(path) >= AMOUNTS_FROM and is_amount:
        return _is_same_amount(*values)
    if holder in KEYS_OF_USERS:
        return False
    if len(path) >= PORTS_FROM and key in NUMBER_OR_TEXT and all(map(_is_number_or_text, values)):
        return str(values[0]) == str(values[1])
    return _is_equal(*(_meaning(value, path, of) for value, of in zip(values, holders, strict=True)))


def _is_equal(now: Any, before: Any) -> bool:
    return isinstance(now, bool) == isinstance(before, bool) and bool(now == before)


def _is_same_amount(now: Any, before: Any) -> bool:
    if not (_is_number_or_text(now) and _is_number_or_text(before)):
        return False
    try:
        return quantity(now) == quantity(before)
    except InvalidQuantity:
        return False


def _is_number_or_text(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return f'"{value[:60]}"'
    if isinstance(value, list):
        return f"{len(value)} entries"
    if isinstance(value, Mapping):
        return "a mapping"
    return str(value).lower()
