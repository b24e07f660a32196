"""Which plug-ins a process has: what is installed, and what of it cannot be used."""

from pathlib import Path

import pytest

from queues.plugins.interface import PolicySort
from queues.plugins.registry import InvalidParameters, known_policies, names_of, plugins
from tests.builders.plugin_policies import installed

LATEST = """
import msgspec
from queues.plugins.interface import OrderPolicy


class Latest(OrderPolicy):
    name = "latest"
    version = "3"
    terms = None

    class Parameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
        step: int = 1

    def urgency(self, workload):
        return -workload.created * self.parameters.step
"""


def test_a_package_brings_a_policy_with_its_version_and_a_digest_of_its_code(tmp_path: Path) -> None:
    with installed(tmp_path, "latest_first", {"latest_first.py": LATEST}, latest="latest_first:Latest"):
        (found,) = plugins()
        assert (found.name, found.version, found.package) == ("latest", "3", "latest_first 1.0")
        assert found.why_not(PolicySort.ORDER) == ""
        assert "not for policy.placement" in found.why_not(PolicySort.PLACEMENT)
        assert "latest" in names_of(PolicySort.ORDER)
        first = found.digest
    (tmp_path / "other").mkdir()
    other = {"latest_first.py": LATEST + "# another text\n"}
    with installed(tmp_path / "other", "latest_first", other, latest="latest_first:Latest"):
        assert plugins()[0].digest != first
    assert plugins() == []


def test_parameters_are_held_to_the_plug_in_s_own_schema(tmp_path: Path) -> None:
    with installed(tmp_path, "latest_first", {"latest_first.py": LATEST}, latest="latest_first:Latest"):
        (found,) = plugins()
        assert found.parameters('{"step": 2}').step == 2  # type: ignore[attr-defined]
        for text, told in (('{"step": 1.5}', "Expected `int`"), ('{"stride": 2}', "unknown field `stride`")):
            with pytest.raises(InvalidParameters, match=told):
                found.parameters(text)
    assert known_policies()["cheapest"].parameters('{"prices": {"a": 1}}')


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (LATEST + "\nimport os\n", "latest_first line 17: imports os"),
        (LATEST + "\nfrom time import sleep\n", "imports time"),
        (
            LATEST + "\nimport numpy as np\n\n\ndef lot():\n    return np.random.default_rng()\n",
            "uses .random",
        ),
        (LATEST + "\nlines = open('/etc/passwd')\n", "uses open()"),
        (LATEST + "\nfrom queues.sql import tables\n", "imports queues.sql"),
        (LATEST + "\n1 / 0\n", "ZeroDivisionError"),
        (LATEST + "\ndef\n", "invalid syntax"),
        (LATEST.replace('"latest"', '"last"'), "expected the same name"),
        (LATEST.replace("(OrderPolicy)", ""), "expected a class below one of OrderPolicy"),
        ("x = 1\n", "AttributeError"),
    ],
)
def test_what_cannot_be_used_says_why(text: str, told: str, tmp_path: Path) -> None:
    with installed(tmp_path, "latest_first", {"latest_first.py": text}, latest="latest_first:Latest"):
        (found,) = plugins()
        assert told in found.why_not(PolicySort.ORDER)


def test_no_plug_in_takes_a_name_of_muster_s_own(tmp_path: Path) -> None:
    text = LATEST.replace('"latest"', '"fifo"')
    with installed(tmp_path, "latest_first", {"latest_first.py": text}, fifo="latest_first:Latest"):
        assert known_policies()["fifo"].is_built_in


def test_of_a_package_every_module_is_read_and_none_is_run_before(tmp_path: Path) -> None:
    package = {
        "latest_first/__init__.py": "",
        "latest_first/policy.py": LATEST + "\nfrom latest_first.deeper import helper\n",
        "latest_first/deeper/__init__.py": "",
        "latest_first/deeper/helper.py": f"import socket\nopen({str(tmp_path / 'ran')!r}, 'w')\n",
    }
    with installed(tmp_path, "latest_first", package, latest="latest_first.policy:Latest"):
        told = plugins()[0].problem
        assert "latest_first.deeper.helper line 1: imports socket" in told
    assert not (tmp_path / "ran").exists()
