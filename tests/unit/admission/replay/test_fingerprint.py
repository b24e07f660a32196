"""One short hash tells whether two runs decide alike."""

import re
import subprocess
import sys

import pytest

from admission.replay import fingerprint as configuration
from admission.replay.fingerprint import _engine, _modules, fingerprint
from admission.simulate import rules


def test_a_simulation_with_default_rules_prints_what_the_controller_prints() -> None:
    assert fingerprint(rules.DEFAULT) == fingerprint()
    assert re.fullmatch(r"[0-9a-f]{12}", fingerprint())


def test_other_rules_have_another_hash() -> None:
    assert fingerprint(rules.NO_PREEMPTION) != fingerprint()


def test_every_module_that_decides_is_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {module.__name__ for module in _modules()}

    assert {
        "admission.engine.decide",
        "admission.engine.placement.domain_search",
        "queues.order.line",
    } <= names
    before = _engine.__wrapped__()
    without = [module for module in _modules() if module.__name__ != "queues.order.policies"]
    monkeypatch.setattr(configuration, "_modules", lambda: without)
    assert _engine.__wrapped__() != before


def test_nothing_that_the_engine_imports_is_left_out() -> None:
    """But for what has no say in a decision: texts of errors, and names that users write."""
    alone = "import sys, pkgutil, admission.engine as e; [__import__(each.name) for each in "
    alone += "pkgutil.walk_packages(e.__path__, 'admission.engine.')]; print(*sys.modules)"
    imported = subprocess.check_output([sys.executable, "-c", alone], text=True).split()

    covered = {module.__name__ for module in _modules()}

    ours = {name for name in imported if name.startswith(("queues.", "admission."))}
    assert ours - covered == {"queues.errors", "queues.api", "queues.api.names"}
