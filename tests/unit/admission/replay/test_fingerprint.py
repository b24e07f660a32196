"""One short hash tells whether two runs decide alike."""

import re
import subprocess
import sys
from functools import lru_cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

from admission import engine
from admission.replay.fingerprint import fingerprint
from queues import order, quota
from tests.bench.simulate import rules


def test_a_simulation_has_the_hash_of_the_controller_and_that_of_its_rules() -> None:
    assert re.fullmatch(r"[0-9a-f]{12}", fingerprint())
    assert rules.configuration(rules.DEFAULT).startswith(f"{fingerprint()}-")
    assert rules.configuration(rules.DEFAULT) != rules.configuration(rules.NO_PREEMPTION)


#: Imported by the engine, without a say in a decision: texts of errors, and names that users write.
_DECIDE_NOTHING = {"queues.errors", "queues.api", "queues.api.names"}


def test_a_changed_line_in_any_module_that_decides_changes_the_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    before, read, changed = fingerprint.__wrapped__(), lru_cache(SourceFileLoader.get_source), ""

    def with_a_line_more(loader: SourceFileLoader, module: str) -> str | None:
        text = read(loader, module)
        return f"{text}\n# one more line" if module == changed else text

    monkeypatch.setattr(SourceFileLoader, "get_source", with_a_line_more)
    unnoticed = set()
    for changed in sorted(_imported_by_the_engine() | _files_of(engine, quota, order)):
        if fingerprint.__wrapped__() == before:
            unnoticed.add(changed)
    assert unnoticed == _DECIDE_NOTHING


def _imported_by_the_engine() -> set[str]:
    """Names of this product's modules that are loaded once the whole engine is imported, and nothing else."""
    alone = "import sys, pkgutil, admission.engine as e; [__import__(each.name) for each in "
    alone += "pkgutil.walk_packages(e.__path__, 'admission.engine.')]; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", alone], text=True).split()
    return {name for name in loaded if name.startswith(("queues.", "admission."))}


def _files_of(*packages: ModuleType) -> set[str]:
    """Names of the modules in the folders of these packages, whether Python can find them or not."""
    found = set()
    for package in packages:
        for folder in map(Path, package.__path__):
            for file in folder.rglob("*.py"):
                parts = (package.__name__, *file.relative_to(folder).with_suffix("").parts)
                found.add(".".join(parts).removesuffix(".__init__"))
    return found
