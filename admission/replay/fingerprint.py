"""The deciding code as one short hash: two runs with the same hash decide alike.

It covers the defaults of all policies and the text of every module that takes part in ``decide()``, so a
simulation with the controller's hash ran the controller's engine.
"""

import importlib
import json
import pkgutil
from dataclasses import asdict
from functools import lru_cache
from hashlib import sha256
from importlib.abc import InspectLoader
from types import ModuleType
from typing import Final

from queues.quota.queue import DEFAULT_POLICY, Queue

#: Packages and modules with code that takes part in a decision or its messages; of a package all modules below it.
_DECIDING: Final = (
    "admission.engine",
    "queues.admissions",
    "queues.eviction_rest",
    "queues.flavor_growth",
    "queues.label_selectors",
    "queues.node_closures",
    "queues.order",
    "queues.parts",
    "queues.plan",
    "queues.quota",
    "queues.reason_codes",
    "queues.resources",
    "queues.versioned_map",
    "queues.text_format",
    "queues.workload",
)


def fingerprint(root: Queue | None = None) -> str:
    """The hash, with the rules that ``root`` sets for all queues (the defaults if None)."""
    own: dict[str, object] = {}
    if root is not None:
        own = {
            **asdict(root.policy),
            "order": root.order,
            "placement": root.placement,
            "ageing": root.ageing_per_hour,
        }
        own = {name: rule for name, rule in own.items() if rule is not None}
    rules = {"default": asdict(DEFAULT_POLICY), "root": own, "engine": _engine()}
    return sha256(json.dumps(rules, sort_keys=True).encode()).hexdigest()[:12]


@lru_cache(maxsize=1)
def _engine() -> str:
    """A hash of the engine's text."""
    text = sha256()
    for module in _modules():
        loader = module.__spec__.loader if module.__spec__ is not None else None
        source = loader.get_source(module.__name__) if isinstance(loader, InspectLoader) else None
        text.update(f"{module.__name__}\n{source or ''}\n".encode())
    return text.hexdigest()


def _modules() -> list[ModuleType]:
    found: dict[str, ModuleType] = {}
    for name in _DECIDING:
        module = found[name] = importlib.import_module(name)
        for each in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{name}."):
            found[each.name] = importlib.import_module(each.name)
    return [found[name] for name in sorted(found)]
