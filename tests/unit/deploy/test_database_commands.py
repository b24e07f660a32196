"""The pods for commands of the database: the CronJob of backups and the tools."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.tables import with_rows
from tests.unit.deploy.chart_rendering import (
    CHART,
    DEPLOY,
    SECRET,
    by_key,
    given,
    rendered,
    run_helm,
    values_file,
)
from tests.waiting import LIMIT, until

ON = given("backup.enabled=true", "tools.enabled=true")
Key = tuple[str, str]


def everything(program: Path, *values: str) -> dict[Key, Any]:
    return {(kind, name): one for (kind, _, name), one in rendered(program, *values).items()}


def made(program: Path, *values: str) -> dict[Key, Any]:
    """What the chart makes for these pods."""
    names = ("muster-backup", "muster-backups", "muster-tools")
    return {key: one for key, one in everything(program, *values).items() if key[1] in names}


def pods(found: dict[Key, Any]) -> Iterator[Any]:
    """The pod templates."""
    yield found["CronJob", "muster-backup"]["spec"]["jobTemplate"]["spec"]["template"]
    yield found["Deployment", "muster-tools"]["spec"]["template"]


def test_nothing_is_made_unless_it_is_asked_for(helm_program: Path) -> None:
    assert made(helm_program, *SECRET) == {}


def test_the_claim_of_backups_outlives_the_release(golden: Any, helm_program: Path) -> None:
    claim = made(helm_program, *SECRET, *ON)["PersistentVolumeClaim", "muster-backups"]
    assert claim["metadata"]["annotations"] == golden


def test_the_tools_have_the_volume_of_the_backups_where_there_is_one(helm_program: Path) -> None:
    _, pod = pods(made(helm_program, *SECRET, *ON))
    mount = {"name": "backups", "mountPath": "/backups"}
    assert [container["volumeMounts"] for container in pod["spec"]["containers"]] == [[mount]] * 2
    alone = made(helm_program, *SECRET, *given("tools.enabled=true"))["Deployment", "muster-tools"]
    spec = alone["spec"]["template"]["spec"]
    assert "volumes" not in spec
    assert not [container for container in spec["containers"] if "volumeMounts" in container]


def test_they_fit_the_strictest_level_of_pod_security_and_have_no_rights(helm_program: Path) -> None:
    found = made(helm_program, *SECRET, *ON)
    assert {kind for kind, _ in found} == {"ServiceAccount", "PersistentVolumeClaim", "CronJob", "Deployment"}
    for key in (("ServiceAccount", "muster-backup"), ("ServiceAccount", "muster-tools")):
        assert found[key]["automountServiceAccountToken"] is False
    for pod in pods(found):
        spec = pod["spec"]
        assert spec["automountServiceAccountToken"] is False
        assert ("ServiceAccount", spec["serviceAccountName"]) in found
        assert not [name for name in spec if name.startswith("host")]
        assert not [volume for volume in spec["volumes"] if "hostPath" in volume]
        held = spec["securityContext"]
        assert held["runAsNonRoot"] is True
        assert held["runAsUser"] == held["runAsGroup"] == held["fsGroup"] == 65532
        assert held["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in spec["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }


def test_nothing_takes_them_for_replicas(helm_program: Path) -> None:
    """Services would send them requests, and the budget would count them."""
    deployed = everything(helm_program, *SECRET, *ON)
    selectors = [one["spec"]["selector"] for (kind, _), one in deployed.items() if kind == "Service"] + [
        deployed["PodDisruptionBudget", "muster"]["spec"]["selector"]["matchLabels"]
    ]
    for pod in pods(deployed):
        labels = pod["metadata"]["labels"].items()
        assert labels >= {("app.kubernetes.io/part-of", "muster")}
        assert not [selector for selector in selectors if selector.items() <= labels]


def test_the_schedule_runs_the_script_on_the_volume(helm_program: Path) -> None:
    pod, _ = pods(made(helm_program, *SECRET, *ON))
    (container,) = pod["spec"]["containers"]
    assert container["command"] == ["sh", "-c"]
    (script,) = container["args"]
    assert script.strip() == (CHART / "backup.sh").read_text(encoding="utf-8").strip()
    values = {variable["name"]: variable.get("value") for variable in container["env"]}
    [mount] = container["volumeMounts"]
    assert values == {"MUSTER_DSN": None, "FOLDER": mount["mountPath"], "KEEP": "48"}


@with_rows("values", "image")
def test_programs_of_postgres_are_of_the_image_of_backups(
    helm_program: Path, values: list[str], image: str
) -> None:
    backup, tools = pods(made(helm_program, *SECRET, *ON, *given(*values)))
    assert [container["image"] for container in backup["spec"]["containers"]] == [image]
    muster, postgres = tools["spec"]["containers"]
    assert (muster["name"], postgres["name"]) == ("tools", "postgres")
    assert postgres["image"] == image
    assert muster["image"].startswith("muster:")
    assert tools["metadata"]["annotations"] == {"kubectl.kubernetes.io/default-container": "tools"}


def test_the_tools_wait_by_programs_of_their_images_until_they_shall_end(helm_program: Path) -> None:
    _, pod = pods(made(helm_program, *SECRET, *ON))
    container, postgres = pod["spec"]["containers"]
    program, *words = container["args"]
    assert program == "python"
    *options, code = words
    assert code.endswith("; signal.pause()")
    told = code.replace("signal.pause()", "signal.raise_signal(signal.SIGTERM); print('goes on')")
    done = subprocess.run([sys.executable, *options, told], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    waiting = subprocess.Popen(postgres["command"], start_new_session=True)
    try:
        children = Path(f"/proc/{waiting.pid}/task/{waiting.pid}/children")
        until(lambda: bool(children.read_text()), "it to wait for another program")
        waiting.terminate()
        assert waiting.wait(timeout=LIMIT) == 0
    finally:
        os.killpg(waiting.pid, signal.SIGKILL)


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
    for pod in pods(made(helm_program, *values_file(tmp_path, values, database=False), *ON)):
        spec = pod["spec"]
        assert spec["nodeSelector"] == values["nodeSelector"]
        assert spec["tolerations"] == values["tolerations"]
        assert spec["imagePullSecrets"] == [{"name": "registry"}]
        assert spec["volumes"][-1] == {"name": "authority", "configMap": {"name": "authority"}}
        for container in spec["containers"]:
            assert container["volumeMounts"][-1]["mountPath"] == "/etc/postgres"
            dsn, *_ = container["env"]
            assert dsn["valueFrom"]["secretKeyRef"] == {"name": "muster-postgres-app", "key": "uri"}


def test_a_database_to_restore_into_is_named_by_its_secret(helm_program: Path) -> None:
    other = given("tools.existingSecret=muster-postgres-2-app", "tools.existingSecretKey=uri")
    backups, tools = pods(made(helm_program, *SECRET, *ON, *other))
    for container in tools["spec"]["containers"]:
        [dsn] = container["env"]
        assert dsn["valueFrom"]["secretKeyRef"] == {"name": "muster-postgres-2-app", "key": "uri"}
    dsn, *_ = backups["spec"]["containers"][0]["env"]
    assert dsn["valueFrom"]["secretKeyRef"] == {"name": "muster-database", "key": "dsn"}


def test_schedule_and_storage_are_values(helm_program: Path) -> None:
    storage = ("backup.storage.size=1Ti", "backup.storage.storageClass=slow")
    values = given("backup.schedule=0 3 * * *", "backup.keep=14", *storage)
    found = made(helm_program, *SECRET, *ON, *values)
    job = found["CronJob", "muster-backup"]["spec"]
    assert job["schedule"] == "0 3 * * *"
    (container,) = job["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert {"name": "KEEP", "value": "14"} in container["env"]
    claim = found["PersistentVolumeClaim", "muster-backups"]["spec"]
    assert claim["resources"]["requests"]["storage"] == "1Ti"
    assert claim["storageClassName"] == "slow"


def test_a_claim_of_the_administrator_is_used_and_none_is_made(helm_program: Path) -> None:
    found = made(helm_program, *SECRET, *ON, *given("backup.storage.existingClaim=nfs"))
    assert ("PersistentVolumeClaim", "muster-backups") not in found
    for pod in pods(found):
        [claim] = [each for each in pod["spec"]["volumes"] if each["name"] == "backups"]
        assert claim["persistentVolumeClaim"] == {"claimName": "nfs"}


def test_the_page_starts_the_tools_by_a_command_that_makes_them(helm_program: Path) -> None:
    """As docs/how-to/operate.md shows it, up to the pipe."""
    page = (DEPLOY.parent / "docs/how-to/operate.md").read_text(encoding="utf-8")
    [line] = re.findall(r"^helm (template .*) \| kubectl apply -f -$", page, re.MULTILINE)
    words = line.replace("deploy/chart", str(DEPLOY / "chart")).replace(
        "--values values.yaml", " ".join(SECRET)
    )
    done = run_helm(helm_program, *shlex.split(words))
    wanted = made(helm_program, *SECRET, *given("tools.enabled=true"))
    assert wanted
    assert {(kind, name): one for (kind, _, name), one in by_key(done.stdout).items()} == wanted, done.stderr
