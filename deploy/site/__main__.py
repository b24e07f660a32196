"""Builds the site: ``python -m deploy.site [FOLDER]``, by default ``dist/site``.

A version is a folder of its own there, and ``versions.json`` names all of them, for the menu of versions.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path

from deploy.site.build import BrokenSite, build

_DEFAULT = Path(__file__).parents[2] / "dist" / "site"


def main(folder: Path) -> None:
    """Build the version of this repository into the site in ``folder``."""
    number = ".".join(version("muster").split(".")[:2])
    build(folder / number)
    known = folder / "versions.json"
    entries = json.loads(known.read_text()) if known.exists() else []
    others = [entry for entry in entries if entry["version"] != number]
    entries = sorted([{"version": number, "title": number, "aliases": []}, *others], key=_age, reverse=True)
    known.write_text(json.dumps(entries, indent=1) + "\n")
    newest = entries[0]["version"]
    (folder / "index.html").write_text(
        f'<!doctype html><meta charset="utf-8"><title>Muster</title>'
        f'<meta http-equiv="refresh" content="0; url={newest}/"><a href="{newest}/">Muster {newest}</a>\n'
    )
    print(f"{folder / number}: the documentation of {number}")


def _age(entry: dict[str, str]) -> list[int]:
    return [int(part) for part in entry["version"].split(".")]


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]) if sys.argv[1:] else _DEFAULT)
    except BrokenSite as error:
        sys.exit(f"The site cannot be built: {error}")
