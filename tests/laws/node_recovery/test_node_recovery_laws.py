"""The recovery of nodes: random faults, Jobs, crashes and persons; and every law holds, and can fail."""

from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from admission.node_recovery import step as steps
from admission.node_recovery.jobs import JobName
from admission.node_recovery.state import RecoveryPhase, read_state
from admission.node_recovery.step import NodeTurn
from tests.laws.laws import node_recovery as laws
from tests.laws.worlds.node_recovery import MARK, REPAIR, TEST, PlayedNode
from tests.laws.worlds.settings import tried_of

#: Steps after which a node to which nothing happens is at rest.
AT_REST = 12

devices = st.integers(0, 1)


class NodeUnderFaults(RuleBasedStateMachine):
    """A node to which anything may happen between any two effects."""

    def __init__(self) -> None:
        super().__init__()
        self.node = PlayedNode()
        #: Jobs that ran when the policy took their template away.
        self.given_up: set[JobName] = set()

    # ── what happens ─────────────────────────────────────────────────────────────────────────────────────────

    @rule(index=devices, reason=st.sampled_from(("Xid79", "EccUncorrected", MARK)))
    def a_device_fails(self, index: int, reason: str) -> None:
        self.node.becomes_faulty(index, reason)

    @rule(index=devices)
    def a_device_gets_well(self, index: int) -> None:
        self.node.faults.pop(index, None)

    @rule(is_reported=st.booleans())
    def devices_are_reported_or_not(self, is_reported: bool) -> None:
        self.node.reports(is_reported)

    @rule(kills_pods=st.sampled_from(("", "pods fail")), held_back=st.sampled_from(("", "", "many are out")))
    def others_decide(self, kills_pods: str, held_back: str) -> None:
        self.node.kills_pods, self.node.held_back = kills_pods, held_back

    @rule(devices=st.sampled_from((None, frozenset({0}), frozenset({1}), frozenset({0, 1}))))
    def a_gang_comes(self, devices: frozenset[int] | None) -> None:
        self.node.gang_comes(devices)

    @rule()
    def gangs_end(self) -> None:
        self.node.gangs.clear()

    @rule(count=st.integers(0, 2))
    def foreign_pods_come_and_go(self, count: int) -> None:
        self.node.foreign_pods = count

    @rule(succeeded=st.booleans(), heals=st.booleans())
    def jobs_end(self, succeeded: bool, heals: bool) -> None:
        self.node.jobs_end(succeeded, heals)

    @rule()
    def jobs_are_gone(self) -> None:
        self.node.jobs.clear()

    @rule(ready=st.sampled_from((True, True, False)))
    def the_node_is_ready_or_not(self, ready: bool) -> None:
        self.node.ready = ready

    @rule(seconds=st.sampled_from((1, 30, 600, 1499, 1501, 3601, 86_401)))
    def time_passes(self, seconds: int) -> None:
        self.node.now += seconds

    @rule(taint=st.sampled_from((None, "fans")))
    def a_person_changes_the_taint(self, taint: str | None) -> None:
        self.node.taint = taint

    @rule(annotation=st.sampled_from(("", "{", '{"phase":"none","attempts":-1}')))
    def a_person_spoils_the_annotation(self, annotation: str) -> None:
        self.node.now += 1
        self.node.annotation = annotation
        self._give_up()

    @rule(
        recovers=st.booleans(), job=st.sampled_from((REPAIR, None)), verify_job=st.sampled_from((TEST, None))
    )
    def the_policy_changes(self, recovers: bool, job: str | None, verify_job: str | None) -> None:
        self.node.rules = replace(self.node.rules, recovers=recovers, job=job, verify_job=verify_job)
        self._give_up()

    def _give_up(self) -> None:
        self.given_up |= self.node.jobs.keys()

    # ── what recovery does ───────────────────────────────────────────────────────────────────────────────────

    @rule(done=st.integers(0, 3))
    def a_turn_is_cut_off(self, done: int) -> None:
        """A crash after so many effects."""
        self._turn(done)

    @rule()
    def turns_come_to_rest(self) -> None:
        for _ in range(AT_REST):
            if not self._turn():
                break
        else:
            raise AssertionError(f"not at rest: {self._step()}")
        laws.taints_have_a_reason(self.node.view())
        laws.only_the_job_of_the_phase_runs(self.node.view(), self.given_up)

    @rule(seconds=st.sampled_from((1, 1501, 1801, 3601)), succeeded=st.booleans(), heals=st.booleans())
    def life_goes_on(self, seconds: int, succeeded: bool, heals: bool) -> None:
        """Time, the ends of Jobs and evictions, each with turns: so that histories get far."""
        self.node.evicted_are_gone()
        self.node.now += seconds
        self.turns_come_to_rest()
        self.node.jobs_end(succeeded, heals)
        self.turns_come_to_rest()

    @rule(ends=st.lists(st.booleans(), min_size=3, max_size=8))
    def the_node_is_tried_again_and_again(self, ends: list[bool]) -> None:
        """Its Jobs succeed and fail in turn."""
        self.node.ready = True
        for succeeded in ends:
            self.node.jobs_end(succeeded, heals=False)
            self.node.now += 1501
            self.turns_come_to_rest()

    @rule()
    def a_device_is_unhealthy_and_then_not_reported(self) -> None:
        """The node is taken out of service, and the object that told why is gone."""
        self.node.becomes_faulty(0, "Xid79")
        self.turns_come_to_rest()
        self.node.reports(False)
        self.life_goes_on(1, succeeded=True, heals=False)

    @rule()
    def a_gang_comes_before_the_repair_job(self) -> None:
        """The node is not ready when the repair begins, so that the Job waits."""
        self.node.ready, self.node.foreign_pods = False, 0
        self.node.gangs.clear()
        self.node.becomes_faulty(0, "Xid79")
        self.turns_come_to_rest()
        self.node.gang_comes(frozenset({1}))
        self.node.ready = True
        self.turns_come_to_rest()

    @precondition(lambda self: self.node.annotation)
    @rule()
    def everything_heals(self) -> None:
        """The node comes back, unless its test failed; and then by a person's hand."""
        node = self.node
        node.faults.clear()
        node.kills_pods, node.foreign_pods, node.ready = "", 0, True
        node.reports(True)
        for _ in range(8):
            node.gangs.clear()
            node.jobs_end(True, heals=True)
            self.turns_come_to_rest()
            node.now += 10
        state = read_state(node.annotation)
        if not state.test_failed:
            assert state.phase is RecoveryPhase.NONE, state
            assert node.taint != "muster"
        node.taint = None
        self.turns_come_to_rest()
        assert node.taint != "muster"

    def _step(self) -> NodeTurn:
        return steps.step(self.node.view(), self.node.rules, self.node.now)

    def _turn(self, done: int = 10) -> bool:
        """One turn; whether it did anything."""
        view, rules, turn = self.node.view(), self.node.rules, self._step()
        laws.no_node_is_closed_beyond_what_the_circuit_breaker_allows(view, turn)
        laws.no_job_where_none_can_run(view, turn)
        laws.no_repair_under_running_pods(view, turn)
        laws.no_repair_for_what_only_a_person_ends(view, turn)
        laws.no_more_attempts_than_allowed(view, turn)
        laws.nodes_come_back_only_when_well(view, turn, rules)
        laws.a_lost_annotation_ends_no_recovery(view, turn, rules)
        laws.nothing_but_the_annotation_is_remembered(turn)
        self.node.carry_out(turn, done)
        is_news = turn.evicted.keys() - self.node.leaving
        return bool(is_news or turn.writes or turn.event or turn.creates or turn.deletes)


few = settings(max_examples=tried_of(60), stateful_step_count=40, suppress_health_check=list(HealthCheck))


def test_nodes_come_back_whatever_happens() -> None:
    run_state_machine_as_test(NodeUnderFaults, settings=few)  # type: ignore[no-untyped-call]
