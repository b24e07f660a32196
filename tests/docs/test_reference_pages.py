"""Pages that are written from tables in the code."""

import pytest

from deploy.reference_pages import DOCS, pages


@pytest.mark.parametrize("page", pages())
def test_a_page_is_what_its_tables_say(page: str) -> None:
    assert (DOCS / page).read_text(encoding="utf-8") == pages()[page], "run python -m deploy.reference_pages"
