"""A control plane of one's own: the real API server, scheduler and controllers, with simulated nodes."""
