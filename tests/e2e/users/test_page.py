"""The page, opened by a member of a team with that member's rights only."""

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import urlsplit

from tests.e2e.support.manifests import volcano_job
from tests.e2e.support.sandbox import Sandbox

#: Text of a view.
Open = Callable[[str], str]


@contextmanager
def page(kubeconfig: Path) -> Iterator[Open]:
    """Start ``kubectl muster page``; what its views show is asked for as a browser does. Ctrl-C ends it."""
    words = [sys.executable, "-m", "admission.cli.kubectl_muster", "page", "--no-browser"]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        with browser.open(address, timeout=30) as answer:
            assert "secret" not in answer.url

        def shown(path: str) -> str:
            url = urlsplit(address)
            try:
                with browser.open(f"{url.scheme}://{url.netloc}/{path}", timeout=30) as answer:
                    return str(answer.read().decode())
            except urllib.error.HTTPError as error:
                return error.read().decode()

        try:
            yield shown
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0


def test_a_member_of_a_team_sees_the_team_s_work_and_nothing_else(sandbox: Sandbox) -> None:
    [node] = sandbox.add_nodes(1)
    queue = sandbox.add_queue()
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
        assert "nodes" in nodes
        assert node not in nodes

    with page(sandbox.stack.cluster.kubeconfig) as shown:
        assert f"{queue}: 8 used" in shown("queues")
        assert f"{node}: 8 GPUs, 8 held, 0 free, 0 unhealthy, Ready" in shown("nodes")
