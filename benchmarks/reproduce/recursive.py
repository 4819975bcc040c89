"""Source E on virtual UR10e arms: the stream against the batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.reproduce.table import Section
from benchmarks.virtual_arms import ur10e
from core.excitation.catalogue import catalogue as ready_made
from core.pipelines.published import identify_by


def run(seeds: Sequence[int]) -> Section:
    section = Section(
        "E: recursive and sequential least squares on a six-axis arm (`recursive_six_axis`)",
        "Virtual UR10e with presliding, Stribeck and power-law friction; forgetting factor 0.9999. Against batch least "
        "squares on the same rows; RMS while moving, N·m, of the held-out motion.",
    )
    figures: dict[str, list[float]] = {}
    for seed in seeds:
        arm = ur10e(seed, stribeck=True, presliding=True)
        train = [arm.play("excitation", ready_made("ur10e_excitation"), every=2)]
        held_out = [arm.play("validation", ready_made("ur10e_validation"), every=2)]
        result = identify_by("recursive_six_axis", arm.known, train, held_out)
        for way, against in result.account["against_batch"].items():
            ratio = against["rms_moving"]["validation"] / against["rms_moving_batch"]["validation"]
            figures.setdefault(f"{way}: parameter error, %", []).append(100.0 * against["parameter_error"])
            figures.setdefault(f"{way}: held-out residual to that of the batch", []).append(ratio)
        energy = result.train.energy
        assert energy is not None
        figures.setdefault("work modelled less measured, largest share of turnover, %", []).append(
            float(100.0 * np.abs(energy.relative).max())
        )
    published = {
        "recursive: parameter error, %": "< 5",
        "work modelled less measured, largest share of turnover, %": "< 1",
    }
    for name, values in figures.items():
        section.add(name, values, published.get(name, ""))
    section.remarks.append(
        "Sequential identification freezes what a joint further out has decided, so errors of friction there are "
        "carried inward: it is a cross-check, not an estimate to prefer."
    )
    return section
