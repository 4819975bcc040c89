"""The project's own model files, and that the three conventions describe the same robot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from core import models
from core.errors import ModelError
from core.models.frames import pose_from_xyz_rpy, screw_x, screw_z
from core.models.model_file import parse_model_file

HEAD = 'format = "dynid-model"\nversion = 1\nname = "arm"\n'
TYPES = ("revolute", "prismatic", "revolute", "revolute")
A = (0.3, 0.0, -0.4, 0.1)
ALPHA = (1.2, -0.7, 0.0, 1.5707963267948966)
D = (0.2, 0.5, 0.1, -0.3)
THETA = (0.4, -1.1, 0.0, 2.0)
MASS = 2.0
COM = np.array([0.1, -0.2, 0.05])
INERTIA = np.array([[0.5, 0.02, -0.01], [0.02, 0.4, 0.03], [-0.01, 0.03, 0.6]])


def inertial(to_frame: np.ndarray) -> str:
    """The same body, its frame's pose in the wanted link frame being ``to_frame``."""
    turn = to_frame[:3, :3]
    com, tensor = turn @ COM + to_frame[:3, 3], turn @ INERTIA @ turn.T
    pairs = {"xx": (0, 0), "yy": (1, 1), "zz": (2, 2), "xy": (0, 1), "xz": (0, 2), "yz": (1, 2)}
    values = ", ".join(f"{name} = {float(tensor[at])}" for name, at in pairs.items())
    return f"inertial = {{ mass = {MASS}, com = {[float(c) for c in com]}, inertia = {{ {values} }} }}"


def joint(name: int, kind: str, geometry: str, to_frame: np.ndarray) -> str:
    return f'[[joints]]\nname = "j{name}"\ntype = "{kind}"\n{geometry}\n{inertial(to_frame)}\n'


def rpy(rotation: np.ndarray) -> list[float]:
    pitch = -np.arcsin(rotation[2, 0])
    roll = np.arctan2(rotation[2, 1], rotation[2, 2])
    return [float(roll), float(pitch), float(np.arctan2(rotation[1, 0], rotation[0, 0]))]


def standard() -> str:
    joints = [
        joint(i, TYPES[i], f"dh = {{ a = {A[i]}, alpha = {ALPHA[i]}, d = {D[i]}, theta = {THETA[i]} }}", np.eye(4))
        for i in range(4)
    ]
    return HEAD + 'convention = "dh"\n[base]\nxyz = [0.0, 0.0, 1.0]\nrpy = [0.3, 0.0, 0.0]\n' + "".join(joints)


def modified() -> str:
    """The robot of ``standard`` with each link frame on its own joint's axis."""
    before = [(0.0, 0.0), *zip(A, ALPHA, strict=True)]
    joints = [
        joint(
            i,
            TYPES[i],
            f"mdh = {{ a = {before[i][0]}, alpha = {before[i][1]}, d = {D[i]}, theta = {THETA[i]} }}",
            screw_x(A[i], ALPHA[i]),
        )
        for i in range(4)
    ]
    tool = f"[tool]\nxyz = [{A[3]}, 0.0, 0.0]\nrpy = [{ALPHA[3]}, 0.0, 0.0]\n"
    base = "[base]\nxyz = [0.0, 0.0, 1.0]\nrpy = [0.3, 0.0, 0.0]\n"
    return HEAD + 'convention = "mdh"\n' + base + "".join(joints) + tool


def as_urdf_convention() -> str:
    """The robot of ``standard`` with origins and axes, its base built into the first of them."""
    before, joints = pose_from_xyz_rpy((0, 0, 1), (0.3, 0, 0)), []
    for i in range(4):
        origin = before @ screw_z(D[i], THETA[i])
        xyz = [float(x) for x in origin[:3, 3]]
        geometry = f"origin = {{ xyz = {xyz}, rpy = {rpy(origin[:3, :3])} }}\naxis = [0, 0, 2]"
        before = screw_x(A[i], ALPHA[i])
        joints.append(joint(i, TYPES[i], geometry, before))
    tool = f"[tool]\nxyz = [{A[3]}, 0.0, 0.0]\nrpy = [{ALPHA[3]}, 0.0, 0.0]\n"
    return HEAD + 'convention = "urdf"\n' + "".join(joints) + tool


