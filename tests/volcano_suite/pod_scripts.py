"""What the container of a simulated pod does: simple shell commands, read as far as the suite uses them. Pure."""

import re
from typing import Any, NamedTuple

Document = dict[str, Any]

#: They run until they are stopped.
_SERVERS = re.compile(r"sshd -D|\bnginx\b|ray start|tail -f|\bsleep inf|while (true|:)|trap '' TERM")
#: A parameter server of TensorFlow never ends.
_PARAMETER_SERVER = re.compile(r'type\\*"\s*:\s*\\*"ps')
#: Seconds that programs take; all succeed.
_PROGRAMS = {"python": 3.0, "python3": 3.0, "mpiexec": 3.0, "mpirun": 3.0}
_AT_ONCE = frozenset(
    {"cat", "cd", "date", "echo", "export", "ls", "mkdir", "rm", "set", "true", "/usr/sbin/sshd"}
)
NOT_FOUND = 127


class Ending(NamedTuple):
    """How the container of a pod ends by itself."""

    seconds: float
    exit_code: int


def ending_of(pod: Document) -> Ending | None:
    """How the first container ends; None: it runs until it is stopped."""
    container = pod["spec"]["containers"][0]
    words = [*container.get("command", ()), *container.get("args", ())]
    if not words:
        return Ending(0.0, 0) if "busybox" in container["image"] else None
    text = words[-1] if len(words) > 2 and words[-2] == "-c" else " ".join(words)
    if _SERVERS.search(text) or _PARAMETER_SERVER.search(text):
        return None
    return _played(text)


def ignores_termination(pod: Document) -> bool:
    """Whether the container runs on until the grace period of its deletion is over."""
    return "trap '' TERM" in str(pod["spec"]["containers"][0].get("command", ""))


def _played(text: str) -> Ending:
    seconds = 0.0
    for command in re.split(r"\n|;|&+", re.sub(r"`[^`]*`", "X", text)):
        words = command.split()
        while words and re.match(r"[A-Za-z_]\w*=", words[0]):
            words = words[1:]
        match words:
            case [] | ["#", *_]:
                continue
            case ["sleep", time]:
                seconds += float(time.rstrip("s"))
            case ["exit", code]:
                return Ending(seconds, int(code))
            case ["sh" | "/bin/sh", *_]:
                return Ending(seconds, 2)  # the script does not exist
            case [name, *_] if name in _PROGRAMS:
                seconds += _PROGRAMS[name]
            case [name, *_] if name not in _AT_ONCE:
                return Ending(seconds, NOT_FOUND)
    return Ending(seconds, 0)
