"""Which Jobs of a JobFlow start now, and what its status says. Pure."""
