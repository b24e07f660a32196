"""What happened to pods, for tests."""

from deploy.local.history import Moment, PodHistory

__all__ = ["Moment", "PodHistory"]
