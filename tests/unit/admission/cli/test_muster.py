"""The ``muster`` command: instant help, offline checks, and errors without tracebacks."""

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml

from admission.cli.command_line import CommandGroup, finish, instead_of
from admission.cli.commands import migrate as migrate_command
from admission.cli.commands.run import run
from admission.cli.examples import commands_of
from admission.cli.kubectl_muster import kubectl_muster
from admission.cli.muster import muster
from admission.settings import Settings
from queues.errors import DatabaseUnavailable, MusterError

QUEUE = """\
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata:
  name: team-a
spec:
  weight: {weight}
  access: {{namespaceSelector: {{}}}}
"""


CLUSTER_QUEUE = """apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: research}
spec:
  namespaceSelector: {}
"""


def call(*words: str | Path) -> int:
    return finish(muster, "muster", [str(word) for word in words])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("backup",), 'muster has no command "backup": pg_dump writes backups'),
        (("backup", "--folder", "/backups", "--keep", "48"), 'muster has no command "backup": pg_dump writes backups'),
        (("restore", "-", "--check"), 'muster has no command "restore": pg_restore restores'),
        (("simulate", "--case", "x"), 'muster has no command "simulate": recorded traces are played in'),
        (("failed-turns", "get", "7"), 'muster has no command "failed-turns": a turn that could not be'),
        (("replay", "--at", "2026-11-21T10:00"), "--at was removed: turns are not kept; `kubectl muster events`"),
        (("replay", "--days", "3"), "--days was removed: turns are not kept;"),
    ],
)  # fmt: skip
def test_what_was_removed_says_what_to_use_instead(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*words) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert f"Error: {said}" in told
    assert told.count("Error") == 1


def test_help_shows_nothing_that_was_removed(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("--help",), ("replay", "--help")):
        assert call(*words) == 0
    told = capsys.readouterr().out
    assert not [name for name in ("backup", "restore", "failed-turns", "--at", "--days") if name in told]


def test_a_sentence_for_an_unknown_command_names_commands_that_there_are() -> None:
    programs = {"muster": muster, "kubectl muster": kubectl_muster}
    known = {each.name for name, group in programs.items() for each in commands_of(group, name)}
    for program, sentences in instead_of().items():
        for called, sentence in sentences.items():
            assert f"{program} {called}" not in known
            for named in re.findall(r"(kubectl muster|(?<!kubectl )muster) ([a-z]+)(?: ([a-z]+))?", sentence):
                assert {" ".join(named[:2]), " ".join(named)} & known, sentence