def read(text: str) -> models.SerialChain:
    return parse_model_file(text.encode(), "arm.toml")


@pytest.mark.parametrize("other", [modified, as_urdf_convention])
def test_conventions_describe_the_same_robot(other) -> None:  # type: ignore[no-untyped-def]
    first, second = read(standard()), read(other())
    states = np.random.default_rng(0).uniform(-2.0, 2.0, (3, 20, 4))
    np.testing.assert_allclose(first.inverse_dynamics(*states), second.inverse_dynamics(*states), atol=1e-10)
    np.testing.assert_allclose(first.mass_matrix(states[0]), second.mass_matrix(states[0]), atol=1e-10)
    tools = (chain.joint_frames(states[0])[:, -1] for chain in (first, second))
    np.testing.assert_allclose(*tools, atol=1e-10)


def test_tool_pose_is_the_product_of_denavit_hartenberg_transforms() -> None:
    q = np.array([0.3, -0.2, 1.0, 0.5])
    expected = pose_from_xyz_rpy((0, 0, 1), (0.3, 0, 0))
    for i in range(4):
        prismatic = TYPES[i] == "prismatic"
        d, theta = D[i] + prismatic * q[i], THETA[i] + (not prismatic) * q[i]
        expected = expected @ screw_z(d, theta) @ screw_x(A[i], ALPHA[i])
    np.testing.assert_allclose(read(standard()).joint_frames(q)[0, -1], expected, atol=1e-12)


MINIMAL = HEAD + 'convention = "dh"\n[[joints]]\nname = "j"\ndh = { a = 0.1, alpha = 0.0, d = 0.0 }\n'


def test_what_is_left_out_is_unlimited_unknown_or_zero() -> None:
    chain = read(MINIMAL)
    assert chain.rotor_inertia is None
    assert chain.drive_gains is None
    assert np.isinf([getattr(chain.limits, name) for name in chain.limits.names()]).all()
    np.testing.assert_array_equal(chain.inertial_parameters, np.zeros((1, 10)))


def test_load_reads_rotor_inertias_on_request(tmp_path: Path) -> None:
    file = tmp_path / "arm.toml"
    file.write_text(MINIMAL + "rotor_inertia = 0.5\ndrive_gain = 12\n")
    assert models.load(file).rotor_inertia is None
    chain = models.load(file, rotor_inertia=True)
    np.testing.assert_array_equal(chain.parameters[-1:], [0.5])
    np.testing.assert_array_equal(chain.drive_gains, [12.0])
    with pytest.raises(ModelError, match="states its tool itself"):
        models.load(file, tool="tool0")


