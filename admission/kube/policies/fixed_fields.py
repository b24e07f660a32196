"""Fields that an update of a Volcano Job may not change, compared by what they mean: tables, and the CEL made of them.

A client writes the same object in other words: absent, ``null`` and an empty list or mapping are one thing; so are a
field's default and its absence, and amounts of equal value (``1`` and ``1000m``). Only fields that are known to be so
are the same as absent when they are zero, and some are not when they are empty: ``runAsUser: 0`` is root, and
``labelSelector: {}`` selects all pods.

CEL has no recursion, so there is a variable for each level: the fields there that differ. Where two values are equal
byte for byte it goes no further, so the cost follows what was written in other words. The API server compiles each
variable whenever the policy changes, which takes time by the square of its operators: one expression with all levels
would take ten times as long.
"""

from collections.abc import Mapping
from typing import Final

from admission.kube.policies.cel import text, texts
from queues.api.validation.defaults import HOST_DNS, MAX_RETRY, NEED_SVC, TASK_NAME


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


def _map(values: Mapping[str, str | int]) -> str:
    entries = (
        f"{text(key)}: dyn({text(value) if isinstance(value, str) else value})"
        for key, value in values.items()
    )
    return "{" + ", ".join(entries) + "}"


#: Variables that are tables.
_TABLES: Final[Mapping[str, str]] = {
    "zeros": texts(ABSENT_WHEN_ZERO),
    "users": texts(KEYS_OF_USERS),
    "kept": texts(KEPT_WHEN_EMPTY),
    "amounts": texts(QUANTITY_MAPS),
    "sizes": texts(QUANTITIES),
    "meant": _map(DEFAULTS),
    "zero": "[dyn(''), dyn(0), dyn(false)]",
}
#: Of a field: its path and name, that of the field it lies in, and the values of both, now and before.
_SPEC: Final = (
    "{'at': dyn('spec'), 'key': dyn(''), 'holder': dyn(''), 'pair': dyn([object.spec, oldObject.spec]),"
    " 'of': dyn([])}"
)


def change_variables() -> dict[str, str]:
    """The variables of a policy, in order. The last one, ``change``, is the first field of a Volcano Job's spec that
    changed and may not, of the highest level at which there is one, with what was found and expected; "": none."""
    levels = {f"differing{level}": _differing(level) for level in range(LEVELS + 1)}
    last = " + ".join(f"variables.{name}{_not_alike(level)}" for level, name in enumerate(levels))
    found = f"string(f.at) + ': found ' + f.pair.map(v, {_shown('v')}).join(', expected ')"
    return {**_TABLES, **levels, "change": f"({last}).map(f, {found})[?0].orValue('')"}


def _differing(level: int) -> str:
    """The fields of one level that are not the same before and now, by those of the level above."""
    if level == 0:
        return f"[{_SPEC}].filter(f, f.pair[0] != f.pair[1])"
    both = "f.pair.map(v, v == null ? dyn([]) : dyn(v.transformList(k, w, k)))"
    keys = f"[{both}].map(q, q[0] + q[1].filter(k, !(k in q[0])))[0]"
    free = {
        1: f".filter(k, !(k in {texts(FREE_OF_JOB)}))",
        3: f".filter(k, !(f.holder == 'tasks' && k in {texts(FREE_OF_TASK)}))",
    }.get(level, "")
    segment = "(type(k) == int ? '[' + string(k) + ']' : '.' + k)"
    pair = "f.pair.map(v, v == null ? dyn(null) : dyn(v)[?k].orValue(null))"
    field = (
        f"{{'at': dyn(f.at + {segment}), 'key': dyn(k), 'holder': dyn(f.key), 'pair': dyn({pair}),"
        " 'of': dyn(f.pair)}"
    )
    above = f"variables.differing{level - 1}.filter(f, {_are_alike(level - 1)})"
    return f"{above}.map(f, {keys}{free}.map(k, {field})).flatten().filter(f, !({_same_value(level)}))"


def _not_alike(level: int) -> str:
    return f".filter(f, !({_are_alike(level)}))" if level < LEVELS else ""


def _same_value(level: int) -> str:
    """Whether the two values of a field are the same, or mean the same."""
    meaning = "dyn(variables.meant[?f.key].orValue(null))"
    if level == 3:
        name = f"dyn({text(TASK_NAME)} + string(f.holder))"
        meaning = f"(f.at.startsWith('spec.tasks[') && f.key == 'name' ? {name} : {meaning})"
    if level == POD_FIELD:
        in_pods = _map(POD_DEFAULTS)
        meaning = f"(f.holder == 'spec' && f.key in {in_pods} ? dyn({in_pods}[f.key]) : {meaning})"
    meant = f"v == null || (f.key in variables.zeros && v in variables.zero) ? {meaning} : v"
    users = "!(f.holder in variables.users)"
    same = ["f.pair[0] == f.pair[1]", f"({users} && [f.pair.map(v, {meant})].exists(q, q[0] == q[1]))"]
    if level == POD_FIELD:
        same.append(f"(f.key == 'dnsPolicy' && {_same_dns()})")
    readable = "f.pair.all(v, type(v) != bool && v != null && type(v) != map && type(v) != list"
    if level >= AMOUNTS_FROM:
        equal = "quantity(string(f.pair[0])).compareTo(quantity(string(f.pair[1]))) == 0"
        is_amount = f"(f.holder in variables.amounts || (f.key in variables.sizes && {users}))"
        same.append(f"({is_amount} && {readable} && isQuantity(string(v))) && {equal})")
    if level >= PORTS_FROM:
        is_number = f"f.key in {texts(NUMBER_OR_TEXT)} && {users}"
        same.append(f"({is_number} && {readable}) && string(f.pair[0]) == string(f.pair[1]))")
    return " || ".join(same)


def _same_dns() -> str:
    """Whether pods have the same dnsPolicy, which depends on their network."""
    on_host = "f.of[i] != null && f.of[i][?'hostNetwork'].orValue(false) == true"
    default = f"{on_host} ? {text(HOST_DNS)} : {text(str(DEFAULTS['dnsPolicy']))}"
    meant = f"f.pair.transformList(i, v, v == null || v == '' ? dyn({default}) : v)"
    return f"[{meant}].exists(q, q[0] == q[1])"


def _are_alike(level: int) -> str:
    """Whether the two values of a field are looked at field by field."""
    kind = " || ".join(f"f.pair.all(v, v == null || type(v) == {kind})" for kind in ("map", "list"))
    alike = f"({kind})"
    if level >= KEPT_FROM:
        alike = f"!(f.key in variables.kept && f.pair.exists(v, v == null)) && {alike}"
    if level == 2:
        alike = f"!(f.holder == 'plugins' && {_one_is_missing()}) && {alike}"
    return alike


def _one_is_missing() -> str:
    """Whether one of two Jobs has not the plugin, and does not have it because another plugin needs it."""
    needed = f"(f.key == 'svc' && {texts(NEED_SVC)}.exists(p, p in m)) || (f.key == 'ssh' && 'mpi' in m)"
    there = f"f.of.map(m, m != null && (m[?f.key].orValue(null) != null || {needed}))"
    return f"[{there}].exists(q, q[0] != q[1])"


def _shown(value: str) -> str:
    cut = f"{value}.substring(0, size({value}) > 60 ? 60 : size({value}))"
    return (
        f"{value} == null ? 'nothing' : type({value}) == string ? '\"' + {cut} + '\"'"
        f" : type({value}) == list ? string(size({value})) + ' entries'"
        f" : type({value}) == map ? 'a mapping' : string({value})"
    )
