"""Members of a gang are lost, and where it runs is no room for others: taken back, it starts again whole."""

from collections import Counter

import pytest

from tests.e2e.preemption.test_preemption import evicted
from tests.e2e.support.api_paths import Document
from tests.e2e.support.gang_kinds import EACH_KIND, GangMaker, as_batch_job, as_pod_group, finish_all
from tests.e2e.support.sandbox import RACK, Sandbox

IN_ONE_RACK = {"muster.dev/required-topology": RACK}


def in_one_rack(documents: list[Document]) -> list[Document]:
    """All pods of the gang have to lie in one rack."""
    for each in documents:
        match each["kind"], each["apiVersion"]:
            case "Pod", _:
                each["metadata"]["annotations"] |= IN_ONE_RACK
            case "Job", "batch/v1":
                each["spec"]["template"]["metadata"]["annotations"] |= IN_ONE_RACK
            case "Job", _:
                each["spec"]["tasks"][0]["template"]["metadata"]["annotations"] |= IN_ONE_RACK
    return documents


@pytest.mark.parametrize(
    "gang",
    [pytest.param(each, marks=[] if each is as_batch_job else [pytest.mark.long]) for each in EACH_KIND],
    ids=lambda each: each.__name__,
)
def test_a_gang_that_lost_members_and_has_no_room_in_its_rack_moves_whole(
    sandbox: Sandbox, gang: GangMaker
) -> None:
    """Two pods on one node and one on the other, where one more has room: so Jobs are released pod by pod."""
    sandbox.add_nodes(2, nodes_per_rack=2)
    sandbox.add_queue()
    documents = in_one_rack(gang(sandbox, "train", 3, 3))
    sandbox.add(*documents)
    sandbox.wait_running("train-", 3)
    before = sandbox.nodes_of("train-")
    ((broken, count),) = Counter(before.values()).most_common(1)
    assert count == 2

    sandbox.remove_node(broken)
    sandbox.wait(lambda: len(sandbox.running("train-")) == 1, "the members on that node to be lost")
    [stayed] = [each["metadata"]["uid"] for each in sandbox.running("train-")]
    if gang is as_pod_group:  # only their user makes such pods again
        lost = [name for name, node in before.items() if node == broken]
        sandbox.wait(lambda: not any(sandbox.find("Pod", name) for name in lost), f"{lost} to go")
        sandbox.add(*[each for each in documents if each["metadata"]["name"] in lost])
    # The pods of a Job go once its controller has counted them, which may have much else to do.
    sandbox.wait_reason("train", "TopologyNoFit")
    assert evicted(sandbox, "train") == [], "nowhere is there room for all three"
    assert stayed in [each["metadata"]["uid"] for each in sandbox.running("train-")]

    sandbox.add_nodes(2, nodes_per_rack=2)
    sandbox.wait_running("train-", 3)
    assert stayed not in [each["metadata"]["uid"] for each in sandbox.running("train-")]
    # One for each of its admissions: a member may have come back alone where there was room.
    assert {code for code, _ in evicted(sandbox, "train")} == {"TakenBack"}
    assert "lost members" in evicted(sandbox, "train")[0][1]
    assert set(sandbox.nodes_of("train-").values()) == set(sandbox.nodes[2:])
    finish_all(sandbox, "train-")
    sandbox.wait_free()
