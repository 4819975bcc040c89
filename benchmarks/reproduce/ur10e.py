"""Source B on virtual UR10e arms whose viscous friction grows with a power of the speed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from benchmarks.excitation import LIMITS, LIVELY
from benchmarks.reproduce.table import Section, change
from benchmarks.virtual_arms import ur10e
from core.excitation.catalogue import catalogue as ready_made
from core.excitation.design import DesignSettings, design
from core.excitation.limits import limits_from_document
from core.models import catalogue, serial_chain
from core.pipelines.identify import identify
from core.pipelines.published import identify_by, mean_moving, published_method

BUDGET = 20.0
"""s of one processor for the genetic algorithm."""
REFINEMENT = 5.0
"""s of one processor for what the interior-point method makes of that."""
ARMS = {
    "exact": ("the power law alone", {"stribeck": False, "presliding": False}),
    "full": ("with presliding and Stribeck", {"stribeck": True, "presliding": True}),
}


def run(seeds: Sequence[int]) -> Section:
    section = Section(
        "B: power-law viscous friction on a UR10e (`ur10e_power_friction`)",
        "Exponents are drawn from 0.4 to 0.7, joint by joint. Excitation and validation: the catalogue's, 20 s each. "
        "RMS while moving, of the validation, mean over joints, N·m.",
    )
    _excitation(section, seeds)
    for label, options in ARMS.values():
        _friction(section, seeds, label, options)
    section.remarks += [
        "With presliding the torque near every reversal is less than any law of the speed says, and Stribeck friction "
        "more; both move the exponent, though the prediction improves all the same. An exponent is a property of the "
        "fit there, not of the joint. Variable projection finds similar exponents, so this is not the search's fault.",
        "0.05 is reached by joints 1 to 3 of the arm without presliding and Stribeck, which was added because nothing "
        "was recovered on the full one; by the wrists on neither, for a reason that is not known yet.",
        "The genetic algorithm alone does not reach 90, in a minute no more than in this time: its population gathers "
        "before. The interior-point method does, from the algorithm's best or from anywhere, see the README.",
    ]
    return section


def _excitation(section: Section, seeds: Sequence[int]) -> None:
    model = serial_chain(catalogue("ur10e", rotor_inertia=True), "this report")
    limits = limits_from_document({**LIMITS, **LIVELY}, model)
    settings = DesignSettings(
        period=12.0, optimizer="genetic", criterion="cond", friction="coulomb_viscous", time_budget=BUDGET
    )
    bred = [design(model, limits, replace(settings, seed=s), clock=time.process_time) for s in seeds]
    refined = replace(settings, optimizer="interior_point", time_budget=REFINEMENT)
    found = [
        design(model, limits, replace(refined, seed=s), warm_start=one.trajectory, clock=time.process_time)
        for s, one in zip(seeds, bred, strict=True)
    ]
    name = f"condition number of 58 columns, T = 12 s, genetic algorithm, {BUDGET:g} s"
    section.add(name, [one.condition_number for one in bred], "90.78")
    section.add(f"{name}, then interior point, {REFINEMENT:g} s", [one.condition_number for one in found], "(<= 90)")


def _friction(section: Section, seeds: Sequence[int], label: str, options: dict[str, bool]) -> None:
    plain, powered, seconds, errors = [], [], {}, {}
    for seed in seeds:
        arm = ur10e(seed, **options)
        train = [arm.play("excitation", ready_made("ur10e_excitation"), every=2)]
        held_out = [arm.play("validation", ready_made("ur10e_validation"), every=2)]
        method = published_method("ur10e_power_friction")
        ls = identify(arm.known, train, held_out, estimator="ols", signals=method.signals)
        plain.append(mean_moving(ls.validation))
        truth = arm.parameters.friction.exponent
        for search in ("alternating", "variable_projection"):
            began = time.process_time()
            result = identify_by(published_method(method.name, search=search), arm.known, train, held_out)
            seconds.setdefault(search, []).append(time.process_time() - began)
            errors.setdefault(search, []).append(np.abs(np.array(result.account["alpha"]) - truth))
            if search == "alternating":
                powered.append(mean_moving(result.validation))
    section.add(f"{label}: least squares, Coulomb and viscous", plain)
    section.add(f"{label}: power law", powered)
    section.add(f"{label}: change, %", change(plain, powered))
    for search, values in errors.items():
        name = search.replace("_", " ")
        section.add(
            f"{label}: error of alpha, joints 1 to 3, {name}", [float(v[:3].mean()) for v in values], "(< 0.05)"
        )
        section.add(
            f"{label}: error of alpha, joints 4 to 6, {name}", [float(v[3:].mean()) for v in values], "(< 0.05)"
        )
        section.add(f"{label}: processor time, {name}, s", seconds[search])
