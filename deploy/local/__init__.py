"""A local control plane: the real API server, scheduler and controllers, with simulated nodes."""
