"""What the source of a plug-in may contain: what its answers depend on is given to it.

This finds mistakes before anything is decided. It keeps nobody from doing harm on purpose: a plug-in is code that the
administrator trusts.
"""

import ast
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from importlib.abc import InspectLoader
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from typing import Final

#: Modules that a plug-in may import, with all below them, besides those of its own package.
ALLOWED: Final = frozenset(
    (
        *("__future__", "abc", "bisect", "collections", "dataclasses", "datetime", "enum", "fractions"),
        *("functools", "heapq", "itertools", "math", "operator", "re", "string", "typing"),
        *("msgspec", "numpy"),
        *("queues.flavor_growth", "queues.plugins", "queues.resources", "queues.workload"),
    )
)
#: Functions that reach out, or answer otherwise in another process.
_CALLED: Final = frozenset(
    ("open", "exec", "eval", "compile", "__import__", "input", "print", "breakpoint", "globals", "id", "hash")
)
#: The same as attributes: clocks of ``datetime``, chance of numpy.
_ATTRIBUTES: Final = frozenset(("now", "today", "utcnow", "random"))
#: Errors of one package that are named.
_MOST_NAMED: Final = 5


def package_sources(module: str) -> dict[str, str]:
    """The text of every module of the package that a module is in, by name. Nothing of it is run.

    Raises ModuleNotFoundError if there is no such package, or no text of it.
    """
    name = module.partition(".")[0]
    spec = find_spec(name)
    if spec is None:
        raise ModuleNotFoundError(f"there is no package {name}")
    return dict(_sources(name, spec))


def _sources(name: str, spec: ModuleSpec) -> Iterator[tuple[str, str]]:
    text = spec.loader.get_source(name) if isinstance(spec.loader, InspectLoader) else None
    if text is None and spec.origin is not None:
        raise ModuleNotFoundError(f"{name} has no source text in Python")
    yield name, text or ""
    places = spec.submodule_search_locations
    for info in pkgutil.iter_modules(places, f"{name}.") if places is not None else ():
        below = info.module_finder.find_spec(info.name, None)
        if below is not None:
            yield from _sources(info.name, below)


def digest_of(sources: Mapping[str, str]) -> str:
    """A short hash of these texts."""
    text = sha256()
    for name in sorted(sources):
        text.update(f"{name}\n{sources[name]}\n".encode())
    return text.hexdigest()[:12]


def source_problems(sources: Mapping[str, str]) -> list[str]:
    """What these modules may not contain, as sentences with their lines; the first few. Empty: all is well."""
    own = {name.partition(".")[0] for name in sources}
    found: list[str] = []
    for name in sorted(sources):
        try:
            tree = ast.parse(sources[name])
        except SyntaxError as error:
            found.append(f"{name} line {error.lineno}: {error.msg}")
            continue
        found += (f"{name} line {line}: {what}" for line, what in _problems(tree, own))
    return found[:_MOST_NAMED]


def _problems(tree: ast.Module, own: set[str]) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, _refused(each.name)) for each in names if not _may(each.name, own))
            case ast.ImportFrom(module=module, level=0, names=names):
                for each in names:
                    if not (_may(f"{module}", own) or _may(f"{module}.{each.name}", own)):
                        yield node.lineno, _refused(f"{module}")
            case ast.Name(id=name) if name in _CALLED:
                yield node.lineno, f"uses {name}(), expected nothing outside what it is given"
            case ast.Attribute(attr=name) if name in _ATTRIBUTES:
                yield node.lineno, f"uses .{name}, expected no clock and no chance"


def _may(module: str, own: set[str]) -> bool:
    parts: Sequence[str] = module.split(".")
    above = {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
    return parts[0] in own or not above.isdisjoint(ALLOWED)


def _refused(module: str) -> str:
    return f"imports {module}, expected one of {', '.join(sorted(ALLOWED))}"
