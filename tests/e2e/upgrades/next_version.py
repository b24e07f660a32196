"""A next version of Muster: these sources, and two migrations more, one for each side of an upgrade.

The first one the version before can live with; the second one takes away what only that version needs.
"""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.local.stack import MUSTER, Stack
from queues.sql.revisions import known_revisions

#: The newest revision of these sources, and those of the next version.
BEFORE: Final = known_revisions()[-1].number
PRE, POST = "9998", "9999"

_PACKAGES: Final = ("admission", "queues", "migrations")
_HEAD: Final = (
    'revision = "{revision}"\ndown_revision = "{before}"\nbranch_labels = None\ndepends_on = None\n'
)
_PRE: Final = """
from alembic import op

{head}

def upgrade() -> None:
    op.execute("ALTER TABLE workloads ADD COLUMN of_next_version text DEFAULT '' NOT NULL")


def downgrade() -> None:
    op.execute("ALTER TABLE workloads DROP COLUMN of_next_version")
"""
#: With it an older version could store no workload: it does not know that the column has to be filled. Nor does this
#: one: a trigger stands for what its code would do.
_POST: Final = """
from alembic import op

{head}

def upgrade() -> None:
    op.execute(
        "CREATE FUNCTION fill_of_next_version() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN IF current_setting('application_name') = 'muster {revision}' "
        "THEN NEW.of_next_version = 'filled'; END IF; RETURN NEW; END $$"
    )
    op.execute(
        "CREATE TRIGGER fill_of_next_version BEFORE INSERT ON workloads "
        "FOR EACH ROW EXECUTE FUNCTION fill_of_next_version()"
    )
    op.execute("ALTER TABLE workloads ALTER COLUMN of_next_version DROP DEFAULT")


def downgrade() -> None:
    op.execute("ALTER TABLE workloads ALTER COLUMN of_next_version SET DEFAULT ''")
    op.execute("DROP TRIGGER fill_of_next_version ON workloads")
    op.execute("DROP FUNCTION fill_of_next_version()")
"""


@dataclass(frozen=True, slots=True)
class NextVersion:
    """Its sources, and commands of it."""

    tree: Path

    @classmethod
    def written_into(cls, folder: Path) -> "NextVersion":
        """Copy these sources, and add the migrations."""
        for package in _PACKAGES:
            shutil.copytree(Path.cwd() / package, folder / package)
        versions = folder / "migrations" / "versions"
        for stage, text, revision, before in (("pre", _PRE, PRE, BEFORE), ("post", _POST, POST, PRE)):
            head = _HEAD.format(revision=revision, before=before)
            content = text.replace("{head}", head).replace("{revision}", revision)
            (versions / f"{revision}_{stage}_of_next_version.py").write_text(content.lstrip())
        return cls(folder)

    def muster(
        self, stack: Stack, *arguments: str | Path, check: bool = True
    ) -> "subprocess.CompletedProcess[str]":
        """A command of this version, as the cluster's administrator."""
        return stack.run(["env", "-C", self.tree, sys.executable, *MUSTER, *arguments], check)
