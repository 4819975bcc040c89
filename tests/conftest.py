"""Fixtures shared by all tests."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

_HOSTS = itertools.count(1)


@pytest.fixture
def loopback_host() -> str:
    """A loopback address of this test's own: vendor clients hard-code their ports, so hosts must differ.

    The worker's number and process id make two workers, and two suites on one machine, unlikely to meet.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    return f"127.{64 + int(worker)}.{os.getpid() % 250 + 1}.{next(_HOSTS) % 250 + 1}"


@pytest.fixture(scope="session")
def ur10e_data() -> Path:
    """Folder of the recorded UR10e logs; they may not be committed, so they are not everywhere."""
    root = os.environ.get("DYNID_SHARED_DATA")
    folder = (Path(root) if root else Path(__file__).parents[2] / "shared" / "data") / "ur10e"
    if not folder.is_dir():
        pytest.skip("the recorded UR10e logs are not on this machine (set DYNID_SHARED_DATA)")
    return folder