@pytest.mark.parametrize(
    ("group", "headings", "last"),
    [
        (kubectl_muster, ["See:", "Submit:", "Change:", "Administer:"], "undrain"),
        (muster, ["Install:", "Processes in the cluster:", "For maintainers:"], "replay"),
    ],
)
def test_help_has_the_commands_in_the_order_in_which_people_need_them(
    group: CommandGroup, headings: list[str], last: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert finish(group, "muster", ["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line in headings] == headings
    shown = [match[1] for line in lines if (match := re.match(r"  ([a-z]+)  ", line))]
    assert [name for name in shown if name in group.names] == group.names
    assert group.names[-1] == last


def test_check_is_a_command_of_users_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "queue.yaml"
    file.write_bytes(HEAVY)
    assert finish(kubectl_muster, "kubectl muster", ["check", str(file)]) == 1
    assert "spec.weight: found 'heavy', expected a whole number" in capsys.readouterr().out


#: Modules that take longer to import than an answer takes.
SLOW = {"pydantic", "yaml", "sqlalchemy", "aiohttp", "numpy", "ssl", "asyncio"}
#: Commands that only read: people call them again and again, and wait for each. They ask for JSON by plain HTTP.
READING = ("jobs", "pending", "explain", "events", "who", "queues", "version")
#: What those do not need: modules of what changes objects.
NOT_FOR_READING = {
    *("http.client", "importlib.metadata", "tempfile", "shutil", "difflib"),
    *("queues.api.api_resources", "admission.api_connection", "admission.cli.access.objects"),
    *("admission.cli.plugin.quota_set", "admission.cli.plugin.queue", "admission.cli.plugin.run"),
    *("admission.cli.plugin.reserve", "admission.cli.plugin.try_objects", "admission.cli.examples"),
}
COMMAND = "from admission.cli.kubectl_muster import kubectl_muster as group; group.loaded({!r})"


@pytest.mark.parametrize(
    ("code", "not_needed"),
    [
        *((f"import admission.cli.{each}", SLOW | {"msgspec"}) for each in ("muster", "kubectl_muster")),
        ("import admission.cli.completion", SLOW | {"msgspec"}),
        *((COMMAND.format(each), SLOW | NOT_FOR_READING) for each in READING),
        *((COMMAND.format(each), {"queues.quota.tree"}) for each in ("nodes", "reservations")),
        *(
            (COMMAND.format(each), SLOW | {"admission.wire", "admission.workloads"})
            for each in ("run", "logs", "cancel", "hold", "resume")
        ),
    ],
)
def test_help_and_a_command_import_only_what_they_need_before_they_ask(
    code: str, not_needed: set[str]
) -> None:
    code = f"import sys; {code}; print(*sorted({not_needed!r} & sys.modules.keys()))"

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert loaded.stdout.split() == []


def test_a_command_is_found_where_it_is_said_to_be() -> None:
    """Each name leads to the command of that name: a wrong place would be an error of whoever calls it."""
    assert {name: each.name for name, each in kubectl_muster.commands.items()} == {
        name: name for name in kubectl_muster.list_commands(click.Context(kubectl_muster))
    }


def test_the_module_is_the_script() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "admission.cli.muster", "no-such-command"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert 'muster has no command "no-such-command": muster --help lists those there are.' in done.stderr


def test_every_setting_is_a_flag_of_run() -> None:
    flags = {flag for parameter in run.get_params(click.Context(run)) for flag in parameter.opts}

    assert {f"--{name.replace('_', '-')}" for name in Settings.model_fields} <= flags


GOOD, HEAVY = (QUEUE.format(weight=each).encode() for each in (1, "heavy"))
OTHER = HEAVY.replace(b"team-a", b"team-b")


@pytest.mark.parametrize(
    ("files", "out", "err"),
    [
        pytest.param({"a.yaml": GOOD}, "", "1 file: 0 errors, 0 warnings\n", id="good documents"),
        pytest.param(
            {"a.yaml": GOOD + b"---\n" + OTHER},
            "{}/a.yaml:14: document 2: error: Queue team-b spec.weight: found 'heavy', expected a whole number\n",
            "1 file: 1 error, 0 warnings\n",
            id="file, line, document, path, found and expected",
        ),
        pytest.param(
            {"good.yaml": GOOD, "notes.txt": b"not a document", "-": OTHER},
            "<stdin>:6: document 1: error: Queue team-b spec.weight: found 'heavy', expected a whole number\n",
            "{}/good.yaml: supported\n<stdin>: refused: spec.weight\n2 files: 1 error, 0 warnings\n",
            id="a directory and standard input",
        ),
        pytest.param(
            {"a.yaml": b"kind: Queue\nname: \xff\n", "b.yaml": GOOD},
            "{}/a.yaml:2: document 1: error: found byte 0xff, expected UTF-8 text\n",
            "1 file: 1 error, 0 warnings\n",
            id="bytes that are not text, and on",
        ),
        pytest.param(
            {"deep/er/queue.yaml": GOOD, ".hidden/queue.yaml": GOOD},
            "",
            "1 file: 0 errors, 0 warnings\n",
            id="folders below, but no hidden ones",
        ),
    ],
)
def test_check_says_what_it_read_and_what_is_wrong_where(
    files: dict[str, bytes],
    out: str,
    err: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = files.pop("-", None)
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given or b"")))

    assert call("check", tmp_path, *(["-"] if given else [])) == (1 if out else 0)
    assert capsys.readouterr() == (out.format(tmp_path), err.format(tmp_path))


def test_check_gives_the_same_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "queue.yaml"
    file.write_bytes(HEAVY)

    assert call("check", "-o", "json", "-f", file) == 1
    (finding,) = json.loads(capsys.readouterr().out)
    assert (finding["path"], finding["line"], finding["severity"]) == ("spec.weight", 6, "error")


def test_convert_prints_documents_and_tells_differences_on_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "kueue.yaml"
    file.write_text(CLUSTER_QUEUE, encoding="utf-8")

    assert call("convert", file) == 0
    out, err = capsys.readouterr()
    assert out.startswith("# Written by `muster convert`.")
    assert "kind: Queue\n" in out
    assert err.startswith(f"{file}:1: warning: ClusterQueue research: found no LocalQueue")
    assert err.endswith("1 file: 1 object, 0 errors, 1 warning\n")


def test_convert_prints_no_document_where_something_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "kueue.yaml"
    file.write_text(CLUSTER_QUEUE + "  stopPolicy: Wait\n", encoding="utf-8")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff")

    assert call("convert", tmp_path) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "spec.stopPolicy: found 'Wait'; expected one of" in err
    assert "found byte 0xff, expected UTF-8 text" in err
    assert err.endswith("2 files: nothing converted, 2 errors, 0 warnings\n")


def test_check_of_a_missing_file_names_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("check", "/nowhere/x.yaml") == 1
    assert capsys.readouterr().err == "Error: Reading /nowhere/x.yaml: No such file or directory.\n"


def test_crds_are_printed_as_documents_and_written_as_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("crds") == 0
    printed = [document["metadata"]["name"] for document in yaml.safe_load_all(capsys.readouterr().out)]
    assert call("crds", "--out", tmp_path) == 0

    assert "queues.scheduling.volcano.sh" in printed
    assert len(list(tmp_path.iterdir())) == len(printed)


def test_wrong_settings_are_told_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MUSTER_LEASE_SECOND", "3")

    assert call("run") == 1
    assert "did you mean MUSTER_LEASE_SECONDS?" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("migrate",), ("ledger", "verify"), ("ledger", "repair")])
