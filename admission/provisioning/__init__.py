"""Nodes that waiting gangs ask a cluster autoscaler for: with which requests, and what comes after them. Pure."""
