"""The pod of a process by its control groups: each form that kubelets and container runtimes write."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.agent.cgroups import pod_of_process, pod_uid

UID = "5f0c8a4e-1b2c-4d3e-8f90-0123456789ab"
SYSTEMD = UID.replace("-", "_")
STATIC = "0123456789abcdef0123456789abcdef"
CONTAINER = "f" * 64

OF_A_POD = {
    "v2, systemd, containerd, besteffort": (
        f"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{SYSTEMD}.slice/"
        f"cri-containerd-{CONTAINER}.scope\n"
    ),
    "v2, systemd, cri-o, burstable": (
        f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SYSTEMD}.slice/crio-{CONTAINER}.scope\n"
    ),
    "v2, systemd, cri-o, a group inside the container": (
        f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SYSTEMD}.slice/crio-{CONTAINER}.scope/container\n"
    ),
    "v2, systemd, docker, guaranteed": (
        f"0::/kubepods.slice/kubepods-pod{SYSTEMD}.slice/docker-{CONTAINER}.scope\n"
    ),
    "v2, systemd, the kubelet has a root of its own (kind)": (
        f"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/"
        f"kubelet-kubepods-burstable-pod{SYSTEMD}.slice/cri-containerd-{CONTAINER}.scope\n"
    ),
    "v2, cgroupfs, burstable": f"0::/kubepods/burstable/pod{UID}/{CONTAINER}\n",
    "v2, cgroupfs, guaranteed": f"0::/kubepods/pod{UID}/{CONTAINER}\n",
    "v2, seen from the control group namespace of the agent's pod": (
        f"0::/../../kubepods-besteffort-pod{SYSTEMD}.slice/cri-containerd-{CONTAINER}.scope\n"
    ),
    "v1, cgroupfs, docker": (
        f"12:devices:/kubepods/besteffort/pod{UID}/{CONTAINER}\n"
        f"11:memory:/kubepods/besteffort/pod{UID}/{CONTAINER}\n"
        "1:name=systemd:/system.slice/docker.service\n"
    ),
    "v1, the first hierarchies say nothing": (
        f"9:rdma:/\n8:cpu,cpuacct:/kubepods/burstable/pod{UID}/{CONTAINER}\n0::/\n"
    ),
    "v1, systemd, containerd": (
        f"5:cpuset:/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SYSTEMD}.slice/"
        f"cri-containerd-{CONTAINER}.scope\n"
    ),
    "v1, containerd, with a colon in the name of the group": (
        f"4:pids:/system.slice/containerd.service/kubepods-burstable-pod{SYSTEMD}.slice:cri-containerd:{CONTAINER}\n"
    ),
    "v1, kind in docker": f"3:devices:/docker/{CONTAINER}/kubelet/kubepods/burstable/pod{UID}/{CONTAINER}\n",
    "the pod itself, no container yet": f"0::/kubepods/burstable/pod{UID}\n",
    "Kubernetes in a pod: the outer pod is the node's": (
        f"0::/kubepods/burstable/pod{UID}/{CONTAINER}/kubelet/kubepods/pod11111111-0000-4000-8000-000000000000/{CONTAINER}\n"
    ),
    "no newline at the end": f"0::/kubepods/burstable/pod{UID}/{CONTAINER}",
}

OF_NO_POD = {
    "nothing": "",
    "the root": "0::/\n",
    "a service of the node": "0::/system.slice/sshd.service\n",
    "the kubelet": "0::/system.slice/kubelet.service\n",
    "a user": "0::/user.slice/user-1000.slice/session-1.scope\n",
    "podman": f"0::/machine.slice/libpod-{CONTAINER}.scope\n",
    "the group of all pods": "0::/kubepods.slice/kubepods-burstable.slice\n",
    "a container of docker": f"0::/docker/{CONTAINER}\n",
    "a user's group that is named like a pod": f"0::/user.slice/pod{UID}/x\n",
    "a group of the node that is named like a class": f"0::/burstable/pod{UID}/x\n",
    "no path": "0\n\n::\n",
}


@pytest.mark.parametrize("text", OF_A_POD.values(), ids=OF_A_POD.keys())
def test_the_pod_of_a_container_is_known(text):
    assert pod_uid(text) == UID


@pytest.mark.parametrize(
    "text",
    [
        f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{STATIC}.slice/crio-{CONTAINER}.scope\n",
        f"0::/kubepods/burstable/pod{STATIC}/{CONTAINER}\n",
    ],
)
def test_a_static_pod_is_known_by_its_hash(text):
    assert pod_uid(text) == STATIC


@pytest.mark.parametrize("text", OF_NO_POD.values(), ids=OF_NO_POD.keys())
def test_processes_of_the_node_have_no_pod(text):
    assert pod_uid(text) is None


@given(st.text() | st.text(alphabet="/:kubepods-.slicx_0", max_size=60))
def test_any_text_gives_a_uid_or_none(text):
    found = pod_uid(text)
    assert found is None or found


def test_the_group_of_a_process_is_read_from_proc(tmp_path):
    (tmp_path / "17").mkdir()
    (tmp_path / "17" / "cgroup").write_bytes(
        b"1:name=\xff:/\n" + OF_A_POD["v2, cgroupfs, burstable"].encode()
    )
    assert pod_of_process(17, tmp_path) == UID


def test_a_process_that_has_ended_has_no_pod(tmp_path):
    assert pod_of_process(18, tmp_path) is None
