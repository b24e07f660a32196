"""Fields that an update of a Volcano Job may not change, compared by what they mean: tables, and the CEL made of them.

A client writes the same object in other words: absent, ``null`` and an empty list or mapping are one thing; so are a
field's default and its absence, and amounts of equal value (``1`` and ``1000m``). Only fields that are known to be so
are the same as absent when they are zero, and some are not when they are empty: ``runAsUser: 0`` is root, and
``labelSelector: {}`` selects all pods.

CEL has no recursion, so the expression holds one level in another. Where two values are equal byte for byte it goes no
further, so its cost follows what was written in other words. The API server compiles it whenever the policy changes,
which takes time by the square of its operators: whatever both values need is written once, for a list of the two.
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


#: Tables that are bound to a name once, outside of the levels.
_TABLES: Final[Mapping[str, str]] = {
    "zeros": texts(ABSENT_WHEN_ZERO),
    "users": texts(KEYS_OF_USERS),
    "kept": texts(KEPT_WHEN_EMPTY),
    "amounts": texts(QUANTITY_MAPS),
    "sizes": texts(QUANTITIES),
    "meant": _map(DEFAULTS),
    "zero": "[dyn(''), dyn(0), dyn(false)]",
}


def job_change() -> str:
    """The first field of a Volcano Job's spec that changed and may not, with what was found and expected; "": none."""
    expression = _bound("dyn([object.spec, oldObject.spec])", 0)
    for name, table in _TABLES.items():
        expression = f"[{table}].map({name}, {expression})[0]"
    return f"[{expression}].map(s, s == '' ? '' : 'spec' + s)[0]"


def _bound(pair: str, level: int) -> str:
    """The change between two values, now and before, which the expression calls ``p`` with the level's number."""
    return f"[{pair}].map(p{level}, {_change(level)})[0]"


def _change(level: int) -> str:
    pair = f"p{level}"
    found = f"': found ' + {pair}.map(v, {_shown('v')}).join(', expected ')"
    same = " || ".join([f"{pair}[0] == {pair}[1]", *_same_value(level)])
    if level == LEVELS:
        return f"({same} ? '' : {found})"
    return f"({same} ? '' : {_are_alike(level)} ? {_first_below(level)} : {found})"


def _key(level: int) -> str:
    return f"k{level}" if level > 0 else "''"


def _same_value(level: int) -> list[str]:
    """Whether two values that are looked at as a whole mean the same."""
    pair, key, holder = f"p{level}", _key(level), _key(level - 1)
    if level == 0:
        return []
    meaning = f"dyn(meant[?{key}].orValue(null))"
    if level == 3:
        meaning = f"(k1 == 'tasks' && k3 == 'name' ? dyn({text(TASK_NAME)} + string(k2)) : {meaning})"
    if level == POD_FIELD:
        in_pods = _map(POD_DEFAULTS)
        meaning = f"(k4 == 'spec' && k5 in {in_pods} ? dyn({in_pods}[k5]) : {meaning})"
    meant = f"v == null || ({key} in zeros && v in zero) ? {meaning} : v"
    same = [f"(!({holder} in users) && [{pair}.map(v, {meant})].exists(q, q[0] == q[1]))"]
    if level == POD_FIELD:
        same.append(f"(k5 == 'dnsPolicy' && {_same_dns()})")
    readable = f"{pair}.all(v, type(v) != bool && v != null && type(v) != map && type(v) != list"
    if level >= AMOUNTS_FROM:
        equal = f"quantity(string({pair}[0])).compareTo(quantity(string({pair}[1]))) == 0"
        is_amount = f"({holder} in amounts || ({key} in sizes && !({holder} in users)))"
        same.append(f"({is_amount} && {readable} && isQuantity(string(v))) && {equal})")
    if level >= PORTS_FROM:
        is_number = f"{key} in {texts(NUMBER_OR_TEXT)} && !({holder} in users)"
        same.append(f"({is_number} && {readable}) && string({pair}[0]) == string({pair}[1]))")
    return same


def _same_dns() -> str:
    """Whether pods have the same dnsPolicy, which depends on their network."""
    on_host = "p4[i] != null && p4[i][?'hostNetwork'].orValue(false) == true"
    default = f"{on_host} ? {text(HOST_DNS)} : {text(str(DEFAULTS['dnsPolicy']))}"
    meant = f"p5.transformList(i, v, v == null || v == '' ? dyn({default}) : v)"
    return f"[{meant}].exists(q, q[0] == q[1])"


def _are_alike(level: int) -> str:
    """Whether two values are looked at field by field."""
    pair, key = f"p{level}", _key(level)
    kind = " || ".join(f"{pair}.all(v, v == null || type(v) == {kind})" for kind in ("map", "list"))
    alike = f"({kind})"
    if level >= KEPT_FROM:
        alike = f"!({key} in kept && {pair}.exists(v, v == null)) && {alike}"
    if level == 2:
        alike = f"!(k1 == 'plugins' && {_one_is_missing()}) && {alike}"
    return alike


def _one_is_missing() -> str:
    """Whether one of two Jobs has not the plugin, and does not have it because another plugin needs it."""
    needed = f"(k2 == 'svc' && {texts(NEED_SVC)}.exists(p, p in m)) || (k2 == 'ssh' && 'mpi' in m)"
    there = f"p1.map(m, m != null && (m[?k2].orValue(null) != null || {needed}))"
    return f"[{there}].exists(q, q[0] != q[1])"


def _first_below(level: int) -> str:
    pair, key = f"p{level}", f"k{level + 1}"
    both = f"{pair}.map(v, v == null ? dyn([]) : dyn(v.transformList(k, w, k)))"
    keys = f"[{both}].map(q, q[0] + q[1].filter(k, !(k in q[0])))[0]"
    free = {
        0: f".filter(k1, !(k1 in {texts(FREE_OF_JOB)}))",
        2: f".filter(k3, !(k1 == 'tasks' && k3 in {texts(FREE_OF_TASK)}))",
    }.get(level, "")
    below = _bound(f"{pair}.map(v, v == null ? dyn(null) : dyn(v)[?{key}].orValue(null))", level + 1)
    segment = f"(type({key}) == int ? '[' + string({key}) + ']' : '.' + {key})"
    changes = f"{keys}{free}.map({key}, [{below}].map(s, s == '' ? '' : {segment} + s)[0])"
    return f"({changes}.filter(s, s != '') + [''])[0]"


def _shown(value: str) -> str:
    cut = f"{value}.substring(0, size({value}) > 60 ? 60 : size({value}))"
    return (
        f"{value} == null ? 'nothing' : type({value}) == string ? '\"' + {cut} + '\"'"
        f" : type({value}) == list ? string(size({value})) + ' entries'"
        f" : type({value}) == map ? 'a mapping' : string({value})"
    )
