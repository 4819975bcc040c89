import pytest

from core.errors import DynidError, InputError
from service.errors import ConflictError
from service.motion.lease import Lease


class Clock:
    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lease(clock: Clock) -> Lease:
    return Lease("r1", clock=clock)


def refusal(call: object, *args: object, **kwargs: object) -> DynidError:
    with pytest.raises(DynidError) as refused:
        call(*args, **kwargs)  # type: ignore[operator]
    return refused.value


def test_one_holder_at_a_time_and_the_refusal_names_them(lease: Lease, clock: Clock) -> None:
    lease.acquire("bench", 30.0, fencing=1)
    clock.now += 10.0
    error = refusal(lease.acquire, "bench", 30.0, fencing=2)  # the same name proves nothing
    assert isinstance(error, ConflictError)
    assert error.code == "lease-held"
    assert error.context == {"robot": "r1", "holder": "bench", "seconds_left": 20.0}


def test_the_token_is_the_proof(lease: Lease) -> None:
    grant = lease.acquire("bench", 30.0, fencing=1)
    assert lease.require(grant.token).fencing == 1
    assert refusal(lease.require, None).code == "lease-required"
    assert refusal(lease.require, "").code == "lease-required"
    assert refusal(lease.require, grant.token[:-1]).code == "lease-invalid"
    assert refusal(lease.require, "gänzlich falsch").code == "lease-invalid"
    assert refusal(lease.release, "wrong").code == "lease-invalid"
    assert grant.token not in repr(grant)


def test_it_lapses_by_the_monotonic_clock_and_can_be_renewed(lease: Lease, clock: Clock) -> None:
    grant = lease.acquire("bench", 5.0, fencing=1)
    clock.now += 4.0
    assert lease.renew(grant.token).valid_until == pytest.approx(clock.now + 5.0)
    assert lease.renew(grant.token, 8.0).valid_until == pytest.approx(clock.now + 8.0)
    assert lease.seconds_left == pytest.approx(8.0)
    clock.now += 8.0
    assert lease.current is None
    assert lease.valid_until is None
    assert lease.seconds_left == 0.0
    assert refusal(lease.renew, grant.token).code == "lease-invalid"
    successor = lease.acquire("other", 5.0, fencing=2)
    assert refusal(lease.require, grant.token).code == "lease-invalid"
    assert lease.require(successor.token) == successor


def test_release_frees_it_at_once(lease: Lease) -> None:
    grant = lease.acquire("bench", 30.0, fencing=1)
    lease.release(grant.token)
    lease.acquire("other", 30.0, fencing=2)


def test_fencing_numbers_only_grow(lease: Lease) -> None:
    lease.release(lease.acquire("bench", 30.0, fencing=7).token)
    error = refusal(lease.acquire, "bench", 30.0, fencing=7)
    assert error.code == "fencing-not-monotone"


@pytest.mark.parametrize("seconds", [0.0, -1.0, 0.5, 3601.0, float("inf"), float("nan")])
def test_a_lease_must_lapse(lease: Lease, seconds: float) -> None:
    error = refusal(lease.acquire, "bench", seconds, fencing=1)
    assert isinstance(error, InputError)
    assert error.code == "lease-seconds-out-of-range"
    assert lease.current is None


def test_a_lease_names_its_holder(lease: Lease) -> None:
    assert refusal(lease.acquire, " ", 5.0, fencing=1).code == "lease-holder-missing"
