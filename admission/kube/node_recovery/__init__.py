"""The recovery of nodes at the API server: what it shows of it, and what is done there."""
