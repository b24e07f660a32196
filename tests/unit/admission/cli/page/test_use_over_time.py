"""What a chart of use tells in words."""

from admission.cli.page.charts import over_time
from queues.read_api.usage import SeriesBody, TimeSeriesList

GPU = "nvidia.com/gpu"
SLOTS = ("2026-11-21T08:00:00Z", "2026-11-21T09:00:00Z", "2026-11-21T10:00:00Z")


def body(*used: float, to: str) -> TimeSeriesList:
    nothing = (None,) * len(used)
    line = SeriesBody(
        queue="team",
        deserved=None,
        capability=16.0,
        used=used,
        started=(0,) * len(used),
        wait_median=nothing,
        wait_most=nothing,
    )
    return TimeSeriesList(
        now=to,
        from_=SLOTS[0],
        to=to,
        step=3600,
        resource=GPU,
        slots=SLOTS[: len(used)],
        history_begins=None,
        items=(line,),
        total=0,
    )


def told(*used: float, to: str) -> str:
    html = over_time(body(*used, to=to), queue="team", span="day", queues=[], resources=[GPU])
    return str(html).partition("<p>On average ")[2].partition("</p>")[0]


def test_a_slot_that_has_just_begun_counts_for_as_long_as_it_lasts() -> None:
    assert told(4.0, 4.0, to="2026-11-21T10:00:00Z") == "4.0 gpu were in use, 25 % of the capability."
    # Six minutes of 16 beside two hours of 0.
    assert told(0.0, 0.0, 16.0, to="2026-11-21T10:06:00Z") == "0.8 gpu were in use, 5 % of the capability."
