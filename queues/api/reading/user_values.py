"""Values that users name or write → values within bounds, or the obstacle that says what is wrong.

The API server stores labels and annotations of 256 KiB, numbers of any length in free-form documents, and lists as long
as an object may be. What Muster reads of them passes here once, before it reaches memory, Postgres or the engine.
Bounds lie far beyond what work needs, and far below what harms the work of others.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

from queues.reason_codes import ReasonCode
from queues.text_format import excerpt, seconds_of
from queues.workload import UNUSABLE_QUEUE, HostPort, NodeFilter, Obstacle, Preference, QueueName, Requirement

#: Pods of one workload at a time: a gang is admitted in one transaction, and looked at in one step of the loop. With
#: eight devices for each pod these are 80,000.
MOST_PODS: Final = 10_000
#: Pod sets of one workload: tasks of a Volcano Job, different shapes of the members of a PodGroup.
MOST_POD_SETS: Final = 256
#: Volumes and plugins of one Volcano Job, and flags of one plugin.
MOST_ENTRIES: Final = 256
#: Different resources that one pod asks for, and different limits of one queue.
MOST_RESOURCES: Final = 64
MOST_LIMITS: Final = 1000
#: Tolerations, labels of the nodeSelector, expressions and listed values of node affinity of one pod.
MOST_TOLERATIONS: Final = 256
MOST_EXPRESSIONS: Final = 512
MOST_LISTED: Final = 5000
#: Bytes of affinity in a pod, or in all templates of one workload; where Muster has added nodes, four times as many.
LARGEST_AFFINITY: Final = 128 * 1024
#: Containers of one pod, init containers included.
MOST_CONTAINERS: Final = 1000
#: Host ports of one pod, and labels of one pod that selectors are compared with.
MOST_PORTS: Final = 256
MOST_LABELS: Final = 256
#: Entries of one PodGroup's subGroupPolicy, and keys of each.
MOST_SUBGROUPS: Final = 64
MOST_KEYS: Final = 16
#: Characters of a name of the API, of a label's key with its prefix and of its value, and of a message about an object.
LONGEST_NAME: Final = 253
LONGEST_KEY: Final = 317
LONGEST_LABEL_VALUE: Final = 63
LONGEST_MESSAGE: Final = 1000

#: Digits of a number that users may have written: a bigint holds it.
_LONGEST_NUMBER: Final = 18
#: Uids of the API server are UUIDs; owner references may say anything.
_LONGEST_UID: Final = 64

#: Seconds for which quota may be held for pods that are not made yet: no other workload can use it in that time.
LONGEST_HOLD: Final = 3600
HOLD_EXPECTED: Final = "a duration above 0s and of at most 1h, such as 10m"

LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
SUBDOMAIN: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_KEY: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_UID: Final = re.compile(r"[-A-Za-z0-9_.]+")

QUEUE_EXPECTED: Final = (
    f"the name of a queue: lower case letters, digits, - and ., at most {LONGEST_LABEL_VALUE} characters"
)


class UserValues:
    """Reads the values of one object. A value that cannot be used is left out; the first one is the obstacle."""

    __slots__ = ("obstacle",)

    def __init__(self, obstacle: Obstacle | None = None) -> None:
        #: Why the object cannot be considered as it is written; None if all of it can be used.
        self.obstacle = obstacle

    def refuse(self, where: str, found: str, expected: str) -> None:
        """Note that a value cannot be used. ``where``: the field, label or annotation."""
        self.note(f"{where}: found {found}, expected {expected}")

    def note(self, message: str, code: ReasonCode = ReasonCode.INVALID_SPEC) -> None:
        """Note why the object cannot be used, in words."""
        if self.obstacle is None:
            self.obstacle = Obstacle(code, shortened(message, LONGEST_MESSAGE))

    def adopt(self, obstacle: Obstacle | None) -> None:
        """Note what was found in a part of the object; None: nothing."""
        if self.obstacle is None:
            self.obstacle = obstacle

    def queue(self, where: str, text: str | None) -> QueueName | None:
        """The queue of that name; None or "": none is named. ``UNUSABLE_QUEUE``: no queue can have the name."""
        if not text:
            return None
        if is_dns_name(text):
            return QueueName(text)
        self.refuse(where, excerpt(text), QUEUE_EXPECTED)
        return UNUSABLE_QUEUE

    def name(self, where: str, text: str | None) -> str | None:
        """The name of an object (a DNS subdomain); None if none is given, or if no object can have that name."""
        return self._usable(where, text, is_dns_name, f"a DNS name of at most {LONGEST_NAME} characters")

    def word(self, where: str, text: str | None) -> str | None:
        """Free text that is compared and shown, at most as long as a name; None if none is given, or it is longer."""
        return self._usable(
            where, text, lambda word: len(word) <= LONGEST_NAME, f"at most {LONGEST_NAME} characters"
        )

    def task(self, where: str, text: str | None) -> str:
        """The name of a task (a DNS label); "": none is given, or no pod can have it in its name."""
        expected = "a DNS label: lower case letters, digits and -, at most 63 characters"
        return self._usable(where, text, is_dns_label, expected) or ""

    def label_key(self, where: str, text: str | None) -> str | None:
        """The key of a label, such as a topology level; None if none is given, or if no label can have that key."""
        return self._usable(where, text, is_label_key, "the key of a node label")

    def _usable(
        self, where: str, text: str | None, is_usable: Callable[[str], bool], expected: str
    ) -> str | None:
        if not text or is_usable(text):
            return text or None
        self.refuse(where, excerpt(text), expected)
        return None

    def at_most(self, where: str, found: int, most: int, noun: str) -> bool:
        """True if there are at most so many; else it is noted that there are more."""
        if found <= most:
            return True
        self.refuse(where, f"{found} {noun}", f"at most {most}")
        return False


def is_dns_label(text: str) -> bool:
    """True for a DNS label, the form of names that become a part of a host's name."""
    return len(text) <= LONGEST_LABEL_VALUE and LABEL.fullmatch(text) is not None


