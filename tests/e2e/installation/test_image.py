"""The image: built here from the locks, it runs Muster's commands as its own user, with no other program."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import deploy
from deploy.image import archive, debian, root, sbom
from deploy.image.__main__ import cache_folder
from deploy.image.errors import ImageError

REPOSITORY = Path(deploy.__file__).parents[1]
needs_debian = pytest.mark.skipif(
    shutil.which("dpkg-deb") is None or os.geteuid() != 0,
    reason="the image is built on Debian, and tried as root",
)
pytestmark = needs_debian
#: The most that a registry and each node have to keep, compressed, in bytes.
LARGEST = 200_000_000


def inside(image_root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the image as the image's user, with nothing of this machine's environment."""
    chroot = shutil.which("chroot")
    assert chroot is not None
    return subprocess.run(
        [chroot, f"--userspec={root.USER}:{root.USER}", image_root, *command],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/local/bin:/usr/bin", "LANG": "C.UTF-8"},
    )


def test_it_tells_the_commit_that_it_was_built_from(image_root: Path) -> None:
    told = inside(image_root, "/usr/local/bin/muster", "--version")
    assert told.returncode == 0, told.stderr
    assert "commit 0123abcd, fingerprint " in told.stdout


@pytest.mark.parametrize(
    "command", ["muster run", "muster agent", "muster migrate", "kubectl-muster pending"]
)
def test_its_commands_find_all_that_they_need(image_root: Path, command: str) -> None:
    name, *words = command.split()
    told = inside(image_root, f"/usr/local/bin/{name}", *words, "--help")
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith(f"Usage: {command.replace('-', ' ')}")


def test_every_module_can_be_imported(image_root: Path) -> None:
    """Nothing that Muster needs was left out of the image: libraries of wheels and of Python included."""
    everything = (
        "import pkgutil, importlib\n"
        "for top in ('admission', 'queues', 'migrations'):\n"
        "    for each in pkgutil.walk_packages(importlib.import_module(top).__path__, top + '.'):\n"
        "        if not each.name.startswith('migrations.') and not each.name.endswith('__main__'):\n"
        "            importlib.import_module(each.name)\n"
        "import ssl, sqlite3, lzma, bz2, ctypes, pynvml, zoneinfo\n"
        "print(len(ssl.create_default_context().get_ca_certs()), zoneinfo.ZoneInfo('Europe/Berlin'))\n"
    )
    told = inside(image_root, "/usr/bin/python3.11", "-I", "-c", everything)
    assert told.returncode == 0, told.stderr[-2000:]
    certificates, zone = told.stdout.split()
    assert int(certificates) > 100
    assert zone == "Europe/Berlin"


def test_it_can_send_traces(image_root: Path) -> None:
    connect = (
        "from admission.tracing.otlp import OtlpExporter; OtlpExporter.connect('muster-0'); print('ready')"
    )
    told = inside(image_root, "/usr/bin/python3.11", "-I", "-c", connect)
    assert (told.returncode, told.stdout) == (0, "ready\n"), told.stderr[-2000:]


def test_it_has_no_other_program(image_root: Path) -> None:
    programs = {
        str(path.relative_to(image_root))
        for path in image_root.rglob("*")
        if path.is_file() and not path.is_symlink() and path.stat().st_mode & 0o111
    }
    loaders = {each for each in programs if Path(each).name.startswith("ld-linux")}
    assert programs - loaders == {
        "usr/bin/python3.11",
        "usr/local/bin/muster",
        "usr/local/bin/kubectl-muster",
    }
    assert not [path for path in image_root.rglob("*") if path.stat(follow_symlinks=False).st_mode & 0o6000]


def test_its_files_do_not_tell_when_it_was_built(image_root: Path) -> None:
    assert {path.stat(follow_symlinks=False).st_mtime for path in image_root.rglob("*")} == {0}


def test_its_byte_code_is_of_its_own_python(image_root: Path) -> None:
    """Another patch release of 3.11, such as the one that builds, compiles some functions otherwise."""
    package = Path("/usr/local/lib/python3.11/dist-packages/admission")
    compare = (
        "import marshal, pathlib\n"
        f"files = list(pathlib.Path('{package}').rglob('*.py'))\n"
        "for file in files:\n"
        "    [kept] = file.parent.glob(f'__pycache__/{file.stem}.cpython-311.pyc')\n"
        "    made = compile(file.read_bytes(), str(file), 'exec', dont_inherit=True)\n"
        "    assert marshal.loads(kept.read_bytes()[16:]) == made, file\n"
        "print(len(files))\n"
    )
    told = inside(image_root, "/usr/bin/python3.11", "-I", "-c", compare)
    assert told.returncode == 0, told.stderr
    assert int(told.stdout) > 100


def test_its_parts_are_listed_with_licences(image_root: Path) -> None:
    body = json.loads((image_root / sbom.PATH).read_text())
    named = {each["purl"].split("@")[0] for each in body["components"]}
    assert {"pkg:pypi/asyncpg", "pkg:pypi/nvidia-ml-py", "pkg:deb/debian/libc6"} <= named
    assert "pkg:pypi/pynvml" not in named
    wheels = [each for each in body["components"] if each["purl"].startswith("pkg:pypi/")]
    assert [each["name"] for each in wheels if not each.get("licenses")] == []
    for package in debian.locked("amd64"):
        if package.name not in {"gcc-12-base", "libgcc-s1", "libstdc++6"}:
            assert (image_root / f"usr/share/doc/{package.name}/copyright").exists(), package.name


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "something").touch()
    with pytest.raises(ImageError, match="is not empty"):
        root.build(tmp_path, tmp_path / "cache", "amd64", "abc")


@pytest.mark.long
@pytest.mark.parametrize("architecture", debian.ARCHITECTURES)
def test_two_builds_are_the_same_bytes(architecture: str, tmp_path: Path) -> None:
    digests = set()
    for name in ("one", "other"):
        root.build(tmp_path / name, cache_folder(), architecture, "0123abcd")
        file = tmp_path / f"{name}.tar"
        digests.add(
            archive.write(
                tmp_path / name,
                file,
                name="muster:0.1.0",
                architecture=architecture,
                created=0,
                commit="0123abcd",
            )
        )
        assert file.stat().st_size < LARGEST
    assert len(digests) == 1
