from typing import Any

import pytest

from tests.volcano_suite.pod_scripts import Ending, ending_of, ignores_termination


def pod(*command: str, image: str = "busybox", args: tuple[str, ...] = ()) -> dict[str, Any]:
    container = {"name": "c", "image": image, "command": list(command), "args": list(args)}
    return {"spec": {"containers": [container]}}


@pytest.mark.parametrize(
    ("script", "ending"),
    [
        ("sleep 5", Ending(5, 0)),
        ("sleep 10s && exit 3", Ending(10, 3)),
        ("sleep 10s && xxx", Ending(10, 127)),
        ("sh fake.sh", Ending(0, 2)),
        ("echo 'executed at' $(date); exit 1", Ending(0, 1)),
        ("echo 'executed at' $(date)", Ending(0, 0)),
        ("echo 'executed at' $(date); sleep 180", Ending(180, 0)),
        ("sleep 5;\nmkdir -p /var/run/sshd; /usr/sbin/sshd;\nmpiexec -np 2 hello > /home/re", Ending(8, 0)),
        ("HOST=`cat /etc/hosts | tr x y`; export A=$HOST; python train.py", Ending(3, 0)),
        ("mkdir -p /var/run/sshd; /usr/sbin/sshd -D;", None),
        ('export TF_CONFIG={\\"task\\":{\\"type\\":\\"ps\\"}}; python train.py', None),
        ('export TF_CONFIG={\\"task\\":{\\"type\\":\\"worker\\"}}; python train.py', Ending(3, 0)),
    ],
)
def test_a_script_takes_as_long_as_it_sleeps_and_ends_as_its_last_command(
    script: str, ending: Ending | None
) -> None:
    assert ending_of(pod("/bin/sh", args=("-c", script))) == ending


def test_a_server_without_a_command_stays_and_a_shell_ends() -> None:
    assert ending_of(pod(image="nginx:1.29")) is None
    assert ending_of(pod(image="busybox")) == Ending(0, 0)


def test_a_container_that_ignores_the_signal_stops_when_its_grace_is_over() -> None:
    assert ignores_termination(pod("sh", "-c", "trap '' TERM; sleep 999999"))
    assert not ignores_termination(pod("sh", "-c", "sleep 5"))
