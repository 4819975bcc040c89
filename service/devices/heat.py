"""Joint temperatures as a monitor of motion: one that is too hot ends a motion and lets none begin."""

from __future__ import annotations

from dataclasses import dataclass

from drivers.contract import SampleSource
from service.devices.watch import Cause


@dataclass(frozen=True)
class JointHeat:
    """Compares what the controller tells with ``limit``, °C; None: it does not matter."""

    source: SampleSource
    limit: float | None

    def cause(self) -> Cause | None:
        """Return why there may be no motion now, if so. It ends in order, along its path: heat is slow."""
        state = self.source.state
        if self.limit is None or state is None:  # that nothing is connected is for others to notice
            return None
        if state.temperatures is None:
            reason = "the settings limit joint temperatures, which this controller does not tell"
            return Cause("stopped", f"{reason}; remove temperature_limit", "temperature-unknown")
        for joint, celsius in enumerate(state.temperatures, start=1):
            if not celsius <= self.limit:
                reason = f"joint {joint} is at {celsius:.1f} °C, allowed are {self.limit:g} °C; let it cool"
                return Cause("stopped", reason, "joint-too-hot")
        return None
