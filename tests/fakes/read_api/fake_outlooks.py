"""What the fake leader expects of the workloads of the fake cluster."""

from queues.read_api.bodies import ExpectedList, OutlookBody
from tests.fakes.read_api.fake_lists import stored

OUTLOOK = stored("outlook_of_the_pending", OutlookBody)
#: What the leader expects of those who wait: nothing is known of sweep.
EXPECTED = stored("expected", ExpectedList)
#: Of a workload that runs.
RUNS = stored("outlook_of_the_running", OutlookBody)
