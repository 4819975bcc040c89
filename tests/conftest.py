"""Fixtures shared by all tests."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# before numpy is imported: on small matrices, on a busy machine, threads of BLAS wait for each other tenfold
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# tests record little, also where little room is left
os.environ.setdefault("DYNID_DISK_FLOOR_BYTES", "0")

from drivers.virtual.process import VirtualComanR5, VirtualUpru6, VirtualUR10e

_HOSTS = itertools.count(1)

_IN_REAL_TIME = ("drivers", "end_to_end", "service/devices", "service/modbus", "service/recording")
"""Folders of tests whose processes have to keep up with a robot."""


_NUMBERS = ("core", "service/cli")
"""Folders of tests that only compute."""


def _is_in(path: Path, folders: tuple[str, ...]) -> bool:
    return str(path.relative_to(Path(__file__).parent)).startswith(folders)


@pytest.hookimpl(tryfirst=True)  # before the one that reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give all that keeps up with a robot to one worker: two at a time are more than two processors carry.

    A service that is late stops its robot, as it should. The other worker does the rest meanwhile.
    """
    for item in items:
        if _is_in(item.path, _IN_REAL_TIME):
            item.add_marker(pytest.mark.xdist_group("in real time"))


def new_loopback_host() -> str:
    """Return a loopback address not used before: vendor clients hard-code their ports, so hosts must differ.

    The worker's number and process id make two workers, and two suites on one machine, unlikely to meet.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    return f"127.{64 + int(worker)}.{os.getpid() % 250 + 1}.{next(_HOSTS) % 250 + 1}"


@pytest.fixture(scope="module", autouse=True)
def gives_way(request: pytest.FixtureRequest) -> Iterator[None]:
    """Numbers can wait: beside these tests others move robots in real time, and a late robot is a stopped one."""
    if not _is_in(request.path, _NUMBERS):
        yield
        return
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    yield
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@pytest.fixture(scope="session")
def loopback_hosts() -> Callable[[], str]:
    """Makes addresses for what lives longer than a test."""
    return new_loopback_host


@pytest.fixture
def loopback_host() -> str:
    """A loopback address of this test's own."""
    return new_loopback_host()


@pytest.fixture(scope="module")
def virtual_ur10e() -> Iterator[VirtualUR10e]:
    """A virtual UR10e for all tests of a file; a protective stop can be released soon after it."""
    with VirtualUR10e(new_loopback_host(), seed=1, unlock_delay=0.2) as robot:
        yield robot


@pytest.fixture(scope="module")
def virtual_coman_r5() -> Iterator[VirtualComanR5]:
    """A virtual COMAN R5 for all tests of a file; a protective stop can be released soon after it."""
    with VirtualComanR5(new_loopback_host(), seed=1, unlock_delay=0.2) as robot:
        yield robot


@pytest.fixture(scope="module")
def virtual_upru6() -> Iterator[VirtualUpru6]:
    """A virtual 6-UPRU behind a TwinCAT PLC for all tests of a file."""
    with VirtualUpru6(new_loopback_host(), seed=1) as robot:
        yield robot


@pytest.fixture(scope="session")
def ur10e_data() -> Path:
    """Folder of the recorded UR10e logs; they may not be committed, so they are not everywhere."""
    root = os.environ.get("DYNID_SHARED_DATA")
    folder = (Path(root) if root else Path(__file__).parents[2] / "shared" / "data") / "ur10e"
    if not folder.is_dir():
        pytest.skip("the recorded UR10e logs are not on this machine (set DYNID_SHARED_DATA)")
    return folder
