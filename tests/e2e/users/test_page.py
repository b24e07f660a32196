"""The page, opened by a member of a team with that member's rights only."""

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPResponse
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import urlsplit

from admission.cli.access.requests import PREFIX, stream
from admission.kube.client.kubeconfig import load
from tests.e2e.support.manifests import volcano_job
from tests.e2e.support.sandbox import Sandbox
from tests.waiting import LIMIT

#: Text of a view.
Open = Callable[[str], str]


@contextmanager
def served_page(kubeconfig: Path) -> Iterator[str]:
    """Start ``kubectl muster page``, and give its address. Ctrl-C ends it."""
    words = [sys.executable, "-m", "admission.cli.kubectl_muster", "page", "--no-browser"]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[-1]
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(LIMIT) == 0


@contextmanager
def page(kubeconfig: Path) -> Iterator[Open]:
    """The page; what its views show is asked for as a browser does."""
    with served_page(kubeconfig) as address:
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        with browser.open(address, timeout=LIMIT) as answer:
            assert "secret" not in answer.url

        def shown(path: str) -> str:
            url = urlsplit(address)
            try:
                with browser.open(f"{url.scheme}://{url.netloc}/{path}", timeout=LIMIT) as answer:
                    return str(answer.read().decode())
            except urllib.error.HTTPError as error:
                return error.read().decode()

        yield shown


def test_a_member_of_a_team_sees_the_team_s_work_and_nothing_else(sandbox: Sandbox) -> None:
    [node] = sandbox.add_nodes(1)
    sandbox.add_queue()
    sandbox.add(volcano_job(sandbox, "runs", 2, 4))
    sandbox.wait_running("runs-", 2)
    sandbox.add(volcano_job(sandbox, "waits", 2, 4))
    sandbox.wait_reason("waits", "NoFit")

    with page(sandbox.somebody("page-member")) as shown:
        waiting = shown(f"pending?namespace={sandbox.name}")
        assert f"/workloads/{sandbox.name}/waits" in waiting
        assert "<strong>NoFit</strong>" in waiting
        story = shown(f"workloads/{sandbox.name}/runs")
        assert node in story
        assert "admitted" in story
        elsewhere = shown("pending?namespace=kube-system")
        assert "page-member may not list jobs, podgroups or pods in namespace kube-system" in elsewhere
        nodes = shown("nodes")
        assert 'role="alert"' in nodes
        assert "page-member may not list nodes." in nodes
        assert "Ask a cluster administrator for that right" in nodes
        assert node not in nodes
        missing = shown(f"workloads/{sandbox.name}/run")
        assert "<h1>Not found</h1>" in missing
        assert f"/workloads?namespace={sandbox.name}" in missing

    with page(sandbox.stack.cluster.kubeconfig) as shown:
        assert f"{sandbox.queues[0]}: 8 used" in shown("queues")
        assert f"{node}: 8 GPUs, 8 held, 0 free, 0 unhealthy, Ready" in shown("nodes")


def test_changes_are_streamed_through_the_api_server_with_no_more_than_a_member_s_rights(
    sandbox: Sandbox,
) -> None:
    sandbox.add_nodes(1)
    sandbox.add_queue()
    access = load(str(sandbox.somebody("page-listener")), None)
    with stream(access, f"{PREFIX}changes?watch=true", timeout=LIMIT) as answer:
        assert (answer.status, answer.headers["Content-Type"]) == (200, "text/event-stream")
        first = event(answer)
        sandbox.add(volcano_job(sandbox, "runs", 2, 4))
        assert event(answer) != first
    sandbox.wait_running("runs-", 2)


def event(answer: HTTPResponse) -> str:
    """The id of the next event."""
    while line := answer.readline():
        if line.startswith(b"id: "):
            return line.decode()
    raise AssertionError("the stream ended")
