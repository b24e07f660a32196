"""The patch of a flow, row by row of Volcano's table."""

from typing import Any

import pytest

from queues.api.schedules.job_patch import patched


def pod(**spec: Any) -> dict[str, Any]:
    return {"tasks": [{"name": "w", "replicas": 1, "template": {"spec": spec}}]}


def main(**fields: Any) -> dict[str, Any]:
    """A pod with one container of these fields."""
    return pod(containers=[{"name": "c", **fields}])


PORTS = [{"containerPort": 1}, {"containerPort": 2}]


@pytest.mark.parametrize(
    ("spec", "patch", "result"),
    [
        ({"queue": "a", "maxRetry": 3}, {"queue": "b"}, {"queue": "b", "maxRetry": 3}),
        ({"queue": "a", "minSuccess": 1}, {"minSuccess": None}, {"queue": "a"}),
        ({"policies": [{"event": "*"}]}, {"policies": []}, {"policies": []}),
        (
            {"plugins": {"svc": [], "env": []}},
            {"plugins": {"svc": ["--x"]}},
            {"plugins": {"svc": ["--x"], "env": []}},
        ),
        (
            {"tasks": [{"name": "a", "replicas": 1}, {"name": "b", "replicas": 1}]},
            {"tasks": [{"name": "b", "replicas": 2}, {"name": "c"}]},
            {"tasks": [{"name": "a", "replicas": 1}, {"name": "b", "replicas": 2}, {"name": "c"}]},
        ),
        (
            {"tasks": [{"name": "a", "replicas": 1}]},
            {"tasks": [{"replicas": 2}]},
            {"tasks": [{"name": "a", "replicas": 2}]},
        ),
        (
            {"volumes": [{"mountPath": "/a", "volumeClaimName": "x"}]},
            {"volumes": [{"mountPath": "/a", "volumeClaim": {}}, {"mountPath": "/b"}]},
            {"volumes": [{"mountPath": "/a", "volumeClaim": {}}, {"mountPath": "/b"}]},
        ),
        (
            {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}},
            {"networkTopology": {"mode": "soft"}},
            {"networkTopology": {"mode": "soft"}},
        ),
        (
            main(image="i:1", env=[{"name": "A", "value": "1"}], args=["x"]),
            main(env=[{"name": "A", "valueFrom": {}}, {"name": "B"}], args=["y"]),
            main(image="i:1", env=[{"name": "A", "valueFrom": {}}, {"name": "B"}], args=["y"]),
        ),
        (
            main(resources={"limits": {"cpu": 1, "memory": 1}}),
            pod(containers=[{"name": "c", "resources": {"limits": {"cpu": 2}}}, {"name": "side"}]),
            pod(
                containers=[{"name": "c", "resources": {"limits": {"cpu": 2, "memory": 1}}}, {"name": "side"}]
            ),
        ),
        (
            main(ports=[{"containerPort": 1, "name": "a"}], volumeMounts=[{"name": "v", "mountPath": "/d"}]),
            main(ports=PORTS, volumeMounts=[{"name": "u", "mountPath": "/d"}]),
            main(ports=PORTS, volumeMounts=[{"name": "u", "mountPath": "/d"}]),
        ),
        (
            pod(
                nodeSelector={"a": "1"},
                affinity={"nodeAffinity": {}},
                tolerations=[{"key": "k", "effect": "x"}],
            ),
            pod(
                nodeSelector={"b": "2"},
                affinity={"podAffinity": {}},
                tolerations=[{"key": "k"}, {"key": "l"}],
            ),
            pod(
                nodeSelector={"a": "1", "b": "2"},
                affinity={"podAffinity": {}},
                tolerations=[{"key": "k"}, {"key": "l"}],
            ),
        ),
        (
            pod(volumes=[{"name": "v", "emptyDir": {}}]),
            pod(volumes=[{"name": "v", "hostPath": {}}]),
            pod(volumes=[{"name": "v", "hostPath": {}}]),
        ),
    ],
)
def test_a_patch_changes_what_it_names(spec: Any, patch: Any, result: Any) -> None:
    assert result == patched(spec, patch)


def test_neither_the_spec_nor_the_patch_is_changed() -> None:
    spec, patch = main(), main(image="i")
    before = repr((spec, patch))
    patched(spec, patch)
    assert before == repr((spec, patch))