def test_commands_on_the_database_want_a_dsn(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("MUSTER_DSN", raising=False)

    assert call(*words) == 1
    assert "Give one with --dsn or MUSTER_DSN" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (MusterError("the lease is gone"), 1, "Error: the lease is gone\n"),
        (KeyboardInterrupt(), 130, ""),
        (ZeroDivisionError("division by zero"), 1, "Error: ZeroDivisionError: division by zero\n"),
        (
            FileNotFoundError(2, "No such file or directory", "x.pem"),
            1,
            "Error: x.pem: No such file or directory\n",
        ),
    ],
)
def test_no_error_is_a_traceback(
    error: BaseException, code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    @click.command()
    def fails() -> None:
        raise error

    assert finish(fails, "fails", []) == code
    err = capsys.readouterr().err
    assert err.startswith(told)
    assert "Traceback" not in err


def test_an_unforeseen_error_says_how_to_see_its_place(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @click.command()
    def fails() -> None:
        raise ZeroDivisionError

    finish(fails, "fails", [])
    assert "MUSTER_TRACEBACK=1" in capsys.readouterr().err

    monkeypatch.setenv("MUSTER_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        finish(fails, "fails", [])


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    command = f"{sys.executable} -m admission.cli.muster crds | head -1; echo ${{PIPESTATUS[0]}}"

    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "0"
    assert done.stderr == ""


async def test_a_migration_that_met_replicas_at_work_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate_command, "_PAUSES", (0, 0))
    deadlock = DatabaseUnavailable(reason="deadlock detected", sqlstate="40P01")
    answers = [deadlock, DatabaseUnavailable(reason="it is away", sqlstate=None)]

    async def migration() -> None:
        if answers:
            raise answers.pop(0)

    with pytest.raises(DatabaseUnavailable, match="it is away"):
        await migrate_command._through(migration)
    answers.append(deadlock)
    await migrate_command._through(migration)
    assert answers == []