def is_dns_name(text: str) -> bool:
    """True for a DNS subdomain, the form of most names of the API."""
    return len(text) <= LONGEST_NAME and SUBDOMAIN.fullmatch(text) is not None


def is_label_key(text: str) -> bool:
    """True for the key of a label, and for the name of a resource: ``[prefix/]name``."""
    if len(text) > LONGEST_KEY:
        return False
    prefix, slash, name = text.rpartition("/")
    if slash and not is_dns_name(prefix):
        return False
    return len(name) <= 63 and _KEY.fullmatch(name) is not None


def is_label_value(text: str) -> bool:
    """True for the value of a label."""
    return not text or (len(text) <= LONGEST_LABEL_VALUE and _KEY.fullmatch(text) is not None)


def is_uid(text: str) -> bool:
    """True for a uid that an object of the API server can have."""
    return len(text) <= _LONGEST_UID and _UID.fullmatch(text) is not None


def number(text: str | None) -> int | None:
    """A number that users may have written; None if the text is no number, or one too long for a bigint."""
    return int(text) if text and len(text) <= _LONGEST_NUMBER and text.isdecimal() else None


def index(text: str | None) -> int | None:
    """The index of a pod inside its set, 0 or more; None if the text is no index that a pod can have."""
    found = number(text)
    return None if found is None or found >= MOST_PODS else found


def duration(text: str | None) -> int | None:
    """A Go duration in whole seconds, at most ``queues.api.model.LONGEST_SECONDS``; None if the text is no duration."""
    seconds = None if text is None else seconds_of(text)
    return None if seconds is None or seconds < 0 else int(seconds)


def hold_seconds(text: str) -> int | None:
    """For how long quota is held for pods that are being made, in seconds; None if the text is no usable duration."""
    seconds = duration(text)
    return seconds if seconds is not None and 0 < seconds <= LONGEST_HOLD else None


def shortened(text: str, length: int = LONGEST_NAME) -> str:
    """The text, cut where it is longer. Different texts stay different."""
    if len(text) <= length:
        return text
    digest = blake2b(text.encode(errors="replace"), digest_size=6).hexdigest()
    return f"{text[: length - 14]}… {digest}"


def counted_places(spec: Any, values: UserValues, where: str) -> bool:
    """True if tolerations and labels of nodes in a spec are few enough to be read; else it is noted."""
    return values.at_most(
        f"{where}.tolerations", len(spec.tolerations or ()), MOST_TOLERATIONS, "tolerations"
    ) and values.at_most(f"{where}.nodeSelector", len(spec.node_selector or ()), MOST_EXPRESSIONS, "labels")


def counted_filter(nodes: NodeFilter, prefers: Sequence[Preference], values: UserValues, where: str) -> bool:
    """True if the wishes of a pod about its nodes are few enough to be compared with nodes; else it is noted."""
    terms = [*nodes.affinity, *(each.requirements for each in prefers)]
    expressions = len(nodes.selector) + sum(map(len, terms))
    listed = sum(len(each.values) for term in terms for each in term)
    return values.at_most(
        f"{where}.affinity", expressions, MOST_EXPRESSIONS, "expressions about nodes"
    ) and values.at_most(f"{where}.affinity", listed, MOST_LISTED, "values in expressions about nodes")


def counted_selector(selector: Sequence[Requirement]) -> bool:
    """True if a label selector is small enough to be compared with the labels of many pods."""
    listed = sum(len(each.values) for each in selector)
    return len(selector) <= MOST_LABELS and listed <= MOST_LISTED


def counted_ports(ports: Sequence[HostPort], values: UserValues, where: str) -> tuple[HostPort, ...]:
    """The host ports of a pod, the first ones only if they are too many; then that is noted."""
    values.at_most(f"{where}.containers[].ports", len(ports), MOST_PORTS, "host ports")
    return tuple(ports[:MOST_PORTS])


def counted_labels(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Labels sorted by key, the first ones only if they are too many."""
    found = sorted(labels.items())
    return tuple(found[:MOST_LABELS])


def shared_claim_problem(claim: str) -> tuple[str, str]:
    """What is found and what is expected where a pod names a ResourceClaim. ``claim``: its name; "": it names none."""
    found = f"ResourceClaim {shortened(claim)}" if claim else "neither a claim nor a template"
    expected = "resourceClaimTemplateName: devices that pods may share are not counted. Have a claim made for each pod"
    return found, expected


def resource_problem(names: Mapping[str, Any], most: int = MOST_RESOURCES) -> tuple[str, str] | None:
    """What is found and what is expected where the names of resources cannot be used; None if they can."""
    if len(names) > most:
        return f"{len(names)} resources", f"at most {most}"
    wrong = next((name for name in names if not is_label_key(name)), None)
    return (
        None
        if wrong is None
        else (f"resource {excerpt(wrong)}", "the name of a resource, such as nvidia.com/gpu")
    )
