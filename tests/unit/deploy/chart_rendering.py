"""The Helm chart as helm renders it without a cluster. A key that is written twice is an error."""

import subprocess
from pathlib import Path
from typing import Any, Final

import yaml

import deploy

DEPLOY: Final = Path(deploy.__file__).parent
CHART: Final = DEPLOY / "chart"


def given(*values: str) -> tuple[str, ...]:
    """Arguments for helm: values by their names."""
    return tuple(word for value in values for word in ("--set", value))


SECRET: Final = given("database.existingSecret=muster-database")
#: By kind, namespace and name.
Key = tuple[str, str, str]


class StrictLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Reads YAML and refuses duplicate keys, of which other parsers take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Raises ValueError."""
        keys = [key.value for key, _ in node.value]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        if twice:
            raise ValueError(f"{node.start_mark}: found twice: {', '.join(twice)}")
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        return found


def by_key(text: str) -> dict[Key, Any]:
    """Documents by kind, namespace and name. Raises ValueError if a key or an object is there twice."""
    documents = [one for one in yaml.load_all(text, StrictLoader) if one]
    found = {
        (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): one for one in documents
    }
    if len(found) != len(documents):
        raise ValueError("found an object twice")
    return found


def run_helm(program: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """What helm says and how it ends."""
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


def rendered(program: Path, *arguments: str, namespace: str = "muster-system") -> dict[Key, Any]:
    """What the chart makes."""
    done = run_helm(program, "template", "muster", str(CHART), "--namespace", namespace, *arguments)
    assert done.returncode == 0, done.stderr
    return by_key(done.stdout)


def refused(program: Path, *arguments: str) -> str:
    """What helm says of values that are wrong."""
    done = run_helm(program, "template", "muster", str(CHART), *arguments)
    assert done.returncode != 0
    return done.stderr


def values_file(folder: Path, values: Any, *, database: bool = True) -> tuple[str, ...]:
    """Arguments for helm: a file with the values; ``database``: with one that is there already."""
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    return (*(SECRET if database else ()), "-f", str(file))


def environment(made: dict[Key, Any], namespace: str = "muster-system") -> dict[str, Any]:
    """Of the container of the Deployment, by name."""
    pod = made["Deployment", namespace, "muster"]["spec"]["template"]["spec"]
    variables = pod["containers"][0]["env"]
    found = {each["name"]: each for each in variables}
    assert len(found) == len(variables), "a variable is there twice"
    return found


def secret_of(made: dict[Key, Any]) -> tuple[str, str]:
    """Name and key of the Secret with the DSN, which the pod has as the file that Muster reads."""
    pod = made["Deployment", "muster-system", "muster"]["spec"]["template"]["spec"]
    file = Path(environment(made)["MUSTER_DSN_FILE"]["value"])
    [mount] = [each for each in pod["containers"][0]["volumeMounts"] if each["mountPath"] == str(file.parent)]
    assert "subPath" not in mount, "the kubelet renews no file that is mounted by itself"
    [volume] = [each["secret"] for each in pod["volumes"] if each["name"] == mount["name"]]
    [item] = volume["items"]
    assert item["path"] == file.name
    return volume["secretName"], item["key"]
