"""Muster's container image: a root file system of hash-pinned wheels and Debian packages, and an OCI archive of it."""
