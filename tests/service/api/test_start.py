"""What the service's web process loads before it answers."""

from __future__ import annotations

import json
import subprocess
import sys

LOADED = """
import json, sys
import service.api.server
print(json.dumps(sorted(sys.modules)))
"""
HEAVY = ("scipy.linalg", "scipy.optimize", "scipy.signal", "scipy.stats", "sklearn", "matplotlib", "clarabel")


def test_numerics_stay_with_the_workers() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, timeout=120, check=True)
    loaded = set(json.loads(done.stdout))
    assert "service.jobs.kinds.identify" in loaded
    assert not loaded.intersection(HEAVY)
