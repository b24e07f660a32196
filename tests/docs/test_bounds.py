"""The bounds of what is read, as the reference tells them."""

import re
from pathlib import Path

from queues.api.reading import user_values

PAGE = Path("docs/reference/names.md")


def test_the_bounds_of_values_are_the_documented_ones() -> None:
    section = PAGE.read_text().partition("## How much of an object is read")[2]
    told = {int(number) for number in re.findall(r"\d+", section)}
    of_pods = (
        "PODS",
        "POD_SETS",
        "RESOURCES",
        "TOLERATIONS",
        "EXPRESSIONS",
        "LISTED",
        "PORTS",
        "SUBGROUPS",
        "KEYS",
    )
    assert {getattr(user_values, f"MOST_{name}") for name in of_pods} <= told
    assert user_values.LONGEST_NAME in told