SECOND = '[[joints]]\nname = "k"\ndh = { a = 0.1, alpha = 0.0, d = 0.0 }\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("format = ", "arm.toml: neither URDF nor TOML"),
        ('name = "x"', 'arm.toml: is no model file; it should begin with format = "dynid-model"'),
        (HEAD + 'convention = "denavit"', "arm.toml: convention: 'denavit' is none of urdf, dh, mdh"),
        (HEAD + 'convention = "dh"', "arm.toml: joints: needs at least one [[joints]] table"),
        (MINIMAL.replace("dh =", "mdh ="), "joints[1].dh: the table { a, alpha, d, theta } is missing"),
        (MINIMAL.replace("d = 0.0", "d = nan"), "joints[1].dh.d: nan is not a finite number"),
        (MINIMAL.replace(", d = 0.0", ""), "joints[1].dh.d: a number is missing"),
        (MINIMAL.replace("a = 0.1", "a = true"), "joints[1].dh.a: True is not a finite number"),
        (MINIMAL.replace("alpha = 0.0", "alpha = 90.0"), "joints[1].dh.alpha: 90 rad is more than a full turn"),
        (MINIMAL.replace("a = 0.1", "a = 612.7"), "joints[1].dh.a: 612.7 m is longer than any robot"),
        (
            MINIMAL + "inertial = { mass = 1.0, com = [0.0, -55.0, 0.0] }",
            "joints[1].inertial.com: -55 m is longer than any robot; lengths are in m, this looks like mm",
        ),
        (MINIMAL + 'type = "spherical"', "joints[1].type: 'spherical' is none of revolute, prismatic"),
        (MINIMAL + "limits = { velocty = 1 }", "joints[1].limits: unknown key 'velocty'"),
        (MINIMAL + "limits = { position = [1, 0] }", "joints[1].limits.position: the lower limit, 1, is above"),
        (MINIMAL + "limits = { jerk = -1 }", "joints[1].limits.jerk: is negative"),
        (MINIMAL + "limits = 3", "joints[1].limits: is not a table"),
        (MINIMAL + "colour = 'blue'", "joints[1]: unknown key 'colour'"),
        (MINIMAL.replace("\n[[", "\ntcp = 1\n[["), "arm.toml: unknown key 'tcp'"),
        (MINIMAL + "inertial = { mass = -1, com = [0, 0, 0] }", "joints[1].inertial.mass: is negative"),
        (MINIMAL + "inertial = { mass = 1, com = [0, 0] }", "joints[1].inertial.com: needs 3 numbers"),
        (
            MINIMAL + "inertial = { mass = 1, com = [0, 0, 0], inertia = { xx = 1, yy = 1 } }",
            "joints[1].inertial.inertia.zz: a number is missing",
        ),
        (MINIMAL + "drive_gain = 1\n" + SECOND, "joints[2].drive_gain: is missing, though other joints have it"),
        (MINIMAL.replace('name = "j"', ""), "joints[1].name: a text is missing"),
        (
            HEAD + 'convention = "urdf"\n[[joints]]\nname = "j"\naxis = [0, 0, 0]',
            "joints[1].axis: has no length",
        ),
    ],
)
def test_refusals_name_file_and_element(text: str, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        read(text)
    assert message in str(caught.value)
    assert caught.value.context["path"] == "arm.toml"


def test_resolve_takes_a_name_or_a_path(tmp_path: Path) -> None:
    assert models.resolve("ur10e", rotor_inertia=True) == models.catalogue("ur10e", rotor_inertia=True)
    file = tmp_path / "arm"
    file.write_text(MINIMAL)
    assert models.resolve(str(file)) == models.resolve(file) == models.load(file)
    with pytest.raises(ModelError, match="no robot 'ur11' in the catalogue"):
        models.resolve("ur11")
    with pytest.raises(ModelError, match="cannot be read"):
        models.resolve("ur11.urdf")


def test_binary_rubbish_is_refused() -> None:
    with pytest.raises(ModelError, match="neither URDF nor TOML"):
        parse_model_file(b"\xff\xfe\x00", "arm.toml")


def test_catalogue_knows_the_ur10e_and_names_what_it_knows() -> None:
    assert "ur10e" in models.catalogue_names()
    chain = models.catalogue("ur10e", rotor_inertia=True)
    assert chain.n_joints == 6
    assert chain.drive_gains is not None
    np.testing.assert_allclose(chain.limits.torque, [330, 330, 150, 56, 56, 56])
    # stretched out along -x at q = 0: the sum of the published lengths
    np.testing.assert_allclose(
        chain.joint_frames(np.zeros(6))[0, -1, :3, 3],
        [-0.6127 - 0.57155, -0.17415 - 0.11655, 0.1807 - 0.11985],
        atol=1e-12,
    )
    # every link is a body that can exist: positive mass, positive definite second moments
    for m, mx, my, mz, xx, xy, yy, xz, yz, zz in chain.inertial_parameters:
        tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        pseudo = np.empty((4, 4))
        pseudo[:3, :3] = np.trace(tensor) / 2 * np.eye(3) - tensor
        pseudo[3, :3] = pseudo[:3, 3] = (mx, my, mz)
        pseudo[3, 3] = m
        assert np.linalg.eigvalsh(pseudo).min() > 0
    with pytest.raises(ModelError, match=r"no robot 'ur99' in the catalogue; there are: .*ur10e") as caught:
        models.catalogue("ur99")
    assert caught.value.code == "model-unknown"
