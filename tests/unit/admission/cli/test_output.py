"""Forms of an answer beyond tables: what scripts read, width, and answers that are shown again."""

import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from fcntl import ioctl
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from admission.cli.output import Output, output
from tests.tables import with_rows
from tests.waiting import LIMIT

ITEMS = [
    {"kind": "vcjob", "name": "a", "asks": {"nvidia.com/gpu": "16"}, "reason": None},
    {"kind": "pod", "name": "b", "asks": {"nvidia.com/gpu": "2"}, "reason": {"code": "QueueLimit"}},
    {"kind": "pod", "name": "c", "asks": {"nvidia.com/gpu": "500m"}, "reason": {"code": "NoRoom"}},
]


@click.command()
@output
def show(output: Output) -> None:
    body = {"items": ITEMS}
    text = output.document(body)
    click.echo(text if text is not None else output.fitted("NAME\n" + "x" * 50 + "\n"), nl=False)


def said(*words: str) -> str:
    result = CliRunner().invoke(show, words)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*words: str) -> str:
    result = CliRunner().invoke(show, words)
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    return result.output


def test_names_are_what_other_commands_take() -> None:
    assert said("-o", "name") == "vcjob/a\npod/b\npod/c\n"


@with_rows("form", "sentence")
def test_a_form_that_does_not_exist_is_refused(form: str, sentence: str) -> None:
    assert sentence in refused("-o", form)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """Prints another answer each time it is asked, and ends itself after the third."""
    path = tmp_path / "script.py"
    path.write_text(
        "import click, os, signal\n"
        "from admission.cli import output as module\n"
        "from admission.cli.output import output\n"
        "module._EVERY = 0.01\n"
        "answers = iter(['one', 'one', 'two', 'x' * 100])\n"
        "@click.command()\n"
        "@output\n"
        "def show(output):\n"
        "    text = next(answers, None)\n"
        "    if text is None:\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    click.echo(output.fitted(f'{text}\\n'), nl=False)\n"
        "raise SystemExit(show(standalone_mode=False))\n"
    )
    return path


def test_a_watched_answer_is_shown_again_only_if_it_differs(script: Path) -> None:
    done = subprocess.run(
        [sys.executable, script, "--watch"],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
        env=_environment(),
    )
    assert (done.returncode, done.stderr) == (130, "")
    assert done.stdout.startswith("one\n\ntwo\n\n" + "x" * 100 + "\n")


def test_on_a_terminal_the_last_answer_is_replaced_and_lines_end_at_its_edge(script: Path) -> None:
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    with subprocess.Popen(
        [sys.executable, script, "-w"], stdout=theirs, stderr=theirs, env=_environment()
    ) as child:
        os.close(theirs)
        shown = b"".join(_until_closed(ours)).decode()
    os.close(ours)
    assert child.returncode == 130, "as of all commands that Ctrl-C ends"
    screens = shown.replace("\r\n", "\n").split("\033[H")[1:]
    # What was on the screen before is cleared once. Then each line clears what is left of the last answer behind it,
    # and the last one what is below.
    assert screens[:3] == [
        "\033[2Jone\033[K\n\033[J",
        "two\033[K\n\033[J",
        "x" * 39 + "…\033[K\n\033[J",
    ]


def _environment() -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    return {**kept, "PYTHONPATH": os.pathsep.join(sys.path)}


def _until_closed(descriptor: int) -> Iterator[bytes]:
    while True:
        try:
            part = os.read(descriptor, 4096)
        except OSError:  # the other end is closed
            return
        if not part:
            return
        yield part


def test_wide_tables_and_documents_are_never_cut() -> None:
    long = "x" * 100 + "\n"
    assert Output(form="table", width=40).fitted(long) == "x" * 39 + "…\n"
    assert Output(form="table", width=100).fitted(long) == long
    for form in ("wide", "json", "yaml"):
        assert Output(form=form, width=40).fitted(long) == long
