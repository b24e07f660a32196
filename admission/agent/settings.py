"""Settings of ``muster agent``, read once at start-up: flags over environment over defaults.

One field has one name in two spellings: ``MUSTER_AGENT_POLL_SECONDS`` in the environment, ``--poll-seconds`` as a flag.
Units are part of the name. Plain dataclasses: the library that reads the controller's settings takes more memory than
the agent.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any, Final

from queues.errors import InvalidSettings
from queues.text_format import host_and_port

PREFIX: Final = "MUSTER_AGENT_"
#: Variables that Kubernetes sets where a Service is called muster-agent.
_SERVICE_LINK: Final = re.compile(PREFIX + r"(SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_\w+)?)")


def _setting(default: Any, description: str) -> Any:
    return field(default=default, metadata={"description": description})


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """All settings of ``muster agent``."""

    node_name: str = _setting("", "Name of the Node that the agent runs on (required).")
    poll_seconds: float = _setting(10.0, "Seconds between two readings of all devices; events come at once.")
    hang_seconds: float = _setting(
        60.0, "If a vendor's library has not answered for this long, its devices are reported as lost."
    )
    start_spread_seconds: float = _setting(
        5.0, "The first request comes after a random part of so many seconds: agents often start together."
    )
    report_load: bool = _setting(
        False, "Whether the Device says how busy and how hot the devices are, for policies that score nodes."
    )
    metrics_listen: str = _setting(":9402", "Address of /metrics and /healthz; empty: none.")
    kubelet_dir: str = _setting(
        "/var/lib/kubelet",
        "Folder of the kubelet, whose device-plugins tell which pod has which device.",
    )
    log_format: str = _setting("json", "Form of the log: json or console.")
    log_level: str = _setting("info", "Least important lines of the log: debug, info, warning or error.")


def read(flags: Mapping[str, str | None], environment: Mapping[str, str]) -> AgentSettings:
    """Settings from flags and environment. Raises InvalidSettings with all problems at once."""
    known = {each.name for each in fields(AgentSettings)}
    given = {name: text for name, text in flags.items() if text is not None and name in known}
    problems = []
    for variable, text in environment.items():
        name = variable.removeprefix(PREFIX).lower()
        if not variable.startswith(PREFIX) or _SERVICE_LINK.fullmatch(variable):
            continue
        if name in known:
            given.setdefault(name, text)
        else:
            near = get_close_matches(name, known, 1)
            meant = f"; did you mean {PREFIX}{near[0].upper()}" if near else ""
            problems.append(f"{variable}: there is no such setting{meant}")
    values: dict[str, Any] = {}
    for name, text in given.items():
        try:
            values[name] = _READERS[name](text.strip())
        except ValueError as error:
            problems.append(f"{name}: {error}")
    if not values.get("node_name"):
        problems.append(
            f"node_name: found none, expected the name of this Node (--node-name, {PREFIX}NODE_NAME)"
        )
    if problems:
        raise InvalidSettings(problems="; ".join(problems) + ".")
    return AgentSettings(**values)


def address(text: str) -> tuple[str, int]:
    """Host ("": every interface) and port of ``host:port`` or ``:port``. Raises ValueError."""
    if (found := host_and_port(text)) is None:
        raise ValueError(
            f"found {text!r}, expected host:port or :port (0 to 65535), such as :9402 or [::1]:9402"
        )
    return found


def _listen(text: str) -> str:
    if text:
        address(text)
    return text


def _seconds(text: str, *, least: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not least <= value <= 86_400:
        raise ValueError(f"found {text!r}, expected seconds from {least:g} to 86400")
    return value


def _one_of(*words: str) -> Any:
    def read_word(text: str) -> str:
        if text not in words:
            raise ValueError(f"found {text!r}, expected {', '.join(words)}")
        return text

    return read_word


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"found {text!r}, expected true or false")
    return text.lower() == "true"


_READERS: Final[Mapping[str, Any]] = {
    "node_name": str,
    "poll_seconds": lambda text: _seconds(text, least=0.1),
    "hang_seconds": lambda text: _seconds(text, least=1),
    "start_spread_seconds": lambda text: _seconds(text, least=0),
    "report_load": _flag,
    "metrics_listen": _listen,
    "kubelet_dir": str,
    "log_format": _one_of("json", "console"),
    "log_level": _one_of("debug", "info", "warning", "error"),
}
