"""Requests to cluster autoscalers at the API server."""
