"""``dynid excite`` for robots of other kinds than the catalogue's: seven joints, and slides."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from core.errors import InputError
from core.excitation import check_motion, trajectory_from_definition
from core.excitation.design import SEGMENTS
from core.excitation.families import FAMILIES, FREE
from core.excitation.limits import read_limits
from core.models import SerialChain, load
from service.cli import app

LINK = """
  <link name="link{j}"><inertial>
    <origin xyz="0.02 0.01 0.12"/><mass value="{mass}"/>
    <inertia ixx="0.03" ixy="0.001" ixz="0" iyy="0.025" iyz="0" izz="0.01"/>
  </inertial></link>
  <joint name="joint{j}" type="{kind}">
    <parent link="{parent}"/><child link="link{j}"/><origin xyz="{x} 0 {z}" rpy="{roll} 0 0"/><axis xyz="0 0 1"/>
    <limit lower="-2.5" upper="2.5" effort="200" velocity="2"/>
  </joint>"""


def urdf(file: Path, kinds: str) -> Path:
    """Write an arm of turning (t) and sliding (s) joints, each axis across the one before."""
    links = [
        LINK.format(
            j=j,
            kind="revolute" if kind == "t" else "prismatic",
            parent="base" if j == 1 else f"link{j - 1}",
            mass=8.0 / j,
            x=0.0 if j % 2 else 0.05,
            z=0.3 if j % 2 else 0.0,
            roll=0.0 if j == 1 else np.pi / 2 * (-1) ** j,
        )
        for j, kind in enumerate(kinds, 1)
    ]
    file.write_text(f'<robot name="arm"><link name="base"/>{"".join(links)}</robot>')
    return file


def run(*words: object) -> str:
    answer = CliRunner().invoke(app, ["excite", *(str(word) for word in words)], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return answer.output


def checked(result: Path, model: SerialChain, limits: Path, *, in_motion: bool = False) -> dict[str, object]:
    document: dict[str, object] = json.loads(result.read_text())
    bounds = read_limits(limits, model)
    joints = {name: getattr(bounds.joints, name) for name in bounds.joints.names()}
    samples = trajectory_from_definition(document["trajectory"]).sample(0.001)  # type: ignore[arg-type]
    check_motion(samples, model.with_limits(**joints), bounds.workspace, in_motion=in_motion)
    return document


def test_seven_joints_with_torque_limits_and_self_collision(tmp_path: Path) -> None:
    file, limits, result = urdf(tmp_path / "seven.urdf", "ttttttt"), tmp_path / "limits.toml", tmp_path / "out.json"
    limits.write_text(
        "start = [0, 0.6, 0, 1.2, 0, 0.5, 0]\nvelocity = [2, 2, 2, 2, 2, 2, 2]\nacceleration = [4, 4, 4, 4, 4, 4, 4]\n"
        "torque = [80, 80, 60, 60, 20, 20, 10]\nself_collision = 0.0\n"
    )
    run(
        "--model", file, "--limits", limits, "--harmonics", 2, "--period", 8, "--time-budget", 1,
        "--rotor-inertia", "--friction", "stribeck", "--json", result,
    )  # fmt: skip
    document = checked(result, load(file), limits)
    columns = document["columns"]
    assert {"Ia7", "fs1", "fv7", "b7"} <= set(columns)  # type: ignore[call-overload]
    margins = document["margins"]
    assert set(margins["predicted torque"]["units"]) == {"N·m"}  # type: ignore[index]
    assert margins["jerk"]["least"] == [None] * 7  # type: ignore[index]
    assert min(margins["predicted torque"]["least"]) >= 0.0  # type: ignore[index]


def test_slides_have_their_own_units(tmp_path: Path) -> None:
    file, limits, result = urdf(tmp_path / "slides.urdf", "stst"), tmp_path / "limits.toml", tmp_path / "out.json"
    text = "start = [0.1, 0, 0.2, 0]\nvelocity = [0.5, 2, 0.5, 2]\nacceleration = [2, 5, 2, 5]\n"
    limits.write_text(f"{text}position_lower = [-0.3, -2, -0.3, -2]\nposition_upper = [0.5, 2, 0.5, 2]\n")
    run(
        "--model", file, "--limits", limits, "--harmonics", 2, "--period", 6, "--time-budget", 0.5,
        "--json", result,
    )  # fmt: skip
    document = checked(result, load(file), limits)
    assert document["margins"]["speed"]["units"] == ["m/s", "rad/s", "m/s", "rad/s"]  # type: ignore[index]
    limits.write_text(text.replace("start =", "start_deg ="))
    with pytest.raises(InputError, match=r"start_deg: joint 1 \(joint1\) slides"):
        run("--model", file, "--limits", limits)


@pytest.mark.parametrize("family", [*FAMILIES, SEGMENTS])
@pytest.mark.parametrize("criterion", ["cond", "cond_normalised", "d_optimal", "a_optimal", "coman"])
def test_every_family_with_every_criterion(family: str, criterion: str, tmp_path: Path) -> None:
    file, limits, result = urdf(tmp_path / "small.urdf", "ttt"), tmp_path / "limits.toml", tmp_path / "out.json"
    limits.write_text("start = [0, 0.6, 0]\nvelocity = [2, 2, 2]\nacceleration = [4, 4, 4]\n")
    table = tmp_path / "out.csv"
    run(
        "--model", file, "--limits", limits, "--harmonics", 3, "--period", 4, "--time-budget", 0.2,
        "--segments", 2, "--family", family, "--criterion", criterion, "--json", result, "--samples", table,
    )  # fmt: skip
    document = checked(result, load(file), limits, in_motion=family == FREE)
    trajectory = trajectory_from_definition(document["trajectory"])  # type: ignore[arg-type]
    assert trajectory.family == {SEGMENTS: "segments", FREE: "fourier"}.get(family, family)  # type: ignore[attr-defined]
    assert (document["criterion"], document["seed"]) == (criterion, 0)
    assert np.isfinite([document["value"], document["condition_number"], document["seconds"]]).all()  # type: ignore[list-item]
    rows = np.loadtxt(table, delimiter=",", skiprows=1)
    assert rows.shape == (round(trajectory.duration / 0.001) + 1, 10)
