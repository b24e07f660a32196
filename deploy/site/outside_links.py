"""Links that leave ``docs``: they lead to files of the repository, which the site does not have. A hook of MkDocs."""

import os
import posixpath
import re
from pathlib import Path
from typing import Any, Final

_REPOSITORY: Final = Path(__file__).parents[2]
_LINK: Final = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<path>\.\./[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Lead such links to the repository's pages if ``repo_url`` names them; else name the file instead.

    A link to a file that is not there stays, and the build is refused for it.
    """
    folder = posixpath.dirname(page.file.src_uri)

    def led(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", folder, match["path"]))
        if target.startswith(("docs/", "..")) or not (_REPOSITORY / target).exists():
            return match[0]
        if config.get("repo_url"):
            return f"[{match['text']}]({config['repo_url'].rstrip('/')}/blob/main/{target}{match['anchor'] or ''})"
        return f"{match['text']} (`{os.fspath(target)}`)"

    return _LINK.sub(led, markdown)
