"""Plugins of a Volcano Job and their flags: which there are, their defaults, and how a Job writes them. Pure."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from queues.errors import InvalidDocument

#: Plugins that have an effect, with their flags that have one, and the defaults of Volcano. Text, a truth value, or a
#: number: of a port, or of seconds.
PLUGINS: Final[Mapping[str, Mapping[str, str | bool | int]]] = {
    "env": {},
    "svc": {
        "publish-not-ready-addresses": False,
        "disable-network-policy": False,
        "inject-hosts-env": True,
    },
    "ssh": {"ssh-key-file-path": "/root/.ssh", "ssh-private-key": "", "ssh-public-key": "", "ssh-port": 22},
    "mpi": {"master": "master", "worker": "worker", "port": 22},
    "pytorch": {
        "master": "master",
        "worker": "worker",
        "port": 23456,
        "wait-master-enabled": False,
        "wait-master-timeout": 300,
        "wait-master-image": "busybox:1.36.1",
    },
    "tensorflow": {
        "ps": "ps",
        "worker": "worker",
        "chief": "chief",
        "evaluator": "evaluator",
        "port": 2222,
    },
    "ray": {
        "head": "head",
        "headContainer": "head",
        "worker": "worker",
        "workerContainer": "worker",
        "port": 6379,
        "dashboardPort": 8265,
        "clientPort": 10001,
    },
    "hcclrank": {"master": "master", "worker": "worker"},
}
#: Numbers that are no ports.
_SECONDS: Final = ("wait-master-timeout",)
_TRUTHS: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


@dataclass(frozen=True, slots=True)
class PluginFlags:
    """All flags of one plugin of a Job, by what they are: with the values that are written, or their defaults."""

    texts: Mapping[str, str]
    switches: Mapping[str, bool]
    numbers: Mapping[str, int]

    @classmethod
    def of(cls, plugin: str, arguments: Iterable[str]) -> "PluginFlags":
        """The flags in the arguments of a plugin. Raises InvalidDocument."""
        written = written_flags(plugin, arguments)
        texts, switches, numbers = dict[str, str](), dict[str, bool](), dict[str, int]()
        for name, default in PLUGINS[plugin].items():
            text = written.get(name)
            if isinstance(default, str):
                texts[name] = text or default
            elif isinstance(default, bool):
                switches[name] = default if text is None else _truth(plugin, name, text)
            else:
                numbers[name] = default if text is None else _number(plugin, name, text)
        if bool(texts.get("ssh-private-key")) != bool(texts.get("ssh-public-key")):
            raise InvalidDocument(
                where=f"spec.plugins.{plugin}",
                found="one of --ssh-private-key and --ssh-public-key",
                expected="both, or neither to have a key pair made",
            )
        return cls(texts, switches, numbers)


def written_flags(plugin: str, arguments: Iterable[str]) -> Mapping[str, str]:
    """Flag → value, as a Go command line takes them: ``--a=b``, ``-a=b``, ``--a b``; a switch alone is ``true``.

    Other words are ignored.
    """
    known, found = PLUGINS.get(plugin, {}), dict[str, str]()
    words = deque(arguments)
    while words:
        word = words.popleft().strip()
        if not word.startswith("-"):
            continue
        name, equals, value = word.lstrip("-").partition("=")
        if equals:
            found[name] = value
        elif isinstance(known.get(name), bool):
            found[name] = "true"
        else:
            found[name] = words.popleft().strip() if words and not words[0].startswith("-") else ""
    return found


def unsupported_plugins(plugins: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Plugins of a Job, and flags of them, that are not acted on: as field paths."""
    for name in sorted(plugins.keys() - PLUGINS.keys()):
        yield f"spec.plugins.{name}"
    for name, flags in PLUGINS.items():
        for flag in sorted(written_flags(name, plugins.get(name, ())).keys() - flags.keys()):
            yield f"spec.plugins.{name} --{flag}"


def _truth(plugin: str, name: str, text: str) -> bool:
    if text not in _TRUTHS:
        raise _invalid(plugin, name, text, "true or false")
    return _TRUTHS[text]


def _number(plugin: str, name: str, text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 7 else -1
    if name in _SECONDS:
        if number < 0:
            raise _invalid(plugin, name, text, "a number of seconds")
    elif not 0 < number < 65536:
        raise _invalid(plugin, name, text, "a port, 1 to 65535")
    return number


def _invalid(plugin: str, name: str, text: str, expected: str) -> InvalidDocument:
    return InvalidDocument(where=f"spec.plugins.{plugin} --{name}", found=text, expected=expected)
