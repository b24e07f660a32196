"""Which migrations may run while an older version is at work."""

import pytest

from queues.errors import EmptyDatabase, SchemaTooFarBehind, SchemaTooNew, SchemaTooOld, UnreleasedSchema
from queues.sql.revisions import (
    Revision,
    is_older_session,
    known_revisions,
    require_fitting,
    session_name,
    target_beside_older,
)

#: A version whose own are the last two, after those of two older ones.
KNOWN = (
    Revision("0001", False),
    Revision("0002", True),
    Revision("0003", False),
    Revision("0004", True),
)


@pytest.mark.parametrize("found", ["0003", "0004"])
def test_code_works_on_both_sides_of_its_last_post_revisions(found: str) -> None:
    require_fitting(found, KNOWN)


def test_an_empty_database_is_not_told_as_an_old_one() -> None:
    with pytest.raises(EmptyDatabase, match="new, another one than Muster had, or all is lost"):
        require_fitting(None, KNOWN)


@pytest.mark.parametrize("found", ["0001", "0002"])
def test_an_older_schema_is_told_with_the_revision_that_is_needed(found: str) -> None:
    with pytest.raises(SchemaTooOld, match="needs 0003"):
        require_fitting(found, KNOWN)


def test_a_revision_before_the_first_one_is_of_an_unreleased_version() -> None:
    with pytest.raises(
        UnreleasedSchema, match=r"revision 0002; the first one that counts is 0003.* empty database"
    ):
        require_fitting("0002", KNOWN[2:])


def test_an_unknown_revision_is_of_a_newer_version() -> None:
    with pytest.raises(SchemaTooNew, match=r"revision 0005.*made for 0004"):
        require_fitting("0005", KNOWN)


@pytest.mark.parametrize(("found", "target"), [("0002", "0003"), ("0003", "0003"), ("0004", "0004")])
def test_beside_the_version_before_only_its_next_revisions_run(found: str, target: str) -> None:
    assert target_beside_older(found, KNOWN) == target


def test_in_an_empty_database_there_is_no_older_version() -> None:
    assert target_beside_older(None, KNOWN) == "0004"


def test_two_versions_at_once_need_an_end_of_the_oldest() -> None:
    with pytest.raises(SchemaTooFarBehind, match=r"revision 0002 takes away .* Stop all replicas"):
        target_beside_older("0001", KNOWN)


def test_connections_say_which_revision_their_code_knows() -> None:
    newest = known_revisions()[-1].number
    assert session_name() == f"muster {newest}"
    names = ("muster 0001", session_name(), "muster 9999")
    assert [is_older_session(name) for name in names] == [True, False, False]
    assert not any(map(is_older_session, ("psql", "", "muster", "muster-exporter", "musterdb 0001")))
