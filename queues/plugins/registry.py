"""Which policies this process has: Muster's own, and those that installed packages bring as plug-ins.

A package names its policies as entry points of the group ``muster.plugins``. What is installed is part of the code, as
Muster itself: it is looked at once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final

import msgspec

from queues.errors import MusterError
from queues.plugins.built_in import BUILT_IN
from queues.plugins.interface import (
    FlavorPolicy,
    OrderPolicy,
    PlacementPolicy,
    Policy,
    PolicySort,
    VictimCostPolicy,
)
from queues.plugins.source_rules import digest_of, package_sources, source_problems

GROUP: Final = "muster.plugins"

_BASES: Final[tuple[type[Policy], ...]] = (OrderPolicy, PlacementPolicy, VictimCostPolicy, FlavorPolicy)


class InvalidParameters(MusterError):
    """{found}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPolicy:
    """A policy of this process."""

    name: str
    #: The class; None if it cannot be used.
    policy: type[Policy] | None
    version: str = ""
    #: Hash of the source of its package; "" for Muster's own, which the fingerprint of the engine covers.
    digest: str = ""
    #: The installed distribution with its version, as ``deadline-order 1.0``; "" for Muster itself.
    package: str = ""
    #: Why it cannot be used; "" if it can.
    problem: str = ""

    @property
    def is_built_in(self) -> bool:
        """Whether it is Muster's own."""
        return not self.package

    @property
    def told(self) -> str:
        """What people are shown of it, in a few words."""
        said = self.problem or f"version {self.version}, digest {self.digest}"
        return f"{self.name}: {said} ({self.package})"

    def why_not(self, sort: PolicySort) -> str:
        """Why it cannot serve as this sort of policy; "" if it can."""
        if self.policy is None:
            return self.problem
        if self.policy.sort is not sort:
            return f"it is for {self.policy.sort}, not for {sort}"
        return ""

    def parameters(self, text: str) -> msgspec.Struct:
        """The parameters that this JSON states. Raises InvalidParameters; for a policy that can be used only."""
        assert self.policy is not None
        try:
            return msgspec.json.decode(text, type=self.policy.Parameters)
        except msgspec.MsgspecError as error:
            raise InvalidParameters(found=str(error)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginSetAside:
    """A plug-in that serves a queue no more, until its code, its parameters or the queue's ``retry`` are others."""

    plugin: str
    #: Of its code, and its parameters as JSON.
    digest: str
    parameters: str = ""
    retry: str = ""
    #: What it did, such as "raised ValueError: …".
    why: str


def known_policies() -> Mapping[str, KnownPolicy]:
    """All policies of this process, by name. One that cannot be used is among them, with the reason."""
    return _known(_installed())


def plugins() -> list[KnownPolicy]:
    """Those that are not Muster's own, by name."""
    every = known_policies()
    return [every[name] for name in sorted(every) if not every[name].is_built_in]


def names_of(sort: PolicySort) -> list[str]:
    """Names of the policies of a sort that can be used, sorted."""
    return sorted(name for name, each in known_policies().items() if not each.why_not(sort))


@lru_cache(maxsize=1)
def _installed() -> tuple[KnownPolicy, ...]:
    return tuple(_loaded(entry) for entry in entry_points(group=GROUP))


@lru_cache(maxsize=4)
def _known(installed: tuple[KnownPolicy, ...]) -> Mapping[str, KnownPolicy]:
    known = {each.name: KnownPolicy(name=each.name, policy=each, version=each.version) for each in BUILT_IN}
    own = set(known)
    for each in sorted(installed, key=lambda plugin: (plugin.name, plugin.package)):
        if each.name in own:
            continue  # Muster's own keep their names
        if each.name in known:
            packages = f"{known[each.name].package} and {each.package}"
            problem = f"two packages have a plug-in of this name: {packages}. Remove one of them"
            known[each.name] = KnownPolicy(name=each.name, policy=None, package=packages, problem=problem)
        else:
            known[each.name] = each
    return known


def _loaded(entry: EntryPoint) -> KnownPolicy:
    package = entry.value if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
    digest = ""
    try:
        sources = package_sources(entry.module)
        digest = digest_of(sources)
        problems: Iterable[str] = source_problems(sources) or _class_problems(
            entry.name, policy := entry.load()
        )
    except Exception as error:  # whatever the code of others does when it is loaded
        problems = [f"it cannot be loaded: {type(error).__name__}: {error}"]
    if problem := "; ".join(problems):
        return KnownPolicy(name=entry.name, policy=None, digest=digest, package=package, problem=problem)
    return KnownPolicy(
        name=entry.name, policy=policy, version=str(policy.version), digest=digest, package=package
    )


def _class_problems(name: str, policy: object) -> list[str]:
    """What keeps what an entry point names from being a policy; empty if nothing does."""
    if not (isinstance(policy, type) and issubclass(policy, _BASES)):
        return [
            f"found {policy!r}, expected a class below one of {', '.join(each.__name__ for each in _BASES)}"
        ]
    if getattr(policy, "name", None) != name:
        found = getattr(policy, "name", None)
        return [f"found the entry point {name} of a class with the name {found!r}, expected the same name"]
    return []
