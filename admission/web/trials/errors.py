"""What a leader answers to trials that cannot be answered as they are asked."""

from queues.errors import MusterError


class NotAllowed(MusterError):
    """{failure}"""


class TrialRefused(MusterError):
    """{failure}"""
