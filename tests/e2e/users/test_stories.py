"""The story of a job, as its user reads it: before, while and after it runs, and when its object is gone."""

import itertools
from datetime import datetime, timedelta
from typing import Any

from tests.e2e.preemption.test_preemption import urgent
from tests.e2e.support.api_paths import path
from tests.e2e.support.manifests import batch_job, volcano_job
from tests.e2e.support.people import Person
from tests.e2e.support.sandbox import GPU, Sandbox

__all__ = ["urgent"]

Story = dict[str, Any]


def jobs(person: Person, *words: str) -> dict[str, Story]:
    """What ``kubectl muster jobs`` lists, by name."""
    return {one["name"]: one for one in person.json("jobs", *words)["items"]}


def told(ann: Person, sandbox: Sandbox) -> Story:
    (one,) = ann.json("explain", "job/train", "-n", sandbox.name)
    found: Story = one
    return found


def stages(story: Story) -> dict[int | None, list[str]]:
    """Names of the stages that were reached, by admission."""
    found: dict[int | None, list[str]] = {}
    for each in story["stages"]:
        found.setdefault(each["admission"], []).append(each["stage"])
    return found


def since_last_stage(story: Story) -> timedelta:
    last = max(datetime.fromisoformat(each["at"]) for each in story["stages"])
    return datetime.fromisoformat(story["now"]) - last


def times_are_plausible(story: Story, sandbox: Sandbox) -> None:
    """Each stage comes after the one before, and all are of this test."""
    # Objects are created at a whole second, cut off.
    namespace = sandbox.api.get(path("Namespace", "", sandbox.name))
    begins = datetime.fromisoformat(namespace["metadata"]["creationTimestamp"])
    ends = datetime.fromisoformat(story["now"]) + timedelta(seconds=2)
    for _, group in itertools.groupby(story["stages"], key=lambda each: each["admission"]):
        at = [datetime.fromisoformat(each["at"]) for each in group]
        assert at == sorted(at), story["stages"]
        assert begins <= at[0]
        assert at[-1] <= ends


def test_a_preempted_job_tells_its_user_its_whole_story_also_when_it_is_gone(
    sandbox: Sandbox, urgent: str
) -> None:
    sandbox.add_nodes(1)
    queue = sandbox.add_queue(deserved={GPU: 8})
    ann = Person(sandbox, "ann", edits=(sandbox.name,))
    with ann.client() as client:
        client.create(path("batch/v1 Job", sandbox.name), batch_job(sandbox, "train", 2, 4))
    sandbox.wait_running("train-", 2)
    sandbox.wait(lambda: "bound" in str(stages(told(ann, sandbox))), "the start to be stored")

    runs = told(ann, sandbox)
    (first,) = (each["id"] for each in runs["admissions"])
    assert stages(runs) == {None: ["created", "seen"], first: ["admitted", "released", "bound"]}
    times_are_plausible(runs, sandbox)
    standing = runs["outlook"]["standing"]
    assert [(each["rule"], each["queues"]) for each in standing["takers"]] == [("Preempted", [queue])]
    assert standing["message"] == f"Inside what queue {queue} deserves"
    text = ann.does("explain", "train", "-n", sandbox.name)
    assert "Can it be evicted?" in text
    assert "(none waits now) [Preempted]" in text

    # What an eviction costs is counted in whole seconds.
    sandbox.wait(lambda: since_last_stage(told(ann, sandbox)) > timedelta(seconds=2), "something to lose")
    sandbox.add(volcano_job(sandbox, "urgent", 1, 8, priorityClassName=urgent))
    sandbox.wait_running("urgent-", 1)
    sandbox.wait(lambda: told(ann, sandbox)["state"] == "pending", "the victim to wait again")

    preempted = told(ann, sandbox)
    assert stages(preempted)[first] == ["admitted", "released", "bound", "running", "evicted", "closed"]
    evict = next(each for each in preempted["history"] if each["what"] == "evict")
    assert evict["code"] == "Preempted"
    assert f"vcjob/{sandbox.name}/urgent of the same queue is more urgent" in evict["message"]
    assert evict["numbers"]["lostDeviceSeconds"] > 0
    times_are_plausible(preempted, sandbox)
    taker = sandbox.explain("urgent")
    assert all(f"  {stage} " in taker for stage in ("created", "seen", "admitted", "released", "bound")), (
        taker
    )

    sandbox.delete("Job", "urgent")
    sandbox.wait_running("train-", 2)
    sandbox.wait(lambda: str(stages(told(ann, sandbox))).count("bound") == 2, "the second start to be stored")
    sandbox.delete("batch/v1 Job", "train")
    sandbox.wait(lambda: bool(told(ann, sandbox)["gone"]), "the object to be gone")

    gone = told(ann, sandbox)
    assert (gone["result"], gone["user"], gone["minimum"], gone["pods"]) == ("deleted", "ann", 2, 2)
    assert gone["asks"][GPU] == "8"
    times_are_plausible(gone, sandbox)
    second = max(each["id"] for each in gone["admissions"])
    assert stages(gone)[first] == stages(preempted)[first]
    assert stages(gone)[second][:3] == ["admitted", "released", "bound"]
    assert stages(gone)[second][-1] == "closed"
    assert stages(gone)[None] == ["created", "seen", "ended"]
    listed = jobs(ann, "-n", sandbox.name, "--state", "ended")["train"]
    assert (listed["user"], listed["result"], listed["created"]) == ("ann", "deleted", gone["created"])
    story = ann.does("explain", "train", "-n", sandbox.name)
    assert "finished: deleted before it ended" in story
    assert "Preempted: " in story
