"""What the demonstration of a platform shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from service.demo.platform_flow import CRITERIA, PlatformOutcome
from service.demo.platform_truth import PlatformTruth
from service.demo.report import Check, account_of
from service.demo.robots import DemoPlatform

MAX_CONDITION = 1000.0
"""Of the base regressor along the designed excitation; random motion within the limits has some thousands, a search of
a minute on an idle machine comes below 150."""

MAX_RELATIVE_ERROR = 0.2
"""Of the table against the truth: gross errors only, as the cylinders' presliding is no function of the state."""

MAX_TRACKING = 0.6
"""Tracking error with the table over that without, RMS of each leg."""

_REFUSALS = {
    "disarmed": ("a disarmed robot does not move", "robot-disarmed"),
    "too large": ("no motion beyond the legs' limits", "motion-outside-limits"),
    "not validated": ("no table from an unvalidated result", "result-not-validated"),
    "load without lease": ("no table to the PLC without the lease", "lease-required"),
}


@dataclass(frozen=True)
class PlatformReport:
    """Of a platform: see `service.demo.report.Report`."""

    outcome: PlatformOutcome
    robot: DemoPlatform
    truth: PlatformTruth

    @property
    def checks(self) -> list[Check]:
        outcome, truth = self.outcome, self.truth
        _, lost = account_of(outcome.recordings)
        ends = [motion["outcome"] for motion in outcome.motions.values()]
        condition = outcome.designs["excitation"]["condition_number"]
        count = len(outcome.forces["document"]["base_parameters"])
        worst, ratio = max(truth.relative), self._tracking_ratio
        refused = [
            Check(name, outcome.refusals[key] == code, outcome.refusals[key] or "accepted")
            for key, (name, code) in _REFUSALS.items()
        ]
        return [
            Check("all motions completed", ends == ["completed"] * 3, ", ".join(ends)),
            Check("no sample lost", lost == 0, f"{lost} lost"),
            Check(
                "the excitation's cond(K_b)", condition <= MAX_CONDITION, f"{condition:.1f}, allowed {MAX_CONDITION}"
            ),
            Check(
                "base parameters",
                count == self.robot.base_parameters,
                f"{count}, expected {self.robot.base_parameters}",
            ),
            _held_out("forces", outcome.forces_validation),
            _held_out("currents", outcome.drives_validation),
            Check("table equal as JSON, CSV and float32", outcome.formats_agree, f"crc32 {outcome.table['crc32']:08x}"),
            self._added,
            Check(
                "legs follow better with the table",
                ratio <= MAX_TRACKING,
                f"RMS of the worst leg {ratio:.2f} of that without, allowed {MAX_TRACKING}",
            ),
            Check(
                "predicted current against the plant's truth",
                worst <= MAX_RELATIVE_ERROR,
                f"worst leg {worst:.3f}, allowed {MAX_RELATIVE_ERROR}",
            ),
            *refused,
        ]

    @property
    def _added(self) -> Check:
        """The PLC plays the table that was built: no more, no less, and nothing without it."""
        rows = self.outcome.current
        expected = np.abs(rows - rows[0]).max(axis=0)
        seen, before = self.outcome.added["feedforward"], self.outcome.added["validation"]
        off = float(np.abs(seen - expected).max())
        return Check(
            "the PLC adds this table, and only when it was loaded",
            off < 1e-3 and not np.any(before) and bool(self.outcome.loaded["controller_version"]),
            f"peaks within {1e3 * off:.2f} mA, version {self.outcome.loaded['controller_version']}",
        )

    @property
    def _tracking_ratio(self) -> float:
        """RMS of the tracking error with the table over that without, of the leg that gains least."""
        tracking = self.outcome.tracking
        return float((tracking["feedforward"].rms / tracking["validation"].rms).max())

    def show(self, console: Console) -> None:
        outcome = self.outcome
        table = Table(
            title=f"{self.robot.label}: RMS residuals on motion 2, identified on motion 1; table against the plant's "
            "truth, relative; tracking error along motion 2, RMS and largest, without and with the table",
            title_justify="left",
        )
        table.add_column("leg")
        headings = (
            *("force\n[N]", "current\n[A]", "\nrel.", "table\nerror"),
            *("RMS\n[mm]", "with\ntable", "most\n[mm]", "with\ntable"),
        )
        for heading in headings:
            table.add_column(heading, justify="right")
        forces, currents = outcome.forces_validation, outcome.drives_validation
        without, fed = outcome.tracking["validation"], outcome.tracking["feedforward"]
        for leg in range(6):
            table.add_row(
                str(leg + 1),
                f"{forces['rms_moving'][leg]:.2f}",
                f"{currents['rms_moving'][leg]:.3f}",
                f"{currents['relative_moving'][leg]:.3f}",
                f"{self.truth.relative[leg]:.3f}",
                *(f"{1e3 * v[leg]:.3f}" for v in (without.rms, fed.rms, without.largest, fed.largest)),
            )
        console.print(table)
        samples, lost = account_of(outcome.recordings)
        document, excitation = outcome.forces["document"], outcome.designs["excitation"]
        console.print(
            f"{samples} samples recorded, {lost} lost; cond(K_b) {excitation['condition_number']:.1f} as designed "
            f"({excitation['candidates']} candidates); {len(document['base_parameters'])} base parameters; feedforward "
            f"table version {outcome.table['version']}, {outcome.table['samples']} rows"
        )
        console.print(
            f"found less true, largest: tare {_largest(self.truth.tare):.2f} N, sensor gain "
            f"{100 * _largest(self.truth.gain):.2f} %, drive gain {100 * _largest(self.truth.drive_gain):.2f} %"
        )

    def to_document(self) -> dict[str, Any]:
        outcome = self.outcome
        samples, lost = account_of(outcome.recordings)
        return {
            "base_parameters": len(outcome.forces["document"]["base_parameters"]),
            "condition_number": outcome.designs["excitation"]["condition_number"],
            "samples_recorded": samples,
            "samples_lost": lost,
            "designs": outcome.designs,
            "calibration": outcome.calibration,
            "forces_validation": outcome.forces_validation,
            "drives": outcome.drives_found,
            "drives_validation": outcome.drives_validation,
            "tracking": {name: tracking.to_document() for name, tracking in outcome.tracking.items()},
            "truth": {name: list(value) for name, value in vars(self.truth).items()},
            "motions": outcome.motions,
            "recordings": outcome.recordings,
            "results": {"forces": outcome.forces, "currents": outcome.drives},
            "table": outcome.table,
            "loaded": outcome.loaded,
        }


def _held_out(what: str, validation: dict[str, Any]) -> Check:
    worst = max(validation["relative_moving"], default=np.inf)
    return Check(
        f"relative residual of {what} on the second motion",
        bool(validation["passed"]) and worst <= CRITERIA[what],
        f"worst leg {worst:.4f}, allowed {CRITERIA[what]}",
    )


def _largest(values: tuple[float, ...]) -> float:
    return max(map(abs, values))
