"""Use and waits of a small cluster over time, as the read API tells them."""

from datetime import datetime

from admission.web.reader import EVERYTHING, Sight
from admission.web.time_series import (
    TimeSeriesRequest,
    series_of_queues,
    time_series_list,
)
from queues.read_api.usage import TimeSeriesList
from queues.sql.read.rows import AccountLine
from queues.sql.read.time_series import Waits
from tests.fakes.read_api.fake_lists import GPU, NOW
from tests.fakes.read_api.fake_quota import FakeQuota

PARENTS = {"root": None, "team-a": "root", "train": "team-a", "dev": "team-a", "team-b": "root"}
UNITS = 1000
#: GPUs by queue, of every 24 hours.
DAY = {
    "train": (8, 8, 8, 8, 8, 8, 8, 16, 16, 16, 24, 24, 24, 24, 24, 24, 24, 24, 16, 16, 16, 8, 8, 8),
    "dev": (0, 0, 0, 0, 0, 0, 0, 0, 2, 4, 8, 8, 8, 8, 8, 8, 8, 8, 4, 2, 0, 0, 0, 0),
    "team-b": (*[40] * 4, *[32] * 3, 24, *[16] * 8, *[24] * 2, *[32] * 2, *[40] * 4),
}
LIMITS = {
    "root": AccountLine(flavor="", resource=GPU, capability=64 * UNITS),
    "team-a": AccountLine(flavor="", resource=GPU, deserved=24 * UNITS, capability=32 * UNITS),
    "team-b": AccountLine(flavor="", resource=GPU, guarantee=24 * UNITS),
}


class FakeTimeSeries(FakeQuota):
    """Use that is alike every day, and waits that grow with it."""

    #: Differs when something has changed.
    mark = "1"

    async def time_series(self, request: TimeSeriesRequest, *, sight: Sight = EVERYTHING) -> TimeSeriesList:
        self._up()
        slots = request.slots(int(datetime.fromisoformat(NOW).timestamp()), self.postings_begin)
        series = series_of_queues(PARENTS, request.queue, sight)
        use: dict[str, tuple[int, ...]] = {}
        for queue, name in series.items():
            amounts = DAY.get(queue, (0,) * 24) if request.resource == GPU else (0,) * 24
            hours = [start // 3600 % 24 for start in slots.starts()]
            units = [amounts[hour] * UNITS * slots.length(index) for index, hour in enumerate(hours)]
            use[name] = tuple(a + b for a, b in zip(use.get(name, (0,) * len(units)), units, strict=True))
        waits = {
            name: {
                index: Waits(count=2 + hour % 5, median=60 + 30 * (hour % 12), most=600 + 180 * (hour % 12))
                for index, hour in enumerate(start // 3600 % 24 for start in slots.starts())
                if hour != 3  # in the night nothing comes
            }
            for name in (None, *use)
        }
        age = {"now": NOW, "as_of": self.as_of, "behind": self.behind}
        return time_series_list(request, slots, series, use, waits, LIMITS, self.postings_begin, age)

    async def change_mark(self) -> str:
        self._up()
        return self.mark
