"""What the demonstration shows: one table, one list of checks, one JSON document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from service.demo.flow import Outcome
from service.demo.robots import DemoRobot
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


def checks(outcome: Outcome, robot: DemoRobot, truth: TruthComparison) -> list[Check]:
    """Judge the outcome; the demonstration succeeds when all pass."""
    lost = sum(int(r["lost"]) + int(r["lapped"]) for r in outcome.recordings.values())
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


def show(console: Console, outcome: Outcome, robot: DemoRobot, truth: TruthComparison, verdicts: list[Check]) -> None:
    """Print the table per joint, the figures of the run, and the checks."""
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
    samples = sum(int(r["samples"]) for r in outcome.recordings.values())
    lost = sum(int(r["lost"]) + int(r["lapped"]) for r in outcome.recordings.values())
    console.print(
        f"{len(document['base_parameters'])} base parameters, condition number {document['condition_number']:.1f} "
        f"({document['normalised_condition_number']:.1f} with columns of length one); "
        f"{samples} samples recorded, {lost} lost; feedforward table version {outcome.table['version']}, "
        f"{outcome.table['samples']} rows"
    )
    for check in verdicts:
        mark = "[green]passed[/green]" if check.passed else "[red]FAILED[/red]"
        console.print(f"  {mark}  {check.name} ({check.seen})")


def as_document(
    outcome: Outcome, robot: DemoRobot, truth: TruthComparison, verdicts: list[Check], seconds: float, seed: int
) -> dict[str, Any]:
    """Everything the demonstration saw, JSON-serialisable."""
    document = outcome.result["document"]
    return {
        "passed": all(check.passed for check in verdicts),
        "seconds": seconds,
        "robot": robot.key,
        "seed": seed,
        "base_parameters": len(document["base_parameters"]),
        "condition_number": document["condition_number"],
        "normalised_condition_number": document["normalised_condition_number"],
        "samples_recorded": sum(int(r["samples"]) for r in outcome.recordings.values()),
        "samples_lost": sum(int(r["lost"]) + int(r["lapped"]) for r in outcome.recordings.values()),
        "train": document["train"],
        "validation": outcome.validation,
        "truth": {"rms": list(truth.rms), "relative": list(truth.relative)},
        "checks": [{"name": c.name, "passed": c.passed, "seen": c.seen} for c in verdicts],
        "motions": outcome.motions,
        "recordings": outcome.recordings,
        "result": outcome.result,
        "table": outcome.table,
    }
