"""The recovery of nodes: random faults, Jobs, crashes and persons; and every law holds, and can fail."""

from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from admission.node_recovery.state import RecoveryPhase
from admission.node_recovery.step import NodeTurn, plan
from admission.node_recovery.view import JobProgress, TaintOwner
from queues.workload import NodeName
from tests.laws.laws import node_recovery as laws
from tests.laws.worlds.node_recovery import MARK, NODES, RECOVER, VERIFY, PlayedCluster

#: Steps after which a cluster in which nothing happens is at rest.
AT_REST = 12

nodes = st.sampled_from(NODES)
devices = st.integers(0, 1)


class NodesUnderFaults(RuleBasedStateMachine):
    """A cluster in which anything may happen between any two effects."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = PlayedCluster()
        #: Jobs that were there in a step that was carried out, and by node the attempt for which one was made last.
        self.seen: set[str] = set()
        self.made: dict[NodeName, tuple[int, str]] = {}

    # ── what happens ─────────────────────────────────────────────────────────────────────────────────────────

    @rule(node=nodes, index=devices, reason=st.sampled_from(("Xid79", "EccUncorrected", MARK)))
    def a_device_fails(self, node: NodeName, index: int, reason: str) -> None:
        self.cluster.becomes_faulty(node, index, reason)

    @rule(node=nodes, index=devices)
    def a_device_gets_well(self, node: NodeName, index: int) -> None:
        self.cluster.nodes[node].faults.pop(index, None)

    @rule(node=nodes, reports=st.booleans())
    def devices_are_reported_or_not(self, node: NodeName, reports: bool) -> None:
        self.cluster.is_reported(node, reports)

    @rule(node=nodes)
    def a_node_kills_pods(self, node: NodeName) -> None:
        self.cluster.begins_to_kill_pods(node)

    @rule(node=nodes)
    def a_node_kills_pods_no_more(self, node: NodeName) -> None:
        self.cluster.nodes[node].black_hole = None

    @rule(node=nodes, devices=st.sampled_from((None, frozenset({0}), frozenset({1}), frozenset({0, 1}))))
    def a_gang_comes(self, node: NodeName, devices: frozenset[int] | None) -> None:
        self.cluster.gang_comes(node, devices)

    @rule(node=nodes)
    def gangs_end(self, node: NodeName) -> None:
        self.cluster.nodes[node].gangs.clear()

    @rule(node=nodes)
    def evicted_gangs_are_gone(self, node: NodeName) -> None:
        played = self.cluster.nodes[node]
        played.gangs = [gang for gang in played.gangs if not gang.leaving]

    @rule(node=nodes, count=st.integers(0, 2))
    def foreign_pods_come_and_go(self, node: NodeName, count: int) -> None:
        self.cluster.nodes[node].foreign_pods = count

    @rule(node=nodes, succeeds=st.booleans(), heals=st.booleans())
    def jobs_end(self, node: NodeName, succeeds: bool, heals: bool) -> None:
        progress = JobProgress.SUCCEEDED if succeeds else JobProgress.FAILED
        played = self.cluster.nodes[node]
        for job in list(played.jobs.values()):
            if job.progress is JobProgress.RUNNING:
                self.cluster.job_ends(node, job.name, progress)
                if heals:
                    played.faults.clear()

    @rule(node=nodes)
    def jobs_are_gone(self, node: NodeName) -> None:
        self.cluster.nodes[node].jobs.clear()

    @rule(node=nodes, ready=st.sampled_from((True, True, False)))
    def a_node_is_ready_or_not(self, node: NodeName, ready: bool) -> None:
        self.cluster.nodes[node].ready = ready

    @rule(node=nodes, cordoned=st.booleans())
    def a_person_cordons_a_node_or_not(self, node: NodeName, cordoned: bool) -> None:
        self.cluster.nodes[node].cordoned = cordoned

    @rule(seconds=st.sampled_from((1, 30, 600, 1499, 1501, 1801, 86_401)))
    def time_passes(self, seconds: int) -> None:
        self.cluster.passes(seconds)

    @rule(node=nodes, taint=st.sampled_from((TaintOwner.ABSENT, TaintOwner.PERSON)))
    def a_person_changes_the_taint(self, node: NodeName, taint: TaintOwner) -> None:
        self.cluster.nodes[node].taint = taint

    @rule(node=nodes, annotation=st.sampled_from(("", "{", '{"phase":"none","attempts":-1}')))
    def a_person_spoils_the_annotation(self, node: NodeName, annotation: str) -> None:
        self.cluster.passes(1)
        self.cluster.nodes[node].annotation = annotation
        self.seen -= {job for job in self.seen if f"-{node}-" in job}
        self.made.pop(node, None)

    @rule(
        recovers=st.booleans(),
        most=st.sampled_from((None, 0, 1, 2)),
        job=st.sampled_from((RECOVER, None)),
        verify_job=st.sampled_from((VERIFY, None)),
    )
    def the_policy_changes(self, recovers: bool, most: int | None, **jobs: str | None) -> None:
        self.cluster.policy = replace(self.cluster.policy, recovers=recovers, max_nodes_out=most, **jobs)

    # ── what recovery does ───────────────────────────────────────────────────────────────────────────────────

    @rule(done=st.integers(0, 4))
    def a_turn_is_cut_off(self, done: int) -> None:
        """A crash after so many effects of each node."""
        self._turn(done)

    @rule()
    def turns_come_to_rest(self) -> None:
        for _ in range(AT_REST):
            if not self._turn():
                break
        else:
            raise AssertionError(f"not at rest: {self._plan()}")
        cluster = self.cluster
        laws.taints_have_a_reason(cluster.views())
        laws.only_the_job_of_the_phase_runs(cluster.views())
        laws.time_alone_changes_nothing_before_it_says(
            cluster.views(), self._plan(), cluster.policy, cluster.now
        )

    @rule(seconds=st.sampled_from((1, 601, 1501, 1801)), succeeds=st.booleans(), heals=st.booleans())
    def life_goes_on(self, seconds: int, succeeds: bool, heals: bool) -> None:
        """Time, the ends of Jobs and evictions, each with turns: so that histories get far."""
        for name in NODES:
            self.evicted_gangs_are_gone(name)
        self.cluster.passes(seconds)
        self.turns_come_to_rest()
        for name in NODES:
            self.jobs_end(name, succeeds, heals)
        self.turns_come_to_rest()

    @rule(node=nodes, ends=st.lists(st.booleans(), min_size=3, max_size=8))
    def a_node_is_tried_again_and_again(self, node: NodeName, ends: list[bool]) -> None:
        """Its Jobs succeed and fail in turn."""
        self.cluster.nodes[node].ready = True
        for succeeds in ends:
            self.jobs_end(node, succeeds, heals=False)
            self.cluster.passes(1501)
            self.turns_come_to_rest()

    @rule(node=nodes)
    def a_device_is_unhealthy_and_then_not_reported(self, node: NodeName) -> None:
        """Its node is taken out of service, and the object that told why is gone."""
        self.a_device_fails(node, 0, "Xid79")
        self.turns_come_to_rest()
        self.devices_are_reported_or_not(node, reports=False)
        self.life_goes_on(1, succeeds=True, heals=False)

    @rule(node=nodes)
    def a_gang_comes_before_the_repair_job(self, node: NodeName) -> None:
        """Its node is not ready when the repair begins, so that the Job waits."""
        played = self.cluster.nodes[node]
        played.ready, played.foreign_pods = False, 0
        played.gangs.clear()
        self.a_device_fails(node, 0, "Xid79")
        self.turns_come_to_rest()
        self.cluster.gang_comes(node, frozenset({1}))
        played.ready = True
        self.turns_come_to_rest()

    @precondition(lambda self: any(node.annotation for node in self.cluster.nodes.values()))
    @rule()
    def everything_heals(self) -> None:
        """Every node comes back, but those whose test failed; and those by a person's hand."""
        cluster = self.cluster
        for node in cluster.nodes.values():
            node.faults.clear()
            node.black_hole, node.foreign_pods, node.ready = None, 0, True
            cluster.is_reported(node.name, reports=True)
        for _ in range(8):
            for node in cluster.nodes.values():
                node.gangs.clear()
                self.jobs_end(node.name, succeeds=True, heals=True)
            self.turns_come_to_rest()
            cluster.passes(10)
        for name, view in cluster.views().items():
            state = laws.remembered(view)
            if not state.test_failed:
                assert state.phase is RecoveryPhase.NONE, (name, state)
                assert view.taint is not TaintOwner.MUSTER
            cluster.nodes[name].taint = TaintOwner.ABSENT
        self.turns_come_to_rest()
        assert all(node.taint is not TaintOwner.MUSTER for node in cluster.nodes.values())

    def _plan(self) -> Any:
        cluster = self.cluster
        return plan(cluster.views(), cluster.policy, cluster.now)

    def _turn(self, done: int | None = None) -> bool:
        """One turn; whether it did anything."""
        policy = self.cluster.policy
        views, turns = self.cluster.views(), self._plan()
        laws.no_more_nodes_out_than_allowed(
            views, turns, 1 if policy.max_nodes_out is None else policy.max_nodes_out
        )
        laws.no_job_where_none_can_run(views, turns)
        laws.no_repair_under_running_pods(views, turns)
        laws.no_attempt_for_what_only_a_person_ends(views, turns)
        laws.no_more_attempts_than_allowed(views, turns)
        laws.nodes_come_back_only_when_well(views, turns, policy)
        laws.a_lost_annotation_ends_no_recovery(views, turns, policy)
        for name, turn in turns.items():
            laws.nothing_but_the_annotation_is_remembered(turn)
            if turn.creates is not None and (done is None or done > 2):
                self._no_job_is_made_twice(name, turn.creates.name, turn)
            self.cluster.carry_out(name, turn, done)
            state = laws.remembered(self.cluster.nodes[name].view())
            if done is None:
                self.seen |= views[name].jobs.keys()
            if state.attempts < self.made.get(name, (0, ""))[0]:
                del self.made[name]
        return any(not turn.is_idle for turn in turns.values())

    def _no_job_is_made_twice(self, node: NodeName, job: str, turn: NodeTurn) -> None:
        """Of one attempt; one that was deleted before any step saw it is made once more, under its name."""
        there = job in self.cluster.nodes[node].jobs
        assert there or job not in self.seen, (node, job, turn)
        if turn.state.phase is RecoveryPhase.RECOVERING:
            attempt, before = self.made.get(node, (0, ""))
            assert attempt != turn.state.attempts or before == job, (node, job, turn)
            self.made[node] = turn.state.attempts, job


few = settings(max_examples=60, stateful_step_count=40, suppress_health_check=list(HealthCheck))


def test_nodes_come_back_whatever_happens() -> None:
    run_state_machine_as_test(NodesUnderFaults, settings=few)  # type: ignore[no-untyped-call]
