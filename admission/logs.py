"""Log lines for machines (JSON) or people (console), with the workload and the term they are about.

with logs.about(workload="vcjob/ml/train", term=7):
    logger.info("released %d pods", 8)
"""

import json
import logging
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Literal, TextIO

from queues.text_format import rfc3339

_about: ContextVar[Mapping[str, object]] = ContextVar("about", default={})  # noqa: B039 (never mutated)

#: Attributes every record has; anything else came in by ``extra``.
_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "about"}

#: Lines hold what users wrote: no part of a pattern may look further for each place where it could begin.
_SECRETS: Final = (
    (re.compile(r"(\b[a-z][a-z0-9+.]{0,30}://[^\s:/@]{0,500}):[^\s@]{1,1000}@"), r"\1:***@"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}"), r"\1 ***"),
    (re.compile(r"(?i)\b(password|passwd|token|secret)(\s*[=:]\s*)(['\"]?)[^\s'\",;&]+"), r"\1\2\3***"),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S), "***"),
)


@contextmanager
def about(**fields: object) -> Iterator[None]:
    """Lines logged inside (tasks started inside included) carry these fields: ``workload``, ``term``, …"""
    token = _about.set({**_about.get(), **fields})
    try:
        yield
    finally:
        _about.reset(token)


def redact(text: str) -> str:
    """The text without passwords of URLs, tokens and private keys."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


def configure(*, form: Literal["json", "console"], level: str, stream: TextIO | None = None) -> None:
    """Send the log of the process to a stream (standard error if None)."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else ConsoleFormatter())
    handler.addFilter(_add_fields)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.captureWarnings(True)
    # Lines of these libraries about each statement or request do not help administrators.
    for noisy in ("sqlalchemy", "alembic", "aiohttp.access", "asyncio"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, root.level))
    logging.getLogger("aiohttp.server").addFilter(_is_about_this_program)


def _is_about_this_program(record: logging.LogRecord) -> bool:
    """Not about requests that cannot be read: any client can send these without end, and fill the log."""
    error = record.exc_info[1] if record.exc_info else None
    return record.levelno < logging.WARNING or type(error).__module__ != "aiohttp.http_exceptions"


def _add_fields(record: logging.LogRecord) -> bool:
    record.about = _about.get()
    return True


def _fields(record: logging.LogRecord) -> dict[str, object]:
    extra = {name: value for name, value in vars(record).items() if name not in _OWN}
    return {**getattr(record, "about", {}), **extra}


def _moment(record: logging.LogRecord) -> str:
    return rfc3339(record.created, "milliseconds")


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, the fields, and error with its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, Any] = {
            "time": _moment(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
            **{name: _told(value) for name, value in _fields(record).items()},
        }
        if record.exc_info:
            line["error"] = redact(self.formatException(record.exc_info))
        if record.stack_info:
            line["stack"] = redact(record.stack_info)
        return json.dumps(line, ensure_ascii=False)


def _told(value: object) -> object:
    """A field as JSON: numbers stay numbers, everything else is text without secrets."""
    return value if isinstance(value, int | float | bool | None) else redact(str(value))


class ConsoleFormatter(logging.Formatter):
    """``02:39:41.123 INFO  admission.cycle: admitted 2 gangs  term=7 workload=vcjob/ml/train``."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        fields = "".join(f" {name}={value}" for name, value in sorted(_fields(record).items()))
        line = f"{_moment(record)[11:23]} {record.levelname:<7} {record.name}: {record.getMessage()}"
        if fields:
            line += f" {fields}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return redact(line)
