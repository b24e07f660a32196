"""Where Postgres is: a DSN, or a file that has it, which is read again for each new connection."""

from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

#: ``postgresql://…``, or the file that has it. Others may replace the file at any time, as the kubelet does.
Dsn = str | Path


class UnusableDsnFile(OSError):
    """There is no DSN in the file, which is another time's matter: the file can be mended."""


def dsn_text(dsn: Dsn) -> str:
    """The DSN as it is now. Raises UnusableDsnFile."""
    if isinstance(dsn, str):
        return dsn
    expected = "expected a file with postgresql://user:password@host/database"
    try:
        text = dsn.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise UnusableDsnFile(f"{dsn} cannot be read ({error.strerror}), {expected}") from error
    except UnicodeDecodeError as error:
        raise UnusableDsnFile(f"{dsn} is no UTF-8, {expected}") from error
    if not text:
        raise UnusableDsnFile(f"{dsn} is empty, {expected}")
    return text


def database_of(dsn: str) -> str:
    """What a DSN says besides who connects: the same text is the same database, whatever its user and password."""
    try:
        parts = urlsplit(dsn)
    except ValueError:
        return dsn
    hosts = parts.netloc.rpartition("@")[2]
    rest = [(name, value) for name, value in parse_qsl(parts.query) if name not in ("user", "password")]
    return f"{hosts}{parts.path}?{urlencode(rest)}"
