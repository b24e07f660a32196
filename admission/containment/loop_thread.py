"""An event loop of its own, in a thread of its own: what must not wait for long steps of the main loop."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")


async def run_in_loop_thread(work: Callable[[], Coroutine[Any, Any, T]], *, name: str) -> T:
    """Run ``work`` on another event loop until it ends; what it returns or raises. ``name``: of the thread.

    Cancelled here, it is cancelled there, and has ended there before this raises. Connections and primitives of this
    loop cannot be used there.
    """
    here, there = asyncio.get_running_loop(), uvloop.new_event_loop()
    answer: asyncio.Future[T] = here.create_future()
    # The loop does not run yet, so this thread may still use it.
    task = there.create_task(work(), name=name)

    def run() -> None:
        try:
            # However it ends, the answer shows it.
            there.run_until_complete(asyncio.wait([task]))
        finally:
            there.run_until_complete(there.shutdown_asyncgens())
            there.close()
            with suppress(RuntimeError):  # the loop is closed: the process ends
                here.call_soon_threadsafe(partial(_settle, answer, task))

    threading.Thread(target=run, name=name, daemon=True).start()
    try:
        return await asyncio.shield(answer)
    except asyncio.CancelledError:
        with suppress(RuntimeError):  # it has ended just now
            there.call_soon_threadsafe(task.cancel)
        await asyncio.wait([answer])
        raise


def _settle(answer: asyncio.Future[T], task: asyncio.Task[T]) -> None:
    if task.cancelled():
        answer.cancel()
    elif (error := task.exception()) is not None:
        answer.set_exception(error)
        answer.exception()  # the caller may have been cancelled, and gets no answer
    else:
        answer.set_result(task.result())
