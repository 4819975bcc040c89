"""What ``dynid identify`` shows of a result: errors, friction, certainty, what to beware of, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from core.estimators.essential import EssentialParameters
    from core.pipelines.identification import Identification

_COLOURS = {"good": "green", "usable": "yellow", "poor": "red"}


def show(
    console: Console,
    result: Identification,
    document: Mapping[str, Any],
    essential: EssentialParameters | None,
) -> None:
    """Print a result; ``document`` is its own."""
    _show_errors(console, result, document)
    _show_friction(console, document)
    _show_certainty(console, document)
    if essential is not None:
        console.print(f"essential parameters ({len(essential.kept)}): {', '.join(essential.kept)}", markup=False)
        dropped = ", ".join(essential.dropped) or "none"
        console.print(f"might as well be zero, by F-tests (p = {essential.p_value:.2f}): {dropped}", markup=False)
    for warning in document["warnings"]:
        console.print(Text.assemble(("note: ", "yellow"), warning))
    verdict = result.verdict
    console.print(Text.assemble("verdict: ", (verdict.grade, _COLOURS[verdict.grade]), f", {verdict.reasons}"))


def _show_errors(console: Console, result: Identification, document: Mapping[str, Any]) -> None:
    unit = document["unit"]
    table = Table(
        title=f"{result.model.name}: {len(document['base_parameters'])} base parameters, {result.conditioning}"
    )
    table.add_column("joint")
    columns = {"train\nRMS, all": document["train"]["rms"]}
    if document["cross_validation"]:
        scheme = document["cross_validation"]["scheme"]
        columns[f"left-out {scheme}\nRMS, moving"] = document["cross_validation"]["rms_moving"]
    if document["validate"]:
        columns["held out\nRMS, all"] = document["validate"]["rms_all"]
        columns["held out\nRMS, moving"] = document["validate"]["rms_moving"]
    for name in columns:
        table.add_column(f"{name} [{unit}]", justify="right")
    for joint, name in enumerate(result.model.joint_names):
        figures = (_figure(values[joint]) for values in columns.values())
        table.add_row(f"{joint + 1} {name.removesuffix('_joint')}", *figures)
    table.add_section()
    table.add_row("mean", *(_figure(_mean(values)) for values in columns.values()))
    console.print(table)


def _show_friction(console: Console, document: Mapping[str, Any]) -> None:
    if document["friction_selection"]:
        table = Table(title=f"friction by the error on left-out {document['friction_selection']['scheme']}s")
        table.add_column("composition")
        table.add_column(f"mean RMS, moving [{document['unit']}]", justify="right")
        for row in document["friction_selection"]["candidates"]:
            table.add_row(row["friction"], _figure(row["mean_rms_moving"]))
        console.print(table)
    for composition in dict.fromkeys(document["friction_composition"]):
        console.print(f"friction: {composition}", markup=False)
    shares = (document["validate"] or document["train"])["standing_within_friction"]
    console.print(
        "standing samples within predicted friction: " + " ".join("-" if s is None else f"{s:.0%}" for s in shares)
    )


def _show_certainty(console: Console, document: Mapping[str, Any]) -> None:
    where = "held-out" if document["validate"] else "training"
    band = (document["validate"] or document["train"])["confidence_band"]
    figures = " ".join(_figure(value) for value in band)
    console.print(f"95 % confidence band of the expected torque on {where} motion: ± {figures} {document['unit']}")
    delay = document["provenance"]["effort_delay"]
    if delay is not None:
        lags = " ".join(f"{1e3 * s:.1f}±{1e3 * std:.1f}" for s, std in zip(delay["seconds"], delay["std"], strict=True))
        gain = max(0.0, *delay["gain"])
        console.print(
            f"torque lags position by {lags} ms; taking that out would lower the residual by at most {gain:.1%}"
        )
        bound = [joint for joint, reached in enumerate(delay.get("at_bound", []), 1) if reached]
        if bound:
            console.print(
                f"joints {', '.join(map(str, bound))}: that is the longest delay looked for; it may be longer, or "
                "the columns of position and torque are of different joints"
            )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
