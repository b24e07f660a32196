"""Pods that wait are kept to nodes where they can use their volumes; what is missing is their reason."""

from dataclasses import replace
from typing import Any

import msgspec

from admission.decode.volumes import (
    WireStorageClass,
    WireVolume,
    WireVolumeClaim,
    storage_class_fact,
    volume_claim_fact,
    volume_fact,
    volumes_of,
)
from admission.engine.decide import decide
from admission.engine.memo import Memo
from admission.engine.nodes.levels import HOST
from admission.engine.nodes.node_filters import Labels, chosen
from admission.facts.changes import Change, FactKind
from admission.facts.pods import PodFact
from admission.facts.volumes import PodVolume
from admission.facts.workloads import WorkloadFact
from admission.workloads.pod_sets import SetOnNode
from admission.world.volumes import KNOWN, UNWATCHED
from admission.world.world import World
from queues import kind_names
from queues.admissions import Admission
from queues.api.types.pod import WirePodSpec
from queues.plan import Plan
from queues.reason_codes import ReasonCode
from queues.workload import WorkloadKey
from tests.builders.facts import (
    GROUP,
    JOB,
    NOW,
    TEAM,
    admission,
    gated,
    gone,
    group,
    job,
    node,
    pod,
    queue,
    see,
    world,
)
from tests.tables import named_rows

ZONE = "topology.kubernetes.io/zone"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
ZONES = {"n1": "a", "n2": "b", "n3": ""}
LABELS = {name: {HOST: name, **({ZONE: zone} if zone else {})} for name, zone in ZONES.items()}
EVERY = set(ZONES)


def claim(
    name: str = "data",
    *,
    bound: str = "",
    annotations: dict[str, str] | None = None,
    phase: str = "",
    **spec: Any,
) -> Change:
    said = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}} | spec
    notes = dict(annotations or {})
    if bound:
        said["volumeName"], notes["pv.kubernetes.io/bind-completed"] = bound, "yes"
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "annotations": notes}
    document = {"metadata": meta, "spec": said, "status": {"phase": phase}}
    fact = volume_claim_fact(msgspec.convert(document, WireVolumeClaim))
    return Change(FactKind.VOLUME_CLAIM, f"uid-{name}", fact)


