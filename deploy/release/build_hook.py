"""Has wheel and sources tell the commit that they were built from: a hook of hatchling (``pyproject.toml``).

It runs in whatever environment builds the package, also from the sources of a release, where there is no repository:
so it knows hatchling and the standard library only, and the sources carry what it found in ``build.json``.
"""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: In the sources' first folder, and in the wheel's metadata (``admission.build_info``).
FILE: Final = "build.json"


class BuildHook(BuildHookInterface[BuilderConfig]):
    """Puts ``build.json`` in; an editable installation has none, for its files change."""

    _folder: Path | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before each build. ``version``: of the kind of build, such as ``editable``."""
        if version == "editable":
            return
        self._folder = Path(tempfile.mkdtemp(prefix="muster-build-"))
        file = self._folder / FILE
        file.write_text(json.dumps({"commit": commit_of(Path(self.root))}) + "\n")
        # As the modes of Git's files, whatever the umask of who builds.
        file.chmod(0o644)
        places = "extra_metadata" if self.target_name == "wheel" else "force_include"
        build_data[places][str(file)] = FILE

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called after each build."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def commit_of(root: Path) -> str:
    """What a source tree is: what its ``build.json`` tells, else its commit.

    With ``-changed`` if tracked files differ from it; ``unknown`` where there is no repository, or it is that of a
    folder above: sources that were unpacked in another project's checkout.
    """
    try:
        return str(json.loads((root / FILE).read_text())["commit"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    top, commit = git(root, "rev-parse", "--show-toplevel"), git(root, "rev-parse", "HEAD")
    if not top or not commit or Path(top).resolve() != root.resolve():
        return "unknown"
    return commit + ("-changed" if git(root, "status", "--porcelain", "--untracked-files=no") else "")


def git(root: Path, *words: str) -> str:
    """What git says; nothing where it is not here, or knows of no repository."""
    try:
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
