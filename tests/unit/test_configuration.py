"""One short hash tells whether two runs decide alike."""

import re

import pytest

from admission import configuration
from admission.configuration import fingerprint
from admission.simulate import rules


def test_a_simulation_with_default_rules_prints_what_the_controller_prints() -> None:
    assert fingerprint(rules.DEFAULT) == fingerprint()
    assert re.fullmatch(r"[0-9a-f]{12}", fingerprint())


def test_other_rules_have_another_hash() -> None:
    assert fingerprint(rules.NO_PREEMPTION) != fingerprint()


def test_every_module_that_decides_is_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {module.__name__ for module in configuration._modules()}

    assert {"admission.engine.decide", "admission.engine.placement", "queues.ordering"} <= names
    before = configuration._engine.__wrapped__()
    without = [module for module in configuration._modules() if module.__name__ != "queues.precedence"]
    monkeypatch.setattr(configuration, "_modules", lambda: without)
    assert configuration._engine.__wrapped__() != before