def volume(
    name: str = "pv",
    *,
    at: dict[str, list[str]] | None = None,
    labels: dict[str, str] | None = None,
    phase: str = "Available",
    **spec: Any,
) -> Change:
    said: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}} | spec
    if at is not None:
        expressions = [{"key": key, "operator": "In", "values": values} for key, values in at.items()]
        said["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}
    document = {"metadata": {"name": name, "labels": labels or {}}, "spec": said, "status": {"phase": phase}}
    return Change(FactKind.VOLUME, name, volume_fact(msgspec.convert(document, WireVolume)))


def storage_class(
    name: str,
    *,
    zones: list[str] | None = None,
    waits: bool = True,
    default: bool = False,
    provisioner: str = "csi",
) -> Change:
    notes = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    document: dict[str, Any] = {
        "metadata": {"name": name, "annotations": notes},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer" if waits else "Immediate",
    }
    if zones is not None:
        document["allowedTopologies"] = [{"matchLabelExpressions": [{"key": ZONE, "values": zones}]}]
    fact = storage_class_fact(msgspec.convert(document, WireStorageClass))
    return Change(FactKind.STORAGE_CLASS, name, fact)


DATA = (PodVolume(claim="data"),)
MADE = (PodVolume(is_made=True, storage_class="zonal"),)
LOCAL = storage_class("local", provisioner="kubernetes.io/no-provisioner")
ZONAL = storage_class("zonal", zones=["b"])


def waiting(*changes: Change, volumes: tuple[PodVolume, ...] = DATA, pods: int = 1) -> World:
    """A world in which a Job with these volumes waits."""
    fact = replace(job(pods, suspended=True), volumes={"main": volumes})
    known = world([queue(TEAM), *(node(name, labels=LABELS[name]) for name in ZONES), fact])
    see(known, *changes, KNOWN)
    return known


def allowed(known: World, key: WorkloadKey = JOB) -> set[str]:
    """Nodes that the first pod set may use."""
    pods = known.states[key].workload.pod_sets[0]
    mask = chosen(pods.nodes, Labels(list(LABELS.values()), list(LABELS)))
    return {name for name, met in zip(LABELS, mask, strict=True) if met}


def problem(known: World, key: WorkloadKey = JOB) -> str:
    obstacle = known.states[key].workload.obstacle
    if obstacle is None:
        return ""
    missing = "found no" in obstacle.message or "Lost" in obstacle.message
    missing &= "that is free" not in obstacle.message
    assert obstacle.code is (ReasonCode.VOLUME_MISSING if missing else ReasonCode.VOLUMES_NOT_READY)
    return obstacle.message


@named_rows(
    ("changes", "nodes"),
    {
        "a volume on one node": ([claim(bound="pv"), volume(at={HOST: ["n2"]})], {"n2"}),
        "of two zones": ([claim(bound="pv"), volume(at={ZONE: ["a", "b"]})], {"n1", "n2"}),
        "reached from everywhere": ([claim(bound="pv"), volume()], EVERY),
        "a label of a zone": ([claim(bound="pv"), volume(labels={ZONE: "a"})], {"n1", "n3"}),
        "its old name": ([claim(bound="pv"), volume(labels={OLD_ZONE: "b__c"})], {"n2", "n3"}),
        "both": ([claim(bound="pv"), volume(at={HOST: ["n1", "n3"]}, labels={ZONE: "b"})], {"n3"}),
        "made in a zone": ([claim(storageClassName="zonal"), ZONAL], {"n2"}),
        "made anywhere": ([claim(storageClassName="any"), storage_class("any")], EVERY),
        "being made for a node": (
            [
                claim(storageClassName="any", annotations={"volume.kubernetes.io/selected-node": "n3"}),
                storage_class("any"),
            ],
            {"n3"},
        ),
        "one of those that are free": (
            [
                claim(storageClassName="local"),
                LOCAL,
                volume("pv-1", at={HOST: ["n1"]}, storageClassName="local"),
                volume("pv-3", at={HOST: ["n3"]}, storageClassName="local"),
                volume("taken", at={HOST: ["n2"]}, storageClassName="local", phase="Bound"),
                volume("other", at={HOST: ["n2"]}, storageClassName="other"),
                volume("small", at={HOST: ["n2"]}, storageClassName="local", capacity={"storage": "1Mi"}),
            ],
            {"n1", "n3"},
        ),
        "one that is free, or a new one": (
            [
                claim(storageClassName="zonal"),
                ZONAL,
                volume("old", at={HOST: ["n1"]}, storageClassName="zonal"),
            ],
            {"n1", "n2"},
        ),
    },
)
def test_pods_go_where_their_volumes_can_be_used(changes: list[Change], nodes: set[str]) -> None:
    known = waiting(*changes)
    assert (problem(known), allowed(known)) == ("", nodes)


@named_rows(
    ("changes", "said"),
    {
        "no claim": ([], "PersistentVolumeClaim data: found none in namespace ns, expected one"),
        "no volume": ([claim(bound="pv")], "found no PersistentVolume pv, to which it is bound"),
        "lost": ([claim(bound="pv", phase="Lost")], "found phase Lost"),
        "no class": ([claim(storageClassName="x")], "found no StorageClass x"),
        "immediate and not bound": (
            [claim(storageClassName="now"), storage_class("now", waits=False)],
            "found one that is not bound yet, expected a bound one",
        ),
        "without a class": ([claim()], "found one that is not bound yet"),
        "a volume is named, and not bound": (
            [claim(storageClassName="any", volumeName="pv"), storage_class("any"), volume()],
            "not bound to PersistentVolume pv, which it names, yet",
        ),
        "no volume of a class that makes none": (
            [claim(storageClassName="local"), LOCAL],
            "found no PersistentVolume of class local that is free and large enough",
        ),
    },
)
def test_what_is_missing_is_said_before_seats_are_held(changes: list[Change], said: str) -> None:
    known = waiting(*changes)
    assert said in problem(known)


def test_a_claim_that_is_made_later_lets_the_job_go() -> None:
    known = waiting()
    assert problem(known)
    see(known, claim(bound="pv"), volume(at={HOST: ["n2"]}), now=NOW + 1)
    assert (problem(known), allowed(known)) == ("", {"n2"})
    see(known, replace(volume(), fact=None), now=NOW + 2)
    assert "found no PersistentVolume pv" in problem(known)
    see(known, replace(claim(), fact=None), now=NOW + 3)
    assert "found none in namespace ns" in problem(known)


def test_a_volume_that_is_made_while_the_job_waits_says_where_it_is() -> None:
    known = waiting(claim(storageClassName="any"), storage_class("any"))
    assert allowed(known) == EVERY
    see(known, volume(at={ZONE: ["a"]}), claim(storageClassName="any", bound="pv"), now=NOW + 1)
    assert allowed(known) == {"n1"}


def test_two_claims_in_different_zones_are_named_with_their_zones(golden: Any) -> None:
    volumes = (PodVolume(claim="left"), PodVolume(claim="right"))
    claims = claim("left", bound="pv-l"), claim("right", bound="pv-r")
    bound = volume("pv-l", at={ZONE: ["a"]}), volume("pv-r", at={ZONE: ["b"]})
    known = waiting(*claims, *bound, volumes=volumes)
    assert problem(known) == golden


def test_tasks_with_different_claims_go_each_where_its_own_is() -> None:
    one, other = replace(job(1), volumes={}).pod_sets[0], replace(job(2).pod_sets[0], name="other")
    fact = replace(
        job(3, suspended=True),
        pod_sets=(one, other),
        volumes={"main": (PodVolume(claim="left"),), "other": (PodVolume(claim="right"),)},
    )
    known = world([queue(TEAM), fact])
    known.observe([claim("left", bound="pv-l"), volume("pv-l", at={HOST: ["n1"]})])
    see(known, claim("right", bound="pv-r"), volume("pv-r", at={HOST: ["n2"]}), KNOWN)
    first, second = known.states[JOB].workload.pod_sets
    assert (first.nodes.also[0][0][0].values, second.nodes.also[0][0][0].values) == (("n1",), ("n2",))


def test_a_claim_that_is_made_for_each_pod_is_where_its_class_makes_volumes() -> None:
    known = waiting(ZONAL, volumes=MADE)
    assert (problem(known), allowed(known)) == ("", {"n2"})
    assert allowed(waiting(storage_class("zonal", waits=False, zones=["b"]), volumes=MADE)) == EVERY
    by_default = (PodVolume(is_made=True),)
    assert allowed(waiting(storage_class("zonal", zones=["a"], default=True), volumes=by_default)) == {"n1"}
    assert "found no StorageClass zonal" in problem(waiting(volumes=MADE))


def test_a_claim_that_is_made_for_each_pod_goes_where_its_class_has_a_free_volume() -> None:
    of_local = (PodVolume(is_made=True, storage_class="local"),)
    free = volume("pv-1", at={HOST: ["n1"]}, storageClassName="local")
    blocks = volume("pv-2", at={HOST: ["n2"]}, storageClassName="local", volumeMode="Block")
    taken = volume("pv-3", at={HOST: ["n3"]}, storageClassName="local", phase="Released")
    known = waiting(LOCAL, free, blocks, taken, volumes=of_local)
    assert (problem(known), allowed(known)) == ("", {"n1", "n2"})
    known = waiting(LOCAL, taken, volumes=of_local)
    assert "a claim of each pod: found no PersistentVolume of class local that is free" in problem(known)
    see(known, free, now=NOW + 1)
    assert (problem(known), allowed(known)) == ("", {"n1"})


def test_each_of_several_jobs_is_admitted_onto_a_free_volume_of_its_own() -> None:
    """Their claims could be bound to any of the volumes."""
    keys = [WorkloadKey(kind_names.JOB, name) for name in "abc"]
    jobs = {
        key: replace(
            job(1, suspended=True), key=key, name=key.uid, volumes={"main": (PodVolume(claim=key.uid),)}
        )
        for key in keys
    }
    at = {"n1": "pv-1", "n2": "pv-2"}
    volumes = [volume(pv, at={HOST: [name]}, storageClassName="local") for name, pv in at.items()]
    claims = [claim(key.uid, storageClassName="local") for key in keys]
    nodes = [node(name, labels=LABELS[name]) for name in ZONES]
    arrivals = {key: number for number, key in enumerate(keys, 1)}

    def decided(*admissions: Admission) -> Plan:
        known = world([queue(TEAM), *nodes, *jobs.values()], admissions, arrivals)
        see(known, LOCAL, *volumes, *claims, KNOWN)
        return decide(known.freeze(NOW), Memo())[0]

    first = decided()
    assert {admit.workload for admit in first.admits} == set(keys[:2])
    assert {seat.node for admit in first.admits for seat in admit.seats} == at.keys()
    assert first.reasons[keys[2]].code is ReasonCode.NO_FIT
    for name in at:
        [second] = decided(admission(keys[0], name)).admits
        assert {seat.node for seat in second.seats} == at.keys() - {name}


def test_one_pod_at_a_time_has_a_claim_of_its_own() -> None:
    own = [claim(bound="pv", accessModes=["ReadWriteOncePod"]), volume()]
    assert "found access mode ReadWriteOncePod and 2 pods that use it" in problem(waiting(*own, pods=2))
    known = waiting(*own)
    assert not problem(known)
    user: PodFact = pod("user", "n1", volumes=DATA, owner=None)
    see(known, user)
    assert "found in use by pod user" in problem(known)
    see(known, gone(user))
    assert not problem(known)


def test_gated_pods_of_a_group_go_each_where_its_own_claim_is() -> None:
    members = [gated(name, group="gang", owner=GROUP, volumes=(PodVolume(claim=name),)) for name in "abc"]
    known = world([queue(TEAM), group(3), *members])
    known.observe([claim("a", bound="pv-1"), claim("b", bound="pv-1"), volume("pv-1", at={HOST: ["n1"]})])
    see(known, claim("c", bound="pv-2"), volume("pv-2", at={HOST: ["n2"]}), KNOWN)
    sets = known.states[GROUP].workload.pod_sets
    found = sorted((each.count, each.nodes.also[0][0][0].values) for each in sets)
    assert found == [(1, ("n2",)), (2, ("n1",))]


def test_until_volumes_are_known_a_job_waits_for_a_moment() -> None:
    fact: WorkloadFact = replace(job(1, suspended=True), volumes={"main": DATA})
    known = world([queue(TEAM), node("n1"), fact])
    assert known.volumes.is_needed(NOW)
    assert known.states[JOB].is_untried
    known.refresh(NOW + 9)
    assert known.states[JOB].is_untried
    known.refresh(NOW + 10)
    assert known.states[JOB].needs_seats, "they cannot be read; the stock scheduler decides"
    late = world([queue(TEAM), node("n1"), fact])
    see(late, KNOWN, now=NOW + 1)
    assert "found none" in problem(late)


def test_nothing_is_watched_for_work_without_volumes_or_that_has_its_seats() -> None:
    fact = replace(job(1), volumes={"main": DATA})
    idle = world([queue(TEAM), node("n1"), job(1, suspended=True)])
    seated = world([queue(TEAM), node("n1"), fact], [admission(JOB, "n1")])
    assert not idle.volumes.is_needed(NOW)
    assert not seated.volumes.is_needed(NOW)


def test_what_was_known_is_forgotten_with_the_last_work_that_needs_it() -> None:
    known = waiting(claim(bound="pv"), volume(at={HOST: ["n2"]}))
    see(known, gone(known.facts[JOB]))
    assert known.volumes.is_needed(NOW + 599)
    assert not known.volumes.is_needed(NOW + 600)
    known.observe([UNWATCHED])
    assert not known.volumes.is_synced


def test_a_change_of_its_volumes_lets_a_job_try_the_nodes_again_that_refused_it() -> None:
    known = waiting(claim(bound="pv"), volume())
    known.refused_nodes.note(JOB, known._revision(JOB), {SetOnNode("main", node("n1").name): "no"}, NOW)
    known.mark_dirty(JOB)
    known.refresh(NOW)
    assert allowed(known) == EVERY - {"n1"}
    see(known, volume(at={HOST: ["n1"]}))
    assert allowed(known) == {"n1"}


def test_volumes_of_a_pod_are_read_that_say_something_about_nodes() -> None:
    spec = {
        "volumes": [
            {"name": "d", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "fast"}}}},
            {"name": "c", "csi": {"driver": "inline"}},
            {"name": "x", "emptyDir": {}},
        ]
    }
    read = msgspec.convert(spec, WirePodSpec)
    data = PodVolume(claim="data")
    assert volumes_of(read) == (data, PodVolume(is_made=True, storage_class="fast"))
    assert volumes_of(read, "p") == (data, PodVolume("p-e", is_made=True, storage_class="fast"))


def test_a_new_leader_knows_the_volumes_before_it_gives_up_seats_of_members_that_are_gated_still() -> None:
    """Seats of a group's members are named by where these may go."""
    members = [gated(name, group="gang", owner=GROUP, volumes=DATA) for name in ("a", "b")]
    about = [claim(bound="pv"), volume(at={HOST: ["n1"]}), KNOWN]
    known = world([queue(TEAM), group(2), *members])
    see(known, *about)
    [pods] = known.states[GROUP].workload.pod_sets
    taken = admission(GROUP, "n1 n1", pod_set=pods.name)
    later = world([queue(TEAM), node("n1"), group(2), *members], [taken])
    state = later.states[GROUP]
    assert (state.ended, state.needs_seats) == ({}, False)
    see(later, *about, now=NOW + 1)
    state = later.states[GROUP]
    assert (state.ended, state.needs_seats) == ({}, False)
    assert [each.name for each in state.workload.pod_sets] == [pods.name]
