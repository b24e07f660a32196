"""What runbooks name exists: commands with their options, pods, metrics, and lines of the log."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from admission.cli.kubectl_muster import kubectl_muster
from admission.cli.muster import muster
from admission.figures.catalogue import AGENT, CONTROLLER
from deploy.local.helm import helm
from tests.prometheus.rules import rules
from tests.runbook_commands import PAGES, commands, every_command
from tests.tables import with_rows
from tests.unit.deploy.chart_rendering import SECRET, rendered

ROOT = Path(__file__).parents[2]
#: Verbs of kubectl that pages use. A verb that is not here is one more to look up.
KUBECTL = {
    *("annotate", "auth", "delete", "describe", "events", "exec", "get", "logs", "port-forward"),
    *("rollout", "taint", "top"),
}


def parse(command: click.Command, name: str, words: list[str]) -> None:
    """Read the words as the command line does, without running anything. Raises ClickException."""
    if isinstance(command, click.Group) and not words:
        return  # all of its commands are meant
    with command.make_context(name, list(words)) as context:
        if isinstance(command, click.Group):
            _, found, rest = command.resolve_command(context, [*context._protected_args, *context.args])
            assert found is not None
            parse(found, found.name or "", rest)


def check(command: str) -> None:
    """Raises if the command does not exist."""
    words = shlex.split(command)
    words = words[: words.index(">")] if ">" in words else words
    if words[:2] == ["kubectl", "muster"]:
        parse(kubectl_muster, "kubectl muster", words[2:])
    elif words[0] == "muster":
        parse(muster, "muster", words[1:])
    else:
        assert words[0] == "kubectl", command
        assert words[1] in KUBECTL, command
        if words[1] == "exec":
            check(shlex.join(words[words.index("--") + 1 :]))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_a_page_exists(page: Path) -> None:
    found = commands(page)
    assert found
    for command in found:
        try:
            check(command)
        except click.ClickException as error:
            pytest.fail(f"{command}: {error.format_message()}")


@with_rows("command")
def test_a_command_that_does_not_exist_is_noticed(command: str) -> None:
    with pytest.raises(click.ClickException):
        check(command)


def pod_labels() -> dict[str, set[str]]:
    """By namespace the labels of the pods that the chart makes, as a selector writes them."""
    found: dict[str, set[str]] = {}
    for (kind, namespace, _), document in rendered(helm(), *SECRET, "--set", "backup.enabled=true").items():
        if kind in ("Deployment", "DaemonSet", "CronJob"):
            spec = document["spec"].get("jobTemplate", document)["spec"]
            labels = spec["template"]["metadata"]["labels"]
            found.setdefault(namespace, set()).update(f"{name}={value}" for name, value in labels.items())
    return found


def test_pods_are_looked_for_where_the_chart_puts_them() -> None:
    labels = pod_labels()
    selecting = [shlex.split(command) for command in every_command() if " -l " in command]
    assert len(selecting) >= 2
    for words in selecting:
        namespace, selector = words[words.index("-n") + 1], words[words.index("-l") + 1]
        assert selector in labels[namespace], shlex.join(words)


def test_logs_of_selected_pods_are_shown_whole() -> None:
    """With a selector kubectl shows ten lines of each pod, unless it is told otherwise."""
    cut = [command for command in every_command() if command.startswith("kubectl logs") and " -l " in command]
    assert cut
    assert [command for command in cut if "--tail=-1" not in command] == []


#: What a page says to look for in the log: in quotes, after one of these.
LOOK_FOR = re.compile(r"(?:Look for|The error and its place:) ((?:`[^`]+`(?:, or | and |, )?)+)")
#: Sentences that pages quote beside that.
QUOTED = ("waiting for Postgres",)


def texts() -> Iterator[str]:
    """Every text in the product's code, with the documentation of errors, which is what they say."""
    for package in ("admission", "queues"):
        for module in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value


def test_what_is_looked_for_in_the_log_is_something_that_muster_says() -> None:
    looked_for = {
        quoted
        for page in PAGES
        for found in LOOK_FOR.findall(page.read_text(encoding="utf-8"))
        for quoted in re.findall(r"`([^`]+)`", found)
    } | set(QUOTED)
    assert len(looked_for) >= 9
    said = "\n".join(texts())
    assert {each for each in looked_for if each not in said} == set()


def test_metrics_that_pages_name_exist() -> None:
    known = {metric.name for metric in (*CONTROLLER, *AGENT)} | {
        rule["record"] for rule in rules() if "record" in rule
    }
    for page in PAGES:
        named = set(re.findall(r"\bmuster[_:][a-z0-9_:]+", page.read_text(encoding="utf-8")))
        assert named <= known, page.name
