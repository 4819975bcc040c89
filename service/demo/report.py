"""What a demonstration shows: one table, one list of checks, one JSON document; here that of an arm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from rich.console import Console
from rich.table import Table

from service.demo.flow import Outcome
from service.demo.robots import DemoArm
from service.demo.truth import TruthComparison

MAX_RELATIVE_RESIDUAL = 0.25
MAX_RELATIVE_ERROR = 0.2
"""Gross errors only: the plant has Stribeck and presliding friction, which Coulomb + viscous cannot follow."""


@dataclass(frozen=True)
class Check:
    """One thing that has to hold, with what was seen."""

    name: str
    passed: bool
    seen: str


class Report(Protocol):
    """What came of a demonstration."""

    @property
    def checks(self) -> list[Check]:
        """The verdicts; the demonstration succeeds when all pass."""
        ...

    def show(self, console: Console) -> None:
        """Print the table per joint and the figures of the run."""
        ...

    def to_document(self) -> dict[str, Any]:
        """Everything that was seen, JSON-serialisable."""
        ...


def show_checks(console: Console, checks: list[Check]) -> None:
    for check in checks:
        mark = "[green]passed[/green]" if check.passed else "[red]FAILED[/red]"
        console.print(f"  {mark}  {check.name} ({check.seen})")


def account_of(recordings: dict[str, dict[str, Any]]) -> tuple[int, int]:
    """Return how many samples were recorded, and how many were lost."""
    samples = sum(int(r["samples"]) for r in recordings.values())
    return samples, sum(int(r["lost"]) + int(r["lapped"]) for r in recordings.values())


@dataclass(frozen=True)
class ArmReport:
    """Of an arm: see `Report`."""

    outcome: Outcome
    robot: DemoArm
    truth: TruthComparison

    @property
    def checks(self) -> list[Check]:
        return _checks(self.outcome, self.robot, self.truth)

    def show(self, console: Console) -> None:
        _show(console, self.outcome, self.robot, self.truth)

    def to_document(self) -> dict[str, Any]:
        return _as_document(self.outcome, self.truth)


def _checks(outcome: Outcome, robot: DemoArm, truth: TruthComparison) -> list[Check]:
    _, lost = account_of(outcome.recordings)
    outcomes = [m["outcome"] for m in outcome.motions.values()]
    validation = outcome.validation
    worst_residual = max(validation["relative_moving"], default=np.inf)
    document = outcome.result["document"]
    count = len(document["base_parameters"])
    worst_error = max(truth.relative)
    return [
        Check("both motions completed", outcomes == ["completed"] * 2, ", ".join(outcomes)),
        Check("no sample lost", lost == 0, f"{lost} lost"),
        Check("base parameters", count == robot.base_parameters, f"{count}, expected {robot.base_parameters}"),
        Check(
            "relative residual on the second motion, moving",
            bool(validation["passed"]) and worst_residual <= MAX_RELATIVE_RESIDUAL,
            f"worst joint {worst_residual:.3f}, allowed {MAX_RELATIVE_RESIDUAL}",
        ),
        Check(
            "predicted torque against the plant's truth",
            worst_error <= MAX_RELATIVE_ERROR,
            f"worst joint {worst_error:.3f}, allowed {MAX_RELATIVE_ERROR}",
        ),
        Check(
            "table equal as JSON, CSV and float32",
            outcome.formats_agree,
            f"crc32 {outcome.table['crc32']:08x}",
        ),
        Check(
            "a disarmed robot does not move",
            outcome.refused_while_disarmed == "robot-disarmed",
            outcome.refused_while_disarmed or "accepted",
        ),
        Check(
            "no table from an unvalidated result",
            outcome.refused_unvalidated == "result-not-validated",
            outcome.refused_unvalidated or "accepted",
        ),
    ]


def _show(console: Console, outcome: Outcome, robot: DemoArm, truth: TruthComparison) -> None:
    document, validation = outcome.result["document"], outcome.validation
    table = Table(
        title=f"{robot.label}: torque residual [N·m] and relative to the torque, identified on motion 1, judged on "
        "motion 2; served table against the plant's truth",
        title_justify="left",
    )
    table.add_column("joint")
    for heading in ("motion 1\nRMS", "\nrelative", "motion 2\nRMS", "\nrelative", "table\nerror", "\nrelative"):
        table.add_column(heading, justify="right")
    train = document["train"]
    for joint, name in enumerate(document["model"]["joint_names"]):
        figures = (
            train["rms"][joint],
            train["relative"][joint],
            validation["rms_moving"][joint],
            validation["relative_moving"][joint],
            truth.rms[joint],
            truth.relative[joint],
        )
        table.add_row(f"{joint + 1} {name.removesuffix('_joint')}", *(f"{figure:.3f}" for figure in figures))
    console.print(table)
    samples, lost = account_of(outcome.recordings)
    console.print(
        f"{len(document['base_parameters'])} base parameters, condition number {document['condition_number']:.1f} "
        f"({document['normalised_condition_number']:.1f} with columns of length one); "
        f"{samples} samples recorded, {lost} lost; feedforward table version {outcome.table['version']}, "
        f"{outcome.table['samples']} rows"
    )


def _as_document(outcome: Outcome, truth: TruthComparison) -> dict[str, Any]:
    document = outcome.result["document"]
    samples, lost = account_of(outcome.recordings)
    return {
        "base_parameters": len(document["base_parameters"]),
        "condition_number": document["condition_number"],
        "normalised_condition_number": document["normalised_condition_number"],
        "samples_recorded": samples,
        "samples_lost": lost,
        "train": document["train"],
        "validation": outcome.validation,
        "truth": {"rms": list(truth.rms), "relative": list(truth.relative)},
        "motions": outcome.motions,
        "recordings": outcome.recordings,
        "result": outcome.result,
        "table": outcome.table,
    }
