"""Source A on the virtual arm of the COMAN R5's class."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from benchmarks.reproduce.table import Section, change
from benchmarks.virtual_arms import VirtualArm, coman
from core.excitation.catalogue import catalogue as ready_made
from core.excitation.design import DesignSettings, design
from core.excitation.limits import DesignLimits, limits_from_document
from core.pipelines.identify import identify
from core.pipelines.published import identify_by, published_method
from core.validation import ValidationReport

LIMITS = {
    "position_lower_deg": [-170, -90, -110, -120, -120, -170],
    "position_upper_deg": [170, 90, 130, 120, 120, 170],
    "start": [0.0, 0.0, 1.2, 0.3, 0.9, 0.0],
    "velocity": [1.8, 1.5, 1.8, 2.5, 2.5, 2.5],
    "acceleration": [3.0, 2.5, 3.5, 5.0, 5.0, 5.0],
}
MOTIONS = 4
SEGMENTS = 3
CHOSEN = "layers 1 and 2, friction of the core by leave-one-recording-out"
"""Beyond the source: friction with memory and gear ripple, orders found in the residual, chosen on training alone."""
BUDGET = 3.0
"""s of one processor, for each trajectory or segment."""


def run(seeds: Sequence[int]) -> Section:
    section = Section(
        "A: three layers on an arm of the COMAN R5's class (`coman_three_layer`)",
        "The arm ripples, gives way, sticks and is noisy (`drivers/virtual/coman_r5/robot.py`). Trained on "
        f"{MOTIONS} motions of 20 s, judged on the catalogue's validation; RMS while moving, mean over joints, mA.",
    )
    _excitation(section, seeds)
    _layers(section, seeds)
    return section


def _excitation(section: Section, seeds: Sequence[int]) -> None:
    """Compare the condition number of the column-normalised regressor, without friction columns.

    All cases minimise that figure, or the block criterion made of it, in the same time.
    """
    model = coman(0).model
    limits = limits_from_document(LIMITS, model)
    cases = {
        "one trajectory": ("329", "cond_normalised", 1),
        "iterated": ("275", "cond_normalised", SEGMENTS),
        "iterated, block criterion": ("193", "coman", SEGMENTS),
    }
    found: dict[str, list[float]] = {}
    for name, (published, criterion, segments) in cases.items():
        found[name] = [
            design(
                model,
                limits,
                DesignSettings(
                    family="fourier_segments",
                    period=10.0,
                    segments=segments,
                    criterion=criterion,
                    time_budget=BUDGET * SEGMENTS,
                    seed=seed,
                ),
                clock=time.process_time,
            ).condition_number_normalised
            for seed in seeds
        ]
        section.add(f"condition number, {name}", found[name], published)
    ratio = np.divide(found["iterated, block criterion"], found["one trajectory"])
    section.add("ratio, last to first", ratio.tolist(), f"{193 / 329:.3f}")


def _layers(section: Section, seeds: Sequence[int]) -> None:
    limits = limits_from_document(LIMITS, coman(0).model)
    held_out, trained = {}, {}
    alternations, components = [], []
    for seed in seeds:
        arm = coman(seed)
        train, validate = _recordings(arm, limits)
        for name, estimator in (("least squares", "ols"), ("iterated weighted (IRLS)", "irls")):
            plain = identify(arm.known, train, validate, estimator=estimator, friction="coulomb_viscous")
            _note(held_out, name, plain.validation, arm)
            _note(trained, name, plain.train, arm)
        for name, settings in (
            ("layers 1 and 2, low speeds first", {}),
            ("layers 1 and 2, both regimes together", {"regimes": "together"}),
            ("layer 1 alone", {"friction": "coulomb_viscous"}),
            (CHOSEN, {"friction": "auto"}),
        ):
            result = identify_by(published_method("coman_three_layer", **settings), arm.known, train, validate)
            compensated = result.compensated
            assert compensated is not None
            _note(held_out, name, result.identification.validation, arm)
            _note(trained, name, result.identification.train, arm)
            _note(held_out, f"{name}, and layer 3", compensated.validation, arm)
            _note(trained, f"{name}, and layer 3", compensated.train, arm)
            if not settings:
                alternations.append(result.account["alternations"])
                components += result.account["components"]
    published = {
        "least squares": "9.53",
        "iterated weighted (IRLS)": "9.32",
        "layers 1 and 2, low speeds first, and layer 3": "6.14",
    }
    for where, figures in (("held out", held_out), ("training", trained)):
        for name, values in figures.items():
            section.add(f"{where}: {name}", values, published.get(name, ""))
        full = change(figures["least squares"], figures["layers 1 and 2, low speeds first, and layer 3"])
        section.add(f"{where}: full method to least squares, %", full, "-36")
        ours = change(figures["least squares"], figures[f"{CHOSEN}, and layer 3"])
        section.add(f"{where}: with friction of the core to least squares, %", ours, "(-36)")
    best = min((name for name in held_out), key=lambda name: float(np.mean(held_out[name])))
    section.remarks += [
        "The condition numbers are of columns of length one, which is what all three cases minimise, in the same time. "
        "That figure knows no amplitude: trained on such segments, least squares left 49 to 86 mA of the validation "
        "instead of 12, so the layers are not trained on them.",
        "The motions that train are a choice made after two others: on the catalogue's single motion of 20 s layer 3 "
        "over-fitted (seed 1: held out 17.6 -> 18.6 mA), and on the segments above everything was poor.",
        "As published, -36 % is reached in training and not on held-out motion: the mixture learns position torques "
        "only where it was trained, and ripple at 202 cycles per turn is beyond any mixture of this size. With "
        "friction `auto`, which is chosen by leaving training recordings out in turn and finds the gear's order in the "
        "residual, it is reached without layer 3, and layer 3 adds to it.",
        f"Least on held-out motion: {best}.",
        f"Layers 1 and 2 settled after {alternations} alternations; BIC took {min(components)} to {max(components)} "
        "components.",
        "The published figures do not say whether they are of the training motion or of another; the reduction is "
        "to be compared with both blocks above.",
    ]


def _recordings(arm: VirtualArm, limits: DesignLimits) -> tuple[list, list]:
    motions = [
        design(
            arm.known,
            limits,
            DesignSettings(period=20.0, criterion="cond", friction="coulomb_viscous", time_budget=BUDGET, seed=seed),
            clock=time.process_time,
        ).trajectory
        for seed in range(MOTIONS)
    ]
    train = [arm.play(f"excitation {i}", motion, every=2) for i, motion in enumerate(motions)]
    return train, [arm.play("validation", ready_made("coman_r5_validation"), every=2)]


def _note(figures: dict[str, list[float]], name: str, report: ValidationReport | None, arm: VirtualArm) -> None:
    assert report is not None
    figures.setdefault(name, []).append(float(np.mean(1e3 * report.pooled["moving"].rms / arm.gains)))
