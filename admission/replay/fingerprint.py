"""The deciding code as one short hash: two runs with the same hash decide alike.

It covers the text of every module that takes part in ``decide()``, the defaults of all policies among them, and the
plug-ins of this process.
"""

import importlib
import pkgutil
from functools import lru_cache
from hashlib import sha256
from importlib.abc import InspectLoader
from types import ModuleType
from typing import Final

from queues.plugins.registry import plugins

#: Packages and modules with code that takes part in a decision or its messages; of a package all modules below it.
_DECIDING: Final = (
    "admission.engine",
    "queues.admissions",
    "queues.eviction_rest",
    "queues.flavor_growth",
    "queues.kind_names",
    "queues.label_selectors",
    "queues.node_closures",
    "queues.order",
    "queues.parts",
    "queues.plan",
    "queues.plugins",
    "queues.quota",
    "queues.reason_codes",
    "queues.resources",
    "queues.versioned_map",
    "queues.text_format",
    "queues.workload",
)


@lru_cache(maxsize=1)
def fingerprint() -> str:
    """The hash."""
    text = sha256()
    for module in _modules():
        loader = module.__spec__.loader if module.__spec__ is not None else None
        source = loader.get_source(module.__name__) if isinstance(loader, InspectLoader) else None
        text.update(f"{module.__name__}\n{source or ''}\n".encode())
    for plugin in plugins():
        text.update(f"{plugin.name} {plugin.version} {plugin.digest}\n".encode())
    return text.hexdigest()[:12]


def _modules() -> list[ModuleType]:
    found: dict[str, ModuleType] = {}
    for name in _DECIDING:
        module = found[name] = importlib.import_module(name)
        for each in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{name}."):
            found[each.name] = importlib.import_module(each.name)
    return [found[name] for name in sorted(found)]
