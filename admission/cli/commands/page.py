"""``muster page``: the page in the cluster, behind a proxy that signs people in."""

import ipaddress
import signal
import sys
from pathlib import Path
from threading import Thread

import click

from admission.cli.command_line import CommandFailed
from admission.cli.options import price, prices_of

_LISTEN = "127.0.0.1:8080"


@click.command(short_help="Serve the page in the cluster, behind a proxy that signs people in.")
@click.option("--listen", default=_LISTEN, show_default=True, metavar="HOST:PORT", help="A loopback address.")
@click.option(
    "--api-server",
    default="https://kubernetes.default.svc",
    show_default=True,
    metavar="URL",
    help="The API server that is asked.",
)
@click.option(
    "--ca-file", metavar="FILE", help="PEM file with the authorities of its certificate [the system's]."
)
@click.option("--cluster-name", default="", metavar="NAME", help="What people call the cluster.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.1, max=300),
    default=15.0,
    show_default=True,
    metavar="SECONDS",
    help="To wait for an answer.",
)
@price
def page(
    listen: str, api_server: str, ca_file: str | None, cluster_name: str, timeout: float, prices: str | None
) -> None:
    """Show queues, waiting workloads and nodes in the browser to people who have no kubectl.

    What a request shows is asked of the API server with the bearer token of that request (Authorization), so with the
    rights of the person whose token it is; without a token nothing is shown. A proxy in the same pod signs people in
    and passes their tokens on: therefore only loopback addresses are taken. The command has no rights of its own, reads
    no kubeconfig, and only reads.
    """
    from admission.api_connection import Access
    from admission.cli.page.shared import SharedPageServer

    host, port = _address(listen)
    access = Access(server=_server(api_server), authority=_authority(ca_file))
    try:
        server = SharedPageServer(
            (host, port), access, timeout=timeout, cluster=cluster_name, prices=prices_of(prices)
        )
    except OSError as error:
        found = error.strerror or str(error)
        raise CommandFailed(
            tried=f"Listening on {listen}", found=found, hint="Another address: --listen HOST:PORT."
        ) from error
    # The first process of a container has no handler for it unless it sets one. No exception ends the loop: one that a
    # handler raises is lost where it meets a finalizer.
    signal.signal(signal.SIGTERM, lambda *_: Thread(target=server.shutdown, daemon=True).start())
    click.echo(f"The page is at http://{host}:{server.server_port}, for requests with a bearer token.")
    sys.stdout.flush()
    server.serve_until_ended()


def _address(text: str) -> tuple[str, int]:
    """Host and port. Raises UsageError: it is no loopback address."""
    host, _, port = text.rpartition(":")
    name = "127.0.0.1" if host == "localhost" else host
    try:
        is_loopback = ipaddress.IPv4Address(name).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback or not port.isdecimal() or int(port) > 65535:
        raise click.UsageError(
            f"--listen: found {text[:60]!r}, expected a loopback address such as {_LISTEN}: people's tokens come in "
            "plain HTTP, from a proxy in the same pod."
        )
    return name, int(port)


def _server(url: str) -> str:
    if not url.startswith("https://") or len(url) == len("https://"):
        raise click.UsageError(f"--api-server: found {url[:60]!r}, expected https://HOST[:PORT].")
    return url.rstrip("/")


def _authority(path: str | None) -> str | None:
    """The PEM text of the authorities. Raises CommandFailed: it cannot be read, or is none."""
    if path is None:
        return None
    try:
        text = Path(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(tried=f"Reading --ca-file {path}", found=str(error)) from error
    if "-----BEGIN CERTIFICATE-----" not in text:
        raise CommandFailed(
            tried=f"Reading --ca-file {path}", found="found no certificate, expected a PEM file"
        )
    return text
