"""``make plugin-check``: a policy of others serves wherever a queue of a test or a simulation names none."""

import os
from importlib import import_module
from typing import Final

from queues.plugins.built_in import DEFAULTS
from queues.plugins.interface import Policy

#: ``module:Class`` of the policy.
VARIABLE: Final = "MUSTER_TESTED_PLUGIN"


def tested_plugin() -> str:
    """The policy that the environment names; "": none."""
    return os.environ.get(VARIABLE, "")


def serve_in_place() -> None:
    """Have the policy that the environment names serve in the place of Muster's own; none is named: nothing changes."""
    module, _, name = tested_plugin().partition(":")
    if module:
        policy: type[Policy] = getattr(import_module(module), name)
        DEFAULTS[policy.sort] = policy
