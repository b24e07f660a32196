"""Traces of gangs, from creation to running, for OpenTelemetry. Off unless ``tracing`` is set."""
