"""The exported C function, compiled and compared with the prediction it stands for."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from core.dynamics.base_parameters import reduce_to_base
from core.errors import InputError
from core.export.c_friction import REMEMBERING
from core.export.c_header import c_header
from core.friction import friction_model
from core.models import SerialChain
from core.models.urdf import parse_urdf
from core.pipelines.identification import Identification
from core.pipelines.identify import identify

MAIN = """\
#include <stdio.h>
#include "torque.h"
int main(void)
{
    double s[3 * %(n)d], torque[%(n)d];
    %(start)s
    while (fread(s, sizeof s, 1, stdin) == 1) {
        %(prefix)s_torque(%(state)s s, s + %(n)d, s + 2 * %(n)d, torque);
        fwrite(torque, sizeof torque, 1, stdout);
    }
    return 0;
}
"""
COMPOSITIONS = [
    "coulomb_viscous",
    "power_viscous(alpha=0.6)+load(1, width=0.05)",
    "two_regime_cubic(threshold=0.3)+ripple(50, 202, load)",
    "arctan(f4=7.0)+load(2, drive, width=0.03)+hysteresis(load)",
    "stribeck(vs=0.1, d=1.5)+hysteresis(plain)+warmup(time_constant=20.0)",
]
PRISMATIC = """\
<robot name="3 axes"><link name="a"/><link name="b"/><link name="c"/><link name="d"/>
<joint name="lift" type="prismatic"><parent link="a"/><child link="b"/><axis xyz="0.6 0 0.8"/>
<origin xyz="0.1 0.2 0.3" rpy="0.1 0.2 0.3"/><limit lower="-1" upper="1" velocity="1" effort="1"/></joint>
<joint name="turn" type="continuous"><parent link="b"/><child link="c"/><axis xyz="0 1 0"/>
<origin xyz="0.2 0.1 0.3" rpy="1 0 0.5"/></joint>
<joint name="push" type="prismatic"><parent link="c"/><child link="d"/><axis xyz="1 0 0"/>
<origin xyz="0.3 0.1 0" rpy="0 0 1"/><limit lower="-1" upper="1" velocity="1" effort="1"/></joint>
</robot>"""


@pytest.fixture(scope="module")
def result(robot) -> Identification:
    return identify(robot.model, [robot.record(1, seconds=12.0, noise=0.5)], gains=robot.gains)


def compiled(
    header: str, folder: Path, motion: tuple[np.ndarray, ...], *, period: float | None = None, prefix: str = "ur10e"
) -> np.ndarray:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no gcc on this machine to compile the exported function")
    n = motion[0].shape[1]
    state = "" if period is None else "&state,"
    start = "" if period is None else f"{prefix}_state state; {prefix}_start(&state, {period!r});"
    (folder / "torque.h").write_text(header)
    (folder / "main.c").write_text(MAIN % {"n": n, "prefix": prefix, "state": state, "start": start})
    strict = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O2"]
    subprocess.run([compiler, *strict, "main.c", "-o", "main", "-lm"], cwd=folder, check=True)
    samples = np.concatenate(motion, axis=1)
    answer = subprocess.run([folder / "main"], input=samples.tobytes(), capture_output=True, check=True)
    return np.frombuffer(answer.stdout).reshape(-1, n)


def with_friction(result: Identification, chain: SerialChain, specification: str) -> Identification:
    """Return a result with arbitrary parameters, so uncertain ones, of another chain and friction."""
    base, friction = reduce_to_base(chain), friction_model(specification, chain.n_joints)
    values = np.random.default_rng(4).normal(size=base.count + len(friction.names))
    uncertain = 100.0 * np.eye(values.size)
    return replace(result, model=chain, base=base, friction=friction, parameters_=values, covariance_=uncertain)


def test_the_compiled_function_gives_the_predicted_torque(robot, result, tmp_path):
    motion = robot.motion(np.linspace(0.0, 20.0, 300), 9)
    torque = compiled(c_header(result), tmp_path, motion)
    assert torque == pytest.approx(result.predict(*motion, smooth=True), rel=0.0, abs=1e-9)


@pytest.mark.parametrize("specification", COMPOSITIONS)
def test_every_friction_has_the_same_torque_in_c(robot, result, tmp_path, specification):
    other = with_friction(result, robot.model, specification)
    period = 0.004
    motion = robot.motion(np.arange(500) * period, 9)
    motion[1][::10] *= 0.001  # near reversals, where friction is smooth
    remembers = any(term in specification for term in REMEMBERING)
    torque = compiled(c_header(other), tmp_path, motion, period=period if remembers else None)
    predicted = other.predict(*motion, period=period, smooth=True)
    assert torque == pytest.approx(predicted, rel=1e-11, abs=1e-9)


def test_prismatic_joints_and_slanted_axes_compile_too(result, tmp_path):
    chain = parse_urdf(PRISMATIC.encode(), "x.urdf").with_gravity([1.0, -2.0, -9.0])
    other = with_friction(result, chain, "coulomb_viscous")
    motion = tuple(np.random.default_rng(5).uniform(-1.0, 1.0, (3, 50, 3)))
    torque = compiled(c_header(other), tmp_path, motion, prefix="robot_3_axes")
    assert torque == pytest.approx(other.predict(*motion, smooth=True), rel=0.0, abs=1e-9)


def test_friction_without_a_form_in_c_is_refused(robot, result):
    elastic = with_friction(result, robot.model, "coulomb_viscous+elasticity")
    with pytest.raises(
        InputError, match="friction 'elasticity' has no form in C; there are coulomb_viscous"
    ) as refusal:
        c_header(elastic)
    assert refusal.value.code == "export-unsupported"
