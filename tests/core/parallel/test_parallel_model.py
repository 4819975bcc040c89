"""The 6-UPRU robot as a value: read from files, checked, immutable, comparable, storable."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.errors import InputError, ModelError
from core.models import SixUPRU, catalogue, load, model_from_document, resolve, serial_chain

FILES = Path(__file__).parents[2] / "data" / "upru"
TOML = (Path(__file__).parents[3] / "core" / "models" / "catalogue" / "upru6.toml").read_text()


def described() -> dict[str, Any]:
    content = json.loads((FILES / "A_cos.json").read_text())
    assert isinstance(content, dict)
    return content


def test_both_file_formats_give_the_same_robot() -> None:
    from_json, from_toml = load(FILES / "A_cos.json"), resolve("upru6")
    assert isinstance(from_json, SixUPRU)
    assert isinstance(from_toml, SixUPRU)
    for name in ("base_joints", "platform_joints", "base_axes", "platform_axes", "parameters", "home", "gravity"):
        np.testing.assert_array_equal(getattr(from_json, name), getattr(from_toml, name))
    assert np.all(np.isinf(from_json.limits.velocity))
    travel = from_toml.limits.position_upper - from_toml.limits.position_lower
    np.testing.assert_allclose(travel, 0.4, atol=1e-9)
    assert from_toml.limits.velocity.tolist() == [0.5] * 6
    assert (from_toml.joint_angle_limit, from_toml.condition_limit) == (0.7, 10.0)


def test_parameters_are_those_of_the_reference() -> None:
    robot, content = load(FILES / "A_cos.json"), described()
    assert isinstance(robot, SixUPRU)
    assert robot.parameter_names == tuple(content["X29"])
    np.testing.assert_allclose(robot.parameters, list(content["X29"].values()), rtol=1e-14)
    assert robot.base_parameter_names == tuple(content["Xb17"])
    np.testing.assert_allclose(robot.base_parameters, list(content["Xb17"].values()), rtol=1e-13)


def _without(*keys: str) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        for key in keys[:-1]:
            content = content[key]
        del content[keys[-1]]

    return change


def _with(value: Any, *keys: Any) -> Callable[[dict[str, Any]], None]:
    def change(content: Any) -> None:
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_without("geometry"), "geometry: the table is missing"),
        (_without("geometry", "rb1"), r"geometry.rb1: needs 6 rows of 3 numbers"),
        (_without("params", "Ic_p"), r"params.Ic_p: needs 3 rows of 3 numbers"),
        (_without("params", "mp"), r"params.mp: a number is missing"),
        (_without("home_pose"), r"home_pose: needs 6 numbers"),
        (_with([[0.0] * 3] * 5, "geometry", "B"), r"geometry.B: needs 6 rows of 3 numbers"),
        (_with([0.0] * 2, "geometry", "b_p", 4), r"geometry.b_p\[4\]: needs 3 numbers"),
        (_with(1.0, "params", "m5"), "params: unknown key 'm5'; there are Ia, Ic_p"),
        (_with(float("nan"), "params", "m", 1), r"params.m: nan is not a finite number"),
        (_with("1", "params", "lc", 0), r"params.lc: '1' is not a finite number"),
        (_with(-1.0, "params", "m", 2), r"the mass of L3 is negative \(-1\)"),
        (_with(-0.1, "params", "In", 0), r"the transverse inertia of L1 is negative \(-0.1\)"),
        (_with(-82.0, "params", "mp"), "a platform of -82 kg: no body has this mass and inertia"),
        (_with(3.0, "params", "Ic_p", 2, 2), None),
        (_with(30.0, "params", "Ic_p", 2, 2), "no body has this mass and inertia"),
        (_with(0.0, "params", "Ic_p", 0, 1), "no body has this mass and inertia"),
        (_with([0.0, 0.0, 1.00001], "geometry", "rb1", 3), "axis of leg 'leg4' in base_axes has length 1.00001, not 1"),
        (_with([0.0, 0.0, 0.0], "geometry", "rp1_p", 0), "axis of leg 'leg1' in platform_axes has length 0, not 1"),
        (_with([[0.4, 0.1, 0.0]] * 6, "geometry", "b_p"), "legs cannot hold the platform in its home pose"),
        (_with([[0.4, 0.1, 0.0]] * 6, "geometry", "B"), "legs cannot hold the platform in its home pose"),
    ],
)
def test_impossible_files_are_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], message: str | None
) -> None:
    content = described()
    change(content)
    file = tmp_path / "robot.json"
    file.write_text(json.dumps(content))
    if message is None:
        assert isinstance(load(file), SixUPRU)
        return
    with pytest.raises(ModelError, match=message) as caught:
        load(file)
    assert str(file) in caught.value.detail
    assert caught.value.context["path"] == str(file)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('kind = "six-upru"', 'kind = "hexapod"', "kind: 'hexapod' is none of serial-chain, six-upru"),
        ('kind = "six-upru"\n', "", "convention: a text is missing"),
        ("velocity = 0.5", "velocity = -0.5", r"limits.velocity: is negative"),
        ("velocity = 0.5", "speed = 0.5", "limits: unknown key 'speed'; there are acceleration, condition, force"),
        ("condition = 10.0", "condition = 0.5", "condition_limit is 0.5, it must be above 1"),
        ("joint_angle = 0.7", "joint_angle = 0.0", "joint_angle_limit is 0, it must be above 0"),
        ("[links]", "[bodies]", "links: the table is missing"),
        ("mass = 82.0", "", "platform.mass: a number is missing"),
        ("inertia = { xx", "tensor = { xx", r"platform.inertia: the table \{ xx, yy, zz, xy, xz, yz \} is missing"),
        ('name = "leg3"', 'name = "leg1"', "joint names repeat: leg1, leg2, leg1"),
        ("length = [0.8193, 1.2193]", "length = [1.3, 1.2193]", r"legs\[1\].length: the lower limit, 1.3, is above"),
        ('name = "leg2"', 'name = "leg2"\ndrive_gain = 300.0', r"legs\[1\].drive_gain: is missing, though other"),
        ('name = "leg6"', 'name = "leg6"\nsensor = 1', r"legs\[6\]: unknown key 'sensor'"),
        ("gravity = [0.0, 0.0, -9.81]", "gravity = [0.0, 0.0]", "gravity: needs 3 numbers"),
    ],
)
def test_model_files_say_what_is_wrong_and_where(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in TOML
    file = tmp_path / "robot.toml"
    file.write_text(TOML.replace(old, new, 1))
    with pytest.raises(ModelError, match=message) as caught:
        load(file)
    assert str(file) in caught.value.detail


def test_a_model_file_needs_six_legs_and_keeps_what_is_optional(tmp_path: Path) -> None:
    file = tmp_path / "robot.toml"
    file.write_text(TOML[: TOML.rindex("[[legs]]")])
    with pytest.raises(ModelError, match="has 6 legs, not 5"):
        load(file)
    file.write_text(TOML.replace('name = "leg', 'drive_gain = 280.0\nname = "leg'))
    assert load(file).drive_gains.tolist() == [280.0] * 6
    start, end = TOML.index("[limits]"), TOML.index("[links]")
    file.write_text(TOML[:start] + TOML[end:])
    assert np.isinf(load(file).joint_angle_limit)
    file.write_text("{not json")
    with pytest.raises(ModelError, match="not JSON"):
        load(file)


def test_json_and_pickle_give_the_same_robot_back() -> None:
    for robot in (catalogue("upru6"), load(FILES / "A_cos.json").with_drive_gains(np.arange(1.0, 7.0))):
        assert isinstance(robot, SixUPRU)
        for copy in (
            SixUPRU.from_document(json.loads(json.dumps(robot.to_document(), allow_nan=False))),
            pickle.loads(pickle.dumps(robot)),  # noqa: S301 - our own bytes
        ):
            assert copy == robot
            assert hash(copy) == hash(robot)
            assert not copy.base_joints.flags.writeable
    document = robot.to_document()
    with pytest.raises(ModelError, match="kind 'six-upru', version 2"):
        SixUPRU.from_document({**document, "version": 2})
    for broken in ({**document, "colour": "blue"}, {k: v for k, v in document.items() if k != "limits"}):
        with pytest.raises(ModelError, match="incomplete or foreign"):
            SixUPRU.from_document(broken)


def test_digest_covers_everything_that_matters(upru: SixUPRU) -> None:
    others = [
        upru.with_gravity((0, -9.81, 0)),
        upru.with_mounting((0.1, 0.0, 0.0)),
        upru.with_parameters(np.ones(29)),
        upru.with_limits(velocity=1.0),
        upru.with_drive_gains(np.ones(6)),
        upru.with_payload(1.0, (0, 0, 0)),
        replace(upru, name="other"),
        replace(upru, joint_angle_limit=0.5),
        replace(upru, home=upru.home * 1.01),
    ]
    assert len({upru.digest(), *(other.digest() for other in others)}) == 10
    assert upru != catalogue("ur10e")


def test_nothing_can_be_changed_in_place(upru: SixUPRU) -> None:
    with pytest.raises(FrozenInstanceError):
        upru.name = "other"  # type: ignore[misc]
    for item in fields(upru):
        value = getattr(upru, item.name)
        if isinstance(value, np.ndarray):
            with pytest.raises(ValueError, match="read-only"):
                value[...] = 0.0


def test_a_payload_is_a_body_on_the_platform(random_upru: Callable[[int], Any]) -> None:
    bodies = random_upru(5)
    mass, com, inertia = 12.0, np.array([0.1, -0.05, 0.2]), np.diag([0.3, 0.4, 0.5])
    total = bodies.mp + mass
    centre = (bodies.mp * bodies.rc_p + mass * com) / total

    def about(m: float, c: np.ndarray) -> np.ndarray:
        r = c - centre
        return m * (r @ r * np.eye(3) - np.outer(r, r))

    joined = replace(
        bodies,
        mp=total,
        rc_p=centre,
        Ic_p=bodies.Ic_p + about(bodies.mp, bodies.rc_p) + inertia + about(mass, com),
    )
    loaded = bodies.model().with_payload(mass, com, inertia)
    np.testing.assert_allclose(loaded.parameters, joined.model().parameters, atol=1e-12)
    with pytest.raises(InputError, match="no body has this mass and inertia"):
        bodies.model().with_payload(-1.0, com)


def test_what_a_parallel_robot_does_not_have_is_said() -> None:
    with pytest.raises(ModelError, match="has no rotor inertias") as caught:
        resolve("upru6", rotor_inertia=True)
    assert caught.value.code == "rotor-inertia-foreign"
    with pytest.raises(ModelError, match="upru6 is a parallel robot; URDF is for serial chains only") as caught:
        serial_chain(catalogue("upru6"), "URDF")
    assert caught.value.code == "serial-chain-needed"
    with pytest.raises(InputError, match=r"parameters has shape \(17,\), expected \(29,\)"):
        catalogue("upru6").with_parameters(np.zeros(17))


def test_both_kinds_of_robot_are_stored_and_driven_alike(upru: SixUPRU) -> None:
    random = np.random.default_rng(0)
    for robot in (upru, catalogue("ur10e", rotor_inertia=True)):
        assert model_from_document(json.loads(json.dumps(robot.to_document()))) == robot
        assert len(robot.coordinate_names) == len(robot.joint_types) == robot.n_joints
        q = getattr(robot, "home", np.zeros(6)) + random.uniform(-0.05, 0.05, (20, 6))
        states = (q, *random.uniform(-1.0, 1.0, (2, 20, 6)))
        joints = robot.joint_motion(*states)
        for found, expected in zip(robot.from_joints(*joints), states, strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-11)
        error = robot.regressor(*states) @ robot.parameters - robot.inverse_dynamics(*states)
        assert np.abs(error).max() < 1e-9
    with pytest.raises(ModelError, match="kind 'toaster' is no robot; known are serial-chain, six-upru"):
        model_from_document({"kind": "toaster"})


def test_json_that_nests_too_deep_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    path.write_text('{"geometry":' * 20000)
    with pytest.raises(ModelError, match="not JSON"):
        load(path)
