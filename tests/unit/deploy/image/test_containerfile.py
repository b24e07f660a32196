"""The Containerfile: without an engine, that it tells the image what ``make image`` tells it."""

import io
import json
import shlex
import tarfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from deploy.image import archive

CONTAINERFILE = Path(archive.__file__).with_name("Containerfile")


def stages() -> list[list[tuple[str, str]]]:
    """Each stage's instructions with their arguments, FROM first."""
    lines = [line for line in CONTAINERFILE.read_text().splitlines() if not line.lstrip().startswith("#")]
    found: list[list[tuple[str, str]]] = []
    for line in "\n".join(lines).replace("\\\n", "").splitlines():
        instruction, _, words = line.strip().partition(" ")
        if instruction == "FROM":
            found.append([])
        if instruction:
            found[-1].append((instruction, words))
    return found


@pytest.fixture
def made(tmp_path: Path) -> dict[str, Any]:
    """What ``make image`` tells the image of a commit."""
    (tmp_path / "root").mkdir()
    file = tmp_path / "image.tar"
    archive.write(
        tmp_path / "root",
        file,
        name=f"muster:{version('muster')}",
        architecture="amd64",
        created=0,
        commit="abc",
    )
    with tarfile.open(file) as tar:

        def read(name: str) -> Any:
            content = tar.extractfile(name)
            assert content is not None
            return json.load(io.TextIOWrapper(content))

        [of_docker] = read("manifest.json")
        config: dict[str, Any] = read(of_docker["Config"])["config"]
    return config


def test_it_sets_what_make_image_sets(made: dict[str, Any]) -> None:
    last = dict(stages()[-1])
    assert last["FROM"] == "scratch"
    assert last["ARG"].split("=")[0] == "COMMIT"
    assert {
        "User": last["USER"],
        "WorkingDir": last["WORKDIR"],
        "Env": shlex.split(last["ENV"]),
        "Cmd": json.loads(last["CMD"]),
        "Labels": dict(word.split("=", 1) for word in shlex.split(last["LABEL"].replace("$COMMIT", "abc"))),
    } == made


def test_its_files_are_those_of_make_image() -> None:
    build, last = stages()
    command = next(words for instruction, words in build if "deploy.image" in words)
    folder = shlex.split(command)[-1]
    assert [words for instruction, words in last if instruction in {"COPY", "ADD", "RUN"}] == [
        f"--from=build {folder} /"
    ]


def test_the_architecture_is_the_one_that_the_engine_is_asked_for() -> None:
    """BuildKit would prefer a default to ``--platform``."""
    build, _ = stages()
    assert ("ARG", "TARGETARCH") in build
