"""The file of a backup: a compressed tar archive of one table each, in Postgres' text format, and a manifest of all.

Tables are written as COPY gives them, so other programs can read them too. The manifest comes last in the archive, for
it has the hashes, and it is read first.
"""

import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from hashlib import file_digest
from io import BufferedReader
from pathlib import Path
from typing import IO, Final, cast

import msgspec

from queues.errors import MusterError

#: Of the archive, not of the schema.
FORMAT: Final = 1
_MANIFEST: Final = "manifest.json"
#: The archive until it is complete, beside the tables: whatever stops the command, one folder is all that is left.
_DRAFT: Final = ".archive"
#: The largest id.
_LARGEST: Final = 2**63 - 1


class NotABackup(MusterError):
    """{path} cannot be restored: {reason}. Expected a file that `muster backup` wrote."""


class NewerBackup(MusterError):
    """{path} has format {found}, and this version of Muster reads {expected}. Restore it with a newer version."""


class TableContent(msgspec.Struct, frozen=True, kw_only=True):
    """One table in the archive. Partitioned tables are one."""

    columns: tuple[str, ...]
    rows: int
    sha256: str


class TablePartition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition to be made again: ``FOR VALUES`` as Postgres writes it."""

    table: str
    name: str
    bound: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup is of."""

    format: int
    #: Of Muster, which wrote it.
    version: str
    #: Revision of the schema.
    schema: str
    taken_at: datetime
    #: Id and last leader's term of the ledger.
    ledger: str
    term: int
    tables: dict[str, TableContent]
    partitions: tuple[TablePartition, ...]
    #: Name of a sequence → its next value.
    sequences: dict[str, int]

    @property
    def rows(self) -> int:
        """Of all tables."""
        return sum(table.rows for table in self.tables.values())


def digest_of(file: BufferedReader) -> str:
    """SHA-256 of what follows in a file."""
    return file_digest(file, "sha256").hexdigest()


def write(path: Path, manifest: Manifest, contents: Path) -> None:
    """Write the archive as a file: whole or not at all, for its owner only.

    Args: contents: as of ``write_to``, on the file system of ``path``.
    """
    draft = contents / _DRAFT
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        write_to(file, manifest, contents)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def write_to(output: IO[bytes], manifest: Manifest, contents: Path) -> None:
    """Write the archive into a stream. ``contents``: a folder with a file for each table, named as the table."""
    with tarfile.open(fileobj=output, mode="w|gz") as tar:
        for name in manifest.tables:
            tar.add(contents / name, arcname=f"tables/{name}")
        (contents / _MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))
        tar.add(contents / _MANIFEST, arcname=_MANIFEST)


class Archive:
    """A backup, opened and held to its manifest: every table is there, with its hash."""

    def __init__(self, path: Path | str, tar: tarfile.TarFile) -> None:
        self._tar = tar
        try:
            self.manifest = self._read_manifest(path)
            for name, table in self.manifest.tables.items():
                with self.table(name) as file:
                    if digest_of(file) != table.sha256:
                        raise NotABackup(
                            path=path, reason=f"the content of table {name} was changed or damaged"
                        )
        except KeyError as error:
            raise NotABackup(path=path, reason=f"it lacks {error.args[0]}") from None

    @contextmanager
    def table(self, name: str) -> Iterator[BufferedReader]:
        """The rows of a table as COPY wrote them."""
        file = self._tar.extractfile(f"tables/{name}")
        if file is None:
            raise KeyError(f"tables/{name}")
        with file:
            yield cast(BufferedReader, file)  # as tarfile makes it

    def _read_manifest(self, path: Path | str) -> Manifest:
        file = self._tar.extractfile(_MANIFEST)
        content = file.read() if file is not None else b""
        try:
            found = msgspec.json.decode(content).get("format")
            if isinstance(found, int) and found > FORMAT:
                raise NewerBackup(path=path, found=found, expected=FORMAT)
            manifest = msgspec.json.decode(content, type=Manifest)
        except (msgspec.MsgspecError, AttributeError) as error:
            raise NotABackup(path=path, reason=f"its manifest cannot be read: {error}") from None
        if not manifest.schema.isdigit():
            raise NotABackup(
                path=path, reason=f"its schema is {manifest.schema[:40]!r}, which is no revision"
            )
        for name, following in manifest.sequences.items():
            if not 0 < following <= _LARGEST:
                reason = f"its sequence {name[:40]!r} would go on with {following}, which is no id"
                raise NotABackup(path=path, reason=reason)
        return manifest


@contextmanager
def opened(path: Path, called: str = "") -> Iterator[Archive]:
    """Open a backup. Raises NotABackup, NewerBackup. ``called``: by errors; "": its path."""
    name = called or path
    try:
        tar = tarfile.open(path, mode="r:gz")  # noqa: SIM115 - closed below; errors of opening are told apart
    except FileNotFoundError:
        raise NotABackup(path=name, reason="there is no such file") from None
    except (OSError, tarfile.TarError, EOFError) as error:
        raise NotABackup(path=name, reason=f"it is not a compressed archive ({error})") from None
    with tar:
        try:
            yield Archive(name, tar)
        except (tarfile.TarError, EOFError, OSError) as error:
            raise NotABackup(path=name, reason=f"it ends too early or is damaged ({error})") from None
