import itertools

import pytest

from service.errors import ConflictError
from service.motion.permit import ALLOWED, Permit, PermitChange, PermitState

S = PermitState


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def changes() -> list[PermitChange]:
    return []


@pytest.fixture
def permit(clock: Clock, changes: list[PermitChange]) -> Permit:
    return Permit("r1", motion_enabled=True, arm_seconds=10.0, on_change=changes.append, clock=clock)


def reach(permit: Permit, state: PermitState) -> None:
    if state is S.FAULTED:
        permit.fault("test")
    if state in (S.ARMED, S.MOVING, S.STOPPING):
        permit.arm()
    if state in (S.MOVING, S.STOPPING):
        permit.begin_motion("test")
    if state is S.STOPPING:
        permit.begin_stop("test")
    assert permit.state is state


def test_a_motion_uses_the_permit_up(permit: Permit, changes: list[PermitChange]) -> None:
    permit.arm()
    permit.begin_motion("job 1")
    permit.begin_stop("end of the trajectory")
    permit.end_stop("at rest")
    assert [c.after for c in changes] == [S.ARMED, S.MOVING, S.STOPPING, S.DISARMED]
    assert changes[-1] == PermitChange("r1", S.STOPPING, S.DISARMED, "at rest")
    with pytest.raises(ConflictError, match="arm it first") as refused:
        permit.begin_motion("job 2")
    assert refused.value.code == "robot-disarmed"


ACTIONS = {
    S.ARMED: lambda p: p.arm(),
    S.MOVING: lambda p: p.begin_motion("x"),
    S.STOPPING: lambda p: p.begin_stop("x"),
    S.FAULTED: lambda p: p.fault("x"),
}


@pytest.mark.parametrize(("before", "after"), list(itertools.product(S, ACTIONS)))
def test_only_the_table_s_transitions_exist(permit: Permit, before: PermitState, after: PermitState) -> None:
    reach(permit, before)
    if after in ALLOWED[before]:
        ACTIONS[after](permit)
        assert permit.state is after
    elif before is after and after in (S.STOPPING, S.FAULTED):
        ACTIONS[after](permit)  # asking for what is so already changes nothing
        assert permit.reason == "test"
    else:
        with pytest.raises(ConflictError):
            ACTIONS[after](permit)
        assert permit.state is before


@pytest.mark.parametrize("state", [S.MOVING, S.STOPPING, S.FAULTED])
def test_disarm_is_no_way_round_stopping_or_resetting(permit: Permit, state: PermitState) -> None:
    reach(permit, state)
    with pytest.raises(ConflictError, match=r"stop|rest|reset") as refused:
        permit.disarm("by hand")
    assert refused.value.code == "permit-transition"
    assert permit.state is state


def test_an_unused_arm_is_taken_back(permit: Permit, clock: Clock, changes: list[PermitChange]) -> None:
    permit.arm()
    clock.now += 9.9
    assert permit.state is S.ARMED
    assert permit.armed_seconds_left == pytest.approx(0.1)
    clock.now += 0.1
    with pytest.raises(ConflictError, match="not used within 10 s"):
        permit.begin_motion("late")
    assert changes[-1].after is S.DISARMED
    assert permit.armed_seconds_left is None


def test_a_motion_in_progress_outlives_the_arm(permit: Permit, clock: Clock) -> None:
    reach(permit, S.MOVING)
    clock.now += 1e6
    assert permit.state is S.MOVING


def test_a_fault_stays_and_keeps_its_first_reason_until_reset(permit: Permit) -> None:
    permit.fault("protective stop")
    permit.fault("host crashed")
    assert permit.reason == "protective stop"
    with pytest.raises(ConflictError, match=r"protective stop.*reset the fault"):
        permit.require_armed()
    permit.reset()
    assert permit.state is S.DISARMED
    with pytest.raises(ConflictError, match="nothing to reset"):
        permit.reset()


def test_a_robot_with_motion_disabled_never_arms(clock: Clock) -> None:
    permit = Permit("r1", motion_enabled=False, arm_seconds=10.0, clock=clock)
    with pytest.raises(ConflictError, match="motion_enabled = true") as refused:
        permit.arm()
    assert refused.value.code == "motion-disabled"
    assert permit.state is S.DISARMED
