"""The SQL tests once more, on the Postgres that most people run: the official image."""

import os
import subprocess
import sys

import pytest


@pytest.mark.containers
def test_the_sql_tests_pass_on_a_server_in_a_container() -> None:
    from testcontainers.community.postgres import PostgresContainer

    image = os.environ.get("MUSTER_TEST_POSTGRES_IMAGE", "postgres:18-alpine")
    with PostgresContainer(image) as server:
        run = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-m", "not containers"),
                *("--postgres", server.get_connection_url(driver=None)),
                *("tests/sql", "tests/laws/ledger/test_ledger_in_postgres.py"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
    assert run.returncode == 0, run.stdout[-8000:]
