"""Devices of dynamic resource allocation: counted as amounts of a resource, on nodes and of pods. Pure."""
