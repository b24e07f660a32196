"""What the recovery of nodes is decided on, put together from the world and from Jobs."""

from collections.abc import Mapping

from admission.kube.node_recovery.recovery_jobs import RecoveryJobs
from admission.node_recovery.step import GangOnNode, NodeView, known_by
from admission.workloads.seats import is_live
from admission.world.learned.seen_times import takes_devices
from admission.world.world import World
from queues.workload import NodeName, WorkloadKey

#: Numbers of the devices that pods have, as is reported, by the pod's uid. Empty: nothing reports it.
Holders = Mapping[str, frozenset[int]]


def node_view(world: World, jobs: RecoveryJobs, name: NodeName, kills_pods: str, refused: str) -> NodeView:
    """The view of a node. ``kills_pods``, ``refused``: as the view has them."""
    reported, faulty = world.devices.reported(name), world.node_inventory.faulty
    fact = world.node_inventory.nodes[name]
    holders = {} if reported is None else reported.holders
    devices = () if reported is None else reported.devices
    seated = sorted(world.admission_index.seated_on(name))
    gangs = (_gang(world, key, name, holders) for key in seated)
    return NodeView(
        name=name,
        ready=fact.ready,
        taint=fact.fault_taint,
        annotation=fact.recovery,
        faults=fact.faults,
        kills_pods=kills_pods,
        reported=frozenset(known_by(device.id, device.number) for device in devices),
        gangs=tuple(gang for gang in gangs if gang is not None),
        foreign_pods=len(_foreign_pods(world, name, holders)),
        jobs=jobs.by_name,
        refused=refused,
        held_back="" if name in faulty.granted else faulty.why_held_back(),
    )


def _gang(world: World, key: WorkloadKey, name: NodeName, holders: Holders) -> GangOnNode | None:
    """A gang that holds devices of the node. None if it holds none."""
    pods = [pod for pod in world.pod_index.of(key) if pod.node == name]
    has_uncounted = any(pod.claims_uncounted or pod.uid in holders for pod in pods)
    seats = [seat for admission in world.admission_index.of(key) for seat in admission.holding()]
    if not any(seat.node == name and (has_uncounted or takes_devices(seat.takes)) for seat in seats):
        return None
    devices = [holders.get(pod.uid) for pod in pods]
    known = None if not devices or None in devices else frozenset().union(*filter(None, devices))
    return GangOnNode(key, known)


def _foreign_pods(world: World, name: NodeName, holders: Holders) -> set[str]:
    """Uids of pods that have devices, or may have, and hold no seat. Those of recovery Jobs are in the templates'
    namespaces.

    By their requests, and by what is reported: a pod may have devices that its requests do not show. What the agent
    reports of pods may be older than what the cluster shows.
    """
    found = {
        uid
        for uid, takes in world.node_inventory.foreign_on(name)
        if takes_devices(takes) or ((pod := world.pods.get(uid)) is not None and pod.claims_uncounted)
    }
    seated = world.admission_index.seated_on(name)
    found |= {uid for uid in holders if world.pod_index.owner_of(uid) not in seated}
    rules = world.node_inventory.faulty.rules
    of_recovery = {template.partition("/")[0] for template in (rules.job, rules.verify_job) if template}
    return {
        uid
        for uid in found
        if (pod := world.pods.get(uid)) is not None
        and pod.node == name
        and is_live(pod)
        and pod.namespace not in of_recovery
    }
