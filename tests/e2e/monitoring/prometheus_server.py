"""A real Prometheus that scrapes replicas every second and evaluates the shipped rules in a fraction of their time."""

import json
import urllib.parse
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.local.processes import free_port
from queues.sql.embedded.supervised import Program, SupervisedProcess
from tests.prometheus.rules import files, shortened
from tests.waiting import LIMIT, until

#: What is a minute in the rules is a second here.
FACTOR: Final = 1 / 60
#: Seconds in which a rate has enough samples at one a second.
SHORTEST_RANGE: Final = 5.0
#: An alert that waits for a minute without a turn, of which ten seconds are enough here.
SOONER: Final = "MusterTurnStuck"
ONE_MINUTE, TEN_SECONDS = "> 60", "> 10"


class PrometheusServer:
    """Use as a context manager; everything that it stores is below ``folder``."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._program = program
        self._folder = folder
        self._port = free_port()
        self._process: SupervisedProcess | None = None

    def __enter__(self) -> "PrometheusServer":
        rules = self._folder / "rules"
        rules.mkdir(parents=True)
        for file in files():
            short = shortened(file.read_text(encoding="utf-8"), FACTOR, shortest_range=SHORTEST_RANGE)
            for rule in (rule for group in short["groups"] for rule in group["rules"]):
                if rule.get("alert") == SOONER:
                    assert ONE_MINUTE in rule["expr"], rule
                    rule["expr"] = rule["expr"].replace(ONE_MINUTE, TEN_SECONDS)
            (rules / file.name).write_text(yaml.safe_dump(short), encoding="utf-8")
        self.scrape(muster=(), agents=())
        configuration = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(rules / "*.yaml")],
            "scrape_configs": [
                {
                    "job_name": job,
                    "file_sd_configs": [
                        {"files": [str(self._folder / f"{job}.json")], "refresh_interval": "1s"}
                    ],
                }
                for job in ("muster", "muster-agent")
            ],
        }
        file = self._folder / "prometheus.yml"
        file.write_text(yaml.safe_dump(configuration), encoding="utf-8")
        self._process = SupervisedProcess.start(
            Program(
                argv=[
                    self._program,
                    f"--config.file={file}",
                    f"--storage.tsdb.path={self._folder / 'data'}",
                    f"--web.listen-address=127.0.0.1:{self._port}",
                ],
                log=self._folder / "prometheus.log",
                cwd=self._folder,
            )
        )
        until(self._answers, f"Prometheus to answer\n{self.log()}")
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.stop()

    def scrape(self, *, muster: Iterable[str], agents: Iterable[str] = ()) -> None:
        """Scrape these addresses (HOST:PORT) from now on."""
        for job, targets in (("muster", muster), ("muster-agent", agents)):
            fresh = self._folder / f"{job}.new"
            fresh.write_text(json.dumps([{"targets": list(targets)}]), encoding="utf-8")
            fresh.rename(self._folder / f"{job}.json")

    def query(self, expr: str) -> list[dict[str, Any]]:
        """The series that an expression has now."""
        found: list[dict[str, Any]] = self._get(f"query?{urllib.parse.urlencode({'query': expr})}")["result"]
        return found

    def firing(self) -> dict[str, dict[str, str]]:
        """Annotations of the alerts that fire, by name."""
        return {
            each["labels"]["alertname"]: each["annotations"]
            for each in self._get("alerts")["alerts"]
            if each["state"] == "firing"
        }

    def fires(self, alert: str) -> dict[str, str]:
        """Wait until an alert fires; its annotations."""
        until(lambda: alert in self.firing(), f"{alert} to fire")
        return self.firing()[alert]

    def is_silent(self, alert: str) -> None:
        """Wait until an alert does not fire."""
        until(lambda: alert not in self.firing(), f"{alert} to end")

    def log(self) -> str:
        """The end of its log."""
        file = self._folder / "prometheus.log"
        return file.read_text(errors="replace")[-2000:] if file.exists() else ""

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/-/ready", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _get(self, question: str) -> Any:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{self._port}/api/v1/{question}", timeout=LIMIT
        ) as answer:
            return json.load(answer)["data"]
