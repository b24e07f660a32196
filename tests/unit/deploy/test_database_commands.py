"""The pods for commands of the database: the backup CronJob and the tools, as the chart makes them."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from admission.cli.commands.backup import backup
from tests.unit.deploy.chart_rendering import CHART, DEPLOY, SECRET, by_key, run_helm

ON = ("--set", "backup.enabled=true", "--set", "tools.enabled=true")
Key = tuple[str, str]


def documents(text: str) -> dict[Key, Any]:
    return {(kind, name): one for (kind, _, name), one in by_key(text).items()}


def template(program: Path, *values: str) -> "subprocess.CompletedProcess[str]":
    return run_helm(program, "template", "muster", str(CHART), "--namespace", "muster-system", *values)


def made(program: Path, *values: str) -> dict[Key, Any]:
    """What the chart makes for these pods."""
    done = template(program, *values)
    assert done.returncode == 0, done.stderr
    return {
        key: one
        for key, one in documents(done.stdout).items()
        if key[1] in ("muster-backup", "muster-backups", "muster-tools")
    }


@pytest.fixture(scope="module")
def both(helm_program: Path) -> dict[Key, Any]:
    """What the chart makes with backups and tools."""
    return made(helm_program, *SECRET, *ON)


def pods(found: dict[Key, Any]) -> Iterator[Any]:
    """The pod templates."""
    yield found["CronJob", "muster-backup"]["spec"]["jobTemplate"]["spec"]["template"]
    yield found["Deployment", "muster-tools"]["spec"]["template"]


def test_the_claim_of_the_backups_outlives_the_release(both: dict[Key, Any]) -> None:
    assert both["PersistentVolumeClaim", "muster-backups"]["metadata"]["annotations"] == {
        "helm.sh/hook": "pre-install,pre-upgrade",
        "helm.sh/hook-delete-policy": "hook-failed",
        "helm.sh/resource-policy": "keep",
    }


def test_without_backups_the_tools_have_a_folder_of_their_own(
    helm_program: Path, both: dict[Key, Any]
) -> None:
    found = made(helm_program, *SECRET, "--set", "tools.enabled=true")
    assert found.keys() == {("ServiceAccount", "muster-tools"), ("Deployment", "muster-tools")}
    assert made(helm_program, *SECRET) == {}
    volumes, with_backups = (
        {
            volume["name"]: volume
            for volume in one["Deployment", "muster-tools"]["spec"]["template"]["spec"]["volumes"]
        }
        for one in (found, both)
    )
    assert "emptyDir" in volumes["backups"]
    assert with_backups["backups"]["persistentVolumeClaim"] == {"claimName": "muster-backups"}


def test_they_fit_the_strictest_level_of_pod_security_and_have_no_rights(both: dict[Key, Any]) -> None:
    assert {kind for kind, _ in both} == {"ServiceAccount", "PersistentVolumeClaim", "CronJob", "Deployment"}
    for key in (("ServiceAccount", "muster-backup"), ("ServiceAccount", "muster-tools")):
        assert both[key]["automountServiceAccountToken"] is False
    for pod in pods(both):
        spec = pod["spec"]
        assert spec["automountServiceAccountToken"] is False
        assert ("ServiceAccount", spec["serviceAccountName"]) in both
        assert not [name for name in spec if name.startswith("host")]
        assert not [volume for volume in spec["volumes"] if "hostPath" in volume]
        held = spec["securityContext"]
        assert held["runAsNonRoot"] is True
        assert held["runAsUser"] == held["runAsGroup"] == held["fsGroup"] == 65532
        assert held["seccompProfile"] == {"type": "RuntimeDefault"}
        (container,) = spec["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_nothing_takes_them_for_replicas(helm_program: Path) -> None:
    """Services would send them requests, and the budget would count them."""
    done = template(helm_program, *SECRET, *ON)
    deployed = documents(done.stdout)
    selectors = [one["spec"]["selector"] for (kind, _), one in deployed.items() if kind == "Service"] + [
        deployed["PodDisruptionBudget", "muster"]["spec"]["selector"]["matchLabels"]
    ]
    for pod in pods(deployed):
        labels = pod["metadata"]["labels"].items()
        assert labels >= {("app.kubernetes.io/part-of", "muster")}
        assert not [selector for selector in selectors if selector.items() <= labels]


def test_the_scheduled_command_is_one_that_there_is_and_writes_onto_the_volume(both: dict[Key, Any]) -> None:
    pod, _ = pods(both)
    (container,) = pod["spec"]["containers"]
    program, command, *words = container["args"]
    assert (program, command) == ("muster", "backup")
    options = backup.make_context("muster backup", list(words)).params
    assert options["keep"] == 48
    [mount] = container["volumeMounts"]
    assert str(options["folder"]) == mount["mountPath"]


def test_the_tools_wait_by_a_program_of_the_image_until_they_are_told_to_end(both: dict[Key, Any]) -> None:
    _, pod = pods(both)
    (container,) = pod["spec"]["containers"]
    program, *words = container["args"]
    assert program == "python"
    *options, code = words
    assert code.endswith("; signal.pause()")
    told = code.replace("signal.pause()", "signal.raise_signal(signal.SIGTERM); print('goes on')")
    done = subprocess.run([sys.executable, *options, told], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_images_are_those_of_the_controller(helm_program: Path) -> None:
    found = documents(template(helm_program, *SECRET, *ON).stdout)
    (container,) = found["Deployment", "muster"]["spec"]["template"]["spec"]["containers"]
    for pod in pods(found):
        assert [each["image"] for each in pod["spec"]["containers"]] == [container["image"]]


def test_they_go_where_muster_goes_with_its_database_and_its_files(
    helm_program: Path, tmp_path: Path
) -> None:
    values = {
        "image": {"repository": "registry.example/muster", "pullSecrets": [{"name": "registry"}]},
        "database": {"cloudNativePG": {"enabled": True}},
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"key": "system", "operator": "Exists"}],
        "extraVolumes": [{"name": "authority", "configMap": {"name": "authority"}}],
        "extraVolumeMounts": [{"name": "authority", "mountPath": "/etc/postgres"}],
    }
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    for pod in pods(made(helm_program, "-f", str(tmp_path / "values.yaml"), *ON)):
        spec = pod["spec"]
        assert spec["nodeSelector"] == values["nodeSelector"]
        assert spec["tolerations"] == values["tolerations"]
        assert spec["imagePullSecrets"] == [{"name": "registry"}]
        assert spec["volumes"][-1] == {"name": "authority", "configMap": {"name": "authority"}}
        (container,) = spec["containers"]
        assert container["image"].startswith("registry.example/muster:")
        assert container["volumeMounts"][-1]["mountPath"] == "/etc/postgres"
        [dsn] = container["env"]
        assert dsn["valueFrom"]["secretKeyRef"] == {"name": "muster-postgres-app", "key": "uri"}


def test_a_database_to_restore_into_is_named_by_its_secret(helm_program: Path) -> None:
    other = ("--set", "tools.existingSecret=muster-postgres-2-app", "--set", "tools.existingSecretKey=uri")
    backups, tools = pods(made(helm_program, *SECRET, *ON, *other))
    [dsn] = tools["spec"]["containers"][0]["env"]
    assert dsn["valueFrom"]["secretKeyRef"] == {"name": "muster-postgres-2-app", "key": "uri"}
    [dsn] = backups["spec"]["containers"][0]["env"]
    assert dsn["valueFrom"]["secretKeyRef"] == {"name": "muster-database", "key": "dsn"}


def test_schedule_and_storage_are_values(helm_program: Path) -> None:
    values = (
        *("--set", "backup.schedule=0 3 * * *", "--set", "backup.keep=14"),
        *("--set", "backup.storage.size=1Ti", "--set", "backup.storage.storageClass=slow"),
    )
    found = made(helm_program, *SECRET, *ON, *values)
    job = found["CronJob", "muster-backup"]["spec"]
    assert job["schedule"] == "0 3 * * *"
    (container,) = job["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert container["args"][-1] == "14"
    claim = found["PersistentVolumeClaim", "muster-backups"]["spec"]
    assert claim["resources"]["requests"]["storage"] == "1Ti"
    assert claim["storageClassName"] == "slow"


def test_a_claim_of_the_administrator_is_used_and_none_is_made(helm_program: Path) -> None:
    found = made(helm_program, *SECRET, *ON, "--set", "backup.storage.existingClaim=nfs")
    assert ("PersistentVolumeClaim", "muster-backups") not in found
    for pod in pods(found):
        [claim] = [each for each in pod["spec"]["volumes"] if each["name"] == "backups"]
        assert claim["persistentVolumeClaim"] == {"claimName": "nfs"}


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ("backup.schedule=hourly", "does not match pattern"),
        ("backup.keep=0", "minimum: got 0, want 1"),
        ("backup.folder=/x", "additional properties 'folder' not allowed"),
        ("tools.database=x", "additional properties 'database' not allowed"),
    ],
)
def test_wrong_values_are_refused_by_name(helm_program: Path, values: str, told: str) -> None:
    done = template(helm_program, *SECRET, "--set", values)
    assert done.returncode != 0
    assert told in done.stderr


def test_the_page_starts_the_tools_by_a_command_that_makes_them(helm_program: Path) -> None:
    """As docs/how-to/operate.md shows it, up to the pipe."""
    page = (DEPLOY.parent / "docs/how-to/operate.md").read_text(encoding="utf-8")
    [line] = re.findall(r"^helm (template .*) \| kubectl apply -f -$", page, re.MULTILINE)
    words = line.replace("deploy/chart", str(DEPLOY / "chart")).replace(
        "--values values.yaml", " ".join(SECRET)
    )
    done = run_helm(helm_program, *shlex.split(words))
    assert documents(done.stdout) == made(helm_program, *SECRET, "--set", "tools.enabled=true"), done.stderr
