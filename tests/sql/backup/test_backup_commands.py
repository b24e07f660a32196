"""`muster backup` and `muster restore` as a shell or `kubectl exec` calls them: bytes on standard output and input."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from queues.sql.backup.archive import opened
from queues.sql.database import Database, check_schema


def muster_command(
    *words: str | Path, dsn: str, given: bytes = b"", **variables: str
) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [sys.executable, "-m", "admission.cli.muster", *map(str, words)],
        input=given,
        capture_output=True,
        env={**os.environ, "MUSTER_DSN": dsn, **variables},
        check=False,
    )


async def test_a_backup_goes_through_standard_output_into_standard_input(
    muster: Database, database: str, empty: str, tmp_path: Path
) -> None:
    written = muster_command("backup", "-", dsn=database)
    assert written.returncode == 0, written.stderr
    assert written.stderr.startswith(b"standard output: ledger ")
    (tmp_path / "file").write_bytes(written.stdout)
    with opened(tmp_path / "file") as archive:
        assert archive.manifest.rows > 0

    checked = muster_command("restore", "-", "--check", dsn=empty, given=written.stdout)
    assert checked.stdout.rstrip().endswith(b"it is whole"), checked.stderr
    restored = muster_command("restore", "-", dsn=empty, given=written.stdout)
    assert restored.returncode == 0, restored.stderr
    twin = await Database.connect(empty)
    try:
        async with twin.snapshot() as tx:
            await check_schema(tx)
    finally:
        await twin.close()


def test_a_stream_that_was_cut_off_is_refused_by_its_name(database: str, muster: Database) -> None:
    written = muster_command("backup", "-", dsn=database)
    cut = muster_command("restore", "-", "--check", dsn=database, given=written.stdout[:-100])
    assert cut.returncode == 1
    assert cut.stderr.startswith(b"Error: standard input cannot be restored: ")


def test_backups_of_a_folder_are_written_and_listed(database: str, muster: Database, tmp_path: Path) -> None:
    assert muster_command("backup", "--folder", tmp_path, "--list", dsn=database).stdout == b""
    (tmp_path / "muster-20200101T000000Z.backup").write_text("old")
    done = muster_command("backup", "--folder", tmp_path, "--keep", "1", dsn=database)
    assert done.returncode == 0, done.stderr
    told = done.stdout.decode().splitlines()
    assert told[1] == f"{tmp_path}/muster-20200101T000000Z.backup: removed, 1 are kept"
    [file] = tmp_path.glob("muster-*.backup")
    assert told[0].startswith(f"{file}: ledger ")
    listed = muster_command("backup", "--folder", tmp_path, "--list", dsn=database)
    assert listed.stdout.decode() == f"{file}  {file.stat().st_size} bytes\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Name either FILE or --folder."),
        (("FILE", "--folder", "."), "Name either FILE or --folder."),
        (("FILE", "--keep", "2"), "--keep and --list go with --folder."),
        (("-", "--overwrite"), "--overwrite goes with FILE."),
        (("--folder", ".", "--keep", "0"), "Invalid value for '--keep'"),
        (("--folder", "/none/such"), "there is no folder /none/such"),
        (("/none/such/file",), "there is no folder /none/such"),
    ],
)
def test_a_call_that_cannot_be_meant_so_is_one_sentence(words: tuple[str, ...], said: str) -> None:
    done = muster_command("backup", *words, dsn="postgresql://nowhere.example/muster")
    assert done.returncode in (1, 2)
    assert said in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


def test_a_file_system_without_room_is_one_sentence(database: str, muster: Database, tmp_path: Path) -> None:
    begin = "import os, tempfile; tempfile.tempdir = os.environ['NOWHERE']"
    done = subprocess.run(
        [sys.executable, "-c", f"{begin}; from admission.cli.muster import main; main()", "backup", "-"],
        capture_output=True,
        env={**os.environ, "MUSTER_DSN": database, "NOWHERE": str(tmp_path / "none")},
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode().startswith("Error: Writing the backup: ")
    assert "TMPDIR" in done.stderr.decode()
