"""Spans to a collector, by OTLP over HTTP: the only module that knows OpenTelemetry, which is there if wanted.

Its SDK reads the standard variables (``OTEL_EXPORTER_OTLP_ENDPOINT``, ``OTEL_EXPORTER_OTLP_HEADERS``,
``OTEL_RESOURCE_ATTRIBUTES`` …). It blocks while it sends, and tries again for up to ``OTEL_EXPORTER_OTLP_TIMEOUT``.
"""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from admission.tracing.spans import GangSpan
from queues.errors import InvalidSettings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL: Final = "http/protobuf"
_MICROSECONDS: Final = 1_000_000


class OtlpExporter:
    """Sends spans. Used by one thread."""

    def __init__(
        self,
        send: Callable[[Sequence["ReadableSpan"]], bool],
        readable: Callable[[GangSpan], "ReadableSpan"],
    ) -> None:
        self._send = send
        self._readable = readable

    @classmethod
    def connect(cls, identity: str) -> "OtlpExporter":
        """Nothing is sent yet. ``identity``: name of this replica.

        Raises InvalidSettings: the packages are not installed, or a variable cannot be used.
        """
        check_environment(os.environ)
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.trace.export import SpanExportResult
        except ImportError as error:
            raise InvalidSettings(
                problems=f"tracing: found true, but {error.name} is not installed; expected the packages of the extra "
                "tracing: pip install 'muster[tracing]'"
            ) from error
        # It logs each attempt; the sender logs when the collector goes away and comes back.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        exporter = OTLPSpanExporter()
        readable = _readable_spans(_about_this_process(identity, os.environ))
        return cls(lambda spans: exporter.export(spans) is SpanExportResult.SUCCESS, readable)

    def send(self, spans: Sequence[GangSpan]) -> bool:
        """Whether the collector took them. Blocks."""
        return self._send(list(map(self._readable, spans)))


def _about_this_process(identity: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Attributes of all spans that the environment does not set itself."""
    own = {"service.name": "muster", "service.version": version("muster"), "service.instance.id": identity}
    pairs = variables.get("OTEL_RESOURCE_ATTRIBUTES", "").split(",")
    said = {pair.partition("=")[0].strip() for pair in pairs}
    if variables.get("OTEL_SERVICE_NAME"):
        said.add("service.name")
    return {name: value for name, value in own.items() if name not in said}


def check_environment(variables: Mapping[str, str]) -> None:
    """Raises InvalidSettings for variables with which nothing would ever arrive."""
    for name in _PROTOCOLS:
        if (found := variables.get(name)) and found != _PROTOCOL:
            raise InvalidSettings(
                problems=f"environment: {name}: found {found!r}, expected {_PROTOCOL}, the only protocol of Muster"
            )
    for name in _ENDPOINTS:
        if not (found := variables.get(name)):
            continue
        if not _is_url(found):
            raise InvalidSettings(
                problems=f"environment: {name}: found {found!r}, expected a URL such as http://collector.monitoring:4318"
            )


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and (parts.port is None or parts.port > 0)
        )
    except ValueError:
        return False


def _readable_spans(about_process: Mapping[str, str]) -> Callable[[GangSpan], "ReadableSpan"]:
    """What makes OpenTelemetry's spans of ours, with attributes of the process."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

    resource = Resource.create(dict(about_process))
    scope = InstrumentationScope("muster", version("muster"))
    flags, unset = TraceFlags(TraceFlags.SAMPLED), Status(StatusCode.UNSET)

    def context(trace: str, id_: str, *, remote: bool = False) -> SpanContext:
        return SpanContext(int(trace, 16), int(id_, 16), is_remote=remote, trace_flags=flags)

    def readable(span: GangSpan) -> ReadableSpan:
        return ReadableSpan(
            span.name,
            context=context(span.trace, span.id),
            parent=context(span.trace, span.parent, remote=True) if span.parent else None,
            resource=resource,
            attributes=dict(span.attributes),
            status=Status(StatusCode.ERROR, span.error) if span.error else unset,
            start_time=_nanoseconds(span.start),
            end_time=_nanoseconds(span.end),
            instrumentation_scope=scope,
        )

    return readable


def _nanoseconds(seconds: float) -> int:
    """To the microsecond: a number of seconds since the epoch is not more precise."""
    return round(seconds * _MICROSECONDS) * 1000
