"""What a chart of use tells in words."""

from admission.cli.page.charts import over_time
from tests.unit.admission.cli.page.shown import GPU, use_over_time


def told(*used: float, to: str) -> str:
    html = over_time(use_over_time(*used, to=to), queue="team", span="day", queues=[], resources=[GPU])
    return str(html).partition("<p>On average ")[2].partition("</p>")[0]


def test_a_slot_that_has_just_begun_counts_for_as_long_as_it_lasts() -> None:
    assert told(4.0, 4.0, to="2026-11-21T10:00:00Z") == "4.0 gpu were in use, 25 % of the capability."
    # Six minutes of 16 beside two hours of 0.
    assert told(0.0, 0.0, 16.0, to="2026-11-21T10:06:00Z") == "0.8 gpu were in use, 5 % of the capability."
