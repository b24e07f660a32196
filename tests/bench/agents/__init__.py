"""What node agents cost: one of them on its node, and hundreds of them at the API server."""
