"""Log lines: what they are about, and what they never show."""

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from aiohttp.http_exceptions import LineTooLong

from admission import logs


@pytest.fixture(autouse=True)
def _root_logger_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    logging.captureWarnings(False)


def logged(form: Literal["json", "console"] = "json") -> tuple[logging.Logger, io.StringIO]:
    stream = io.StringIO()
    logs.configure(form=form, level="info", stream=stream)
    return logging.getLogger("admission.test"), stream


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_says_when_how_bad_who_and_about_what(golden: Any) -> None:
    logger, stream = logged()
    with logs.about(workload="vcjob/ml/train", term=7):
        logger.info("released %d pods", 8, extra={"seats": 8})

    (line,) = lines(stream)
    assert {
        name: line[name] for name in ("level", "logger", "message", "workload", "term", "seats")
    } == golden
    assert line["time"].endswith("Z")


def test_fields_nest_and_end_with_their_block() -> None:
    logger, stream = logged()
    with logs.about(term=7):
        with logs.about(workload="job/ml/a"):
            logger.info("inside")
        logger.info("between")
    logger.info("outside")

    assert [(line.get("term"), line.get("workload")) for line in lines(stream)] == [
        (7, "job/ml/a"),
        (7, None),
        (None, None),
    ]


async def test_tasks_keep_the_fields_they_were_started_with() -> None:
    logger, stream = logged()

    async def release() -> None:
        logger.info("released")

    with logs.about(workload="job/ml/a"):
        task = asyncio.create_task(release())
    with logs.about(workload="job/ml/b"):
        await task

    assert [line["workload"] for line in lines(stream)] == ["job/ml/a"]


@pytest.mark.parametrize("form", ["json", "console"])
def test_secrets_are_never_logged(form: Literal["json", "console"]) -> None:
    logger, stream = logged(form)
    try:
        raise ValueError("cannot connect to postgresql://muster:hunter2@db/muster?password=hunter2")
    except ValueError:
        logger.exception("Authorization: Bearer hunter2hunter2", extra={"dsn": "postgres://u:hunter2@h/d"})
    logger.error("-----BEGIN EC PRIVATE KEY-----\nhunter2\n-----END EC PRIVATE KEY-----")

    assert "hunter2" not in stream.getvalue()
    assert "ValueError" in stream.getvalue()


def test_the_console_form_is_one_readable_line() -> None:
    logger, stream = logged("console")
    with logs.about(term=7):
        logger.warning("lease is late")

    assert stream.getvalue().rstrip().endswith("WARNING admission.test: lease is late  term=7")


def test_requests_that_cannot_be_read_fill_no_log() -> None:
    _, stream = logged()
    logger = logging.getLogger("aiohttp.server")
    logger.error("Error handling request", exc_info=LineTooLong("aaa"))
    assert lines(stream) == []
    logger.error("Error handling request", exc_info=ValueError("a defect"))
    assert "a defect" in lines(stream)[0]["error"]
