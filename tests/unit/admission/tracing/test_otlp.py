"""Spans as a collector gets them: by OTLP over HTTP, where the standard variables say."""

import builtins
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from admission.tracing.otlp import OtlpExporter, check_environment
from admission.tracing.spans import spans_of
from queues.errors import InvalidSettings
from tests.fakes.tracing.otlp_collector import collector
from tests.unit.admission.tracing.test_spans import RAN, TRACE, T

PARENT = "00f067aa0ba902b7"


def test_a_collector_gets_a_trace_as_it_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    spans = spans_of(
        replace(
            RAN,
            running=None,
            evicted=T + 80,
            cause="Preempted",
            numbers={**RAN.numbers, "parentSpan": PARENT},
        )
    )
    with collector() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20secret")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "k8s.cluster.name=west")
        assert OtlpExporter.connect("muster-0").send(spans)

        assert [(each.name, each.start, each.end) for each in found.spans] == [
            (each.name, each.start, each.end) for each in spans
        ]
        assert [(each.trace, each.id, each.parent) for each in found.spans] == [
            (TRACE, each.id, each.parent) for each in spans
        ]
        whole = found.spans[0]
        assert whole.parent == PARENT
        assert whole.attributes == {**spans[0].attributes}
        assert [each.name for each in found.spans if each.error == "Preempted"] == ["admission", "evicted"]
        about = whole.resource
        assert (about["service.name"], about["service.instance.id"]) == ("muster", "muster-0")
        assert about["k8s.cluster.name"] == "west"
        ((path, headers),) = found.requests
        assert path == "/v1/traces"
        assert headers["authorization"] == "Bearer secret"


def test_the_environment_may_name_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    with collector() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "muster-west")
        assert OtlpExporter.connect("muster-0").send(spans_of(RAN))
        assert found.spans[0].resource["service.name"] == "muster-west"


def test_a_collector_that_refuses_has_not_taken_them(monkeypatch: pytest.MonkeyPatch) -> None:
    with collector() as found:
        found.status = 400
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        assert not OtlpExporter.connect("muster-0").send(spans_of(RAN))


def test_a_collector_that_is_away_has_not_taken_them(monkeypatch: pytest.MonkeyPatch) -> None:
    with collector() as found:
        url = found.url
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
    assert not OtlpExporter.connect("muster-0").send(spans_of(RAN))


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318", "expected a URL such as http://"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "grpc://collector:4317", "expected a URL such as http://"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:port", "expected a URL such as http://"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "expected http/protobuf"),
    ],
)
def test_a_variable_with_which_nothing_would_arrive_is_refused(variable: str, value: str, said: str) -> None:
    with pytest.raises(InvalidSettings, match=said) as refused:
        check_environment({variable: value})
    assert variable in str(refused.value)
    assert repr(value) in str(refused.value)


def test_without_the_packages_whoever_wants_traces_is_told_how_to_get_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = builtins.__import__

    def without(name: str, *more: Any) -> Any:
        if name.startswith("opentelemetry"):
            raise ImportError("no", name="opentelemetry")
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InvalidSettings, match=r"pip install 'muster\[tracing\]'"):
        OtlpExporter.connect("muster-0")


def test_nothing_of_it_is_imported_while_traces_are_off() -> None:
    asked = (
        "import sys, admission.controller; print([each for each in sys.modules if 'opentelemetry' in each])"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
