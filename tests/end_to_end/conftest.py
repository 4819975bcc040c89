"""Whole services with their robots: one at a time, whatever worker runs it."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """Wait until no other worker runs a whole service.

    Each is half a dozen processes that have to answer within half a second; two of them are more than two
    processors carry, and a service that is late stops its robot, as it should.
    """
    place = Path(tempfile.gettempdir()) / f"dynid-end-to-end-{os.getuid()}.lock"
    with place.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
