"""What objects should say about themselves, from the world; written by ``admission.kube.status``."""

from collections.abc import Callable, Collection

from admission.careers import Careers
from admission.cycle import TurnReport
from admission.kube.client import Client
from admission.world import World
from queues.workload import WorkloadKey
import asyncio


class Statuses:
    def __init__(self, client: Client, guard: Callable[[], None], careers: Careers) -> None:
        pass

    async def run(self) -> None:
        await asyncio.Event().wait()

    def look_at(self, world: World, touched: Collection[WorkloadKey], report: TurnReport) -> None:
        pass
