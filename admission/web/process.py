"""A process that serves next to the leader: the read API for users, or the webhook for the API server.

    python -m admission.web.process < order

It ends when its standard input does: with the process that started it, whatever ends that.
"""

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import uvloop

from admission import logs
from admission.kube.client.client import Client
from admission.kube.webhook.validity import Validity
from admission.settings import Settings
from admission.web.supervision import OPEN, ServingOrder, certificates_line

_log = logging.getLogger(__name__)

#: Requests to the API server at a time.
_REQUESTS: Final = 32
#: Seconds after the order to end after which the webhook ends anyhow. Answers to users are not waited for.
_GRACE: Final = 0.5
#: How far users stand back behind the leader, which gets the processor first.
_NICE: Final = 10
#: Linux shares the processor between sessions before it looks at what is nice inside one: sched(7), autogroups.
_SESSION: Final = Path("/proc/self/autogroup")


async def run(order: ServingOrder, stop: asyncio.Event) -> None:
    """Serve until ``stop`` is set."""
    settings = Settings.model_validate(order.settings)
    async with await Client.connect(settings.kubeconfig, settings.context, concurrency=_REQUESTS) as client:
        serve = _serve_webhook if order.role == "webhook" else _serve_users
        serving = asyncio.create_task(serve(order, settings, client), name=order.role)
        stopping = asyncio.create_task(stop.wait())
        done, _ = await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if serving in done:
            serving.result()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


# Each role imports what it needs: without SQL and the read API the webhook starts in half the time, with 25 MB less.


async def _serve_users(order: ServingOrder, settings: Settings, client: Client) -> None:
    from admission.web.user_service import serve

    lower_priority(_NICE)
    await serve(order, settings, client, _say_open, _say_certificates)


async def _serve_webhook(order: ServingOrder, settings: Settings, client: Client) -> None:
    from admission.kube.webhook.configuration import Callee
    from admission.kube.webhook.server import WebhookServer

    callee = Callee(url=settings.webhook_url, namespace=settings.namespace)
    address = settings.webhook_address
    server = WebhookServer(
        client,
        callee=callee,
        host=address.host,
        port=address.port,
        certificates=settings.certificates_dir,
        schedulers=(settings.scheduler_name, *settings.scheduler_aliases),
    )
    server.keeper.loaded = _say_certificates
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_tell(server.open))
        await server.run()


def lower_priority(nice: int) -> None:
    """Let other processes of this machine go first, as ``nice`` says (0 to 19): this one, which has a session of its
    own, with all of that session."""
    os.nice(nice)
    with suppress(OSError):  # there are no such groups here
        _SESSION.write_text(str(nice))


async def _tell(is_open: asyncio.Event) -> None:
    await is_open.wait()
    _say_open()


def _say_open() -> None:
    _say(OPEN)


def _say_certificates(serving: Validity, authority: Validity) -> None:
    _say(certificates_line(serving, authority))


def _say(line: bytes) -> None:
    # Broken: the process that started this one has ended, and so does this one, by its input.
    with suppress(BrokenPipeError):
        os.write(sys.stdout.fileno(), line)


def _end_with_input(stop: Callable[[], object], grace: float) -> None:
    """In a thread of its own: wait for the end of the input, then end the process, at the latest after ``grace``."""
    # Not by way of sys.stdin: its lock would be held when the interpreter is taken down, which aborts the process.
    while os.read(sys.stdin.fileno(), 4096):
        pass
    if grace:
        with suppress(RuntimeError):  # the loop has ended already
            stop()
        threading.Event().wait(grace)
    os._exit(0)


async def _main(order: ServingOrder) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    grace = _GRACE if order.role == "webhook" else 0.0
    arguments = (lambda: loop.call_soon_threadsafe(stop.set), grace)
    threading.Thread(target=_end_with_input, args=arguments, daemon=True).start()
    await run(order, stop)
    os._exit(0)  # nothing is left to be done: taking the interpreter down would take longer than the rest


def main() -> int:
    """Read the order, and carry it out. Without one nothing is done: what would have given it has ended."""
    line = sys.stdin.buffer.readline()
    if not line.endswith(b"\n"):
        return 0
    order = msgspec.json.decode(line, type=ServingOrder)
    settings = Settings.model_validate(order.settings)
    logs.configure(form=settings.log_format, level=settings.log_level)
    status = 0
    try:
        uvloop.run(_main(order))
    except* OSError as errors:  # a port that is taken
        _log.warning("%s cannot be served: %s", order.role, errors.exceptions[0])
        status = 1
    except* Exception:
        _log.critical("%s failed", order.role, exc_info=True)
        status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
