"""The serial chain as a value: validated, immutable, comparable, storable."""

from __future__ import annotations

import json
import pickle
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import numpy as np
import pytest

from core import models
from core.errors import InputError, ModelError
from core.models import JointLimits, SerialChain


def planar(**changes: Any) -> SerialChain:
    values: dict[str, Any] = {
        "name": "planar",
        "joint_names": ("shoulder", "elbow"),
        "joint_types": ("revolute", "revolute"),
        "placement_rotation": np.tile(np.eye(3), (2, 1, 1)),
        "placement_translation": [[0, 0, 0], [0.5, 0, 0]],
        "axis": [[0, 0, 1], [0, 0, 1]],
        "inertial_parameters": np.ones((2, 10)),
        "limits": JointLimits.unlimited(2),
    }
    return SerialChain(**{**values, **changes})


def test_json_and_pickle_give_the_same_chain_back() -> None:
    for chain in (models.catalogue("ur10e", rotor_inertia=True), planar(axis=np.ones((2, 3)))):
        for copy in (
            SerialChain.from_document(json.loads(json.dumps(chain.to_document(), allow_nan=False))),
            pickle.loads(pickle.dumps(chain)),  # noqa: S301 - our own bytes
        ):
            assert copy == chain
            assert hash(copy) == hash(chain)
            assert copy.digest() == chain.digest()
            np.testing.assert_array_equal(copy.parameters, chain.parameters)
            assert not copy.axis.flags.writeable


def test_digest_covers_everything_that_matters() -> None:
    chain = planar()
    others = [
        chain.with_gravity((0, -9.81, 0)),
        chain.with_rotor_inertia([0.0, 0.0]),
        chain.with_parameters(np.full(20, 2.0)),
        chain.with_limits(velocity=1.0),
        chain.with_drive_gains([1.0, 2.0]),
        replace(chain, name="other"),
    ]
    assert len({chain.digest(), *(other.digest() for other in others)}) == 7
    assert chain != others[0]
    assert chain != "planar"


def test_nothing_can_be_changed_in_place() -> None:
    chain = planar()
    with pytest.raises(FrozenInstanceError):
        chain.name = "other"  # type: ignore[misc]
    for field in fields(chain):
        value = getattr(chain, field.name)
        if isinstance(value, np.ndarray):
            with pytest.raises(ValueError, match="read-only"):
                value[...] = 0.0


def test_parameters_round_trip_with_and_without_rotors() -> None:
    for chain in (planar(), planar(rotor_inertia=[0.1, 0.2])):
        values = np.arange(1.0, chain.n_parameters + 1.0)
        np.testing.assert_array_equal(chain.with_parameters(values).parameters, values)
    assert " ".join(planar().parameter_names[:11]) == "m1 mx1 my1 mz1 Ixx1 Ixy1 Iyy1 Ixz1 Iyz1 Izz1 m2"
    assert planar(rotor_inertia=[0.1, 0.2]).parameter_names[-2:] == ("Ia1", "Ia2")


def test_changed_copies_check_their_arguments() -> None:
    chain = planar()
    with pytest.raises(InputError, match=r"parameters has shape \(3,\), expected \(20,\)"):
        chain.with_parameters([1, 2, 3])
    with pytest.raises(InputError, match=r"gravity has shape \(2,\)"):
        chain.with_gravity([1, 2])
    with pytest.raises(InputError, match="unknown limits \\['speed'\\]; there are position_lower"):
        chain.with_limits(speed=1.0)
    assert chain.with_rotor_inertia([1, 1]).with_rotor_inertia(None) == chain
    assert chain.with_drive_gains([1, 1]).with_drive_gains(None) == chain
    np.testing.assert_array_equal(chain.with_limits(velocity=[1, 2]).limits.velocity, [1.0, 2.0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"joint_names": (), "joint_types": ()}, "at least one moving joint"),
        ({"joint_names": ("a", "a")}, "joint names repeat: a, a"),
        ({"joint_types": ("revolute", "ball")}, "joint_types must be 2 of"),
        ({"axis": np.zeros((2, 3))}, "the axis of joint 'shoulder' has no length"),
        ({"axis": np.zeros((3, 3))}, r"axis has shape \(3, 3\), expected \(2, 3\)"),
        ({"axis": "up"}, "axis is not an array of numbers"),
        ({"gravity": [0, 0, np.nan]}, r"gravity\[2\] is nan"),
        ({"placement_rotation": np.tile(2 * np.eye(3), (2, 1, 1))}, "placement of 'shoulder' is not a rotation"),
        ({"placement_rotation": np.tile(np.diag([1, 1, -1]), (2, 1, 1))}, "is not a rotation"),
        ({"tool": np.zeros((4, 4))}, "placement of 'tool' is not a rotation"),
        ({"inertial_parameters": -np.ones((2, 10))}, "the mass at joint 'shoulder' is negative"),
        ({"rotor_inertia": [0.1, -0.1]}, "the rotor inertia at joint 'elbow' is negative"),
        ({"drive_gains": [1.0, 0.0]}, "the drive gain of joint 'elbow' is zero"),
        ({"limits": JointLimits.unlimited(3)}, "limits are for 3 joints, not 2"),
    ],
)
def test_impossible_chains_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        planar(**changes)


def test_impossible_limits_are_refused() -> None:
    chain = planar()
    with pytest.raises(ModelError, match=r"lower position 1 of joint 2 is above the upper one, 0"):
        chain.with_limits(position_lower=[0, 1], position_upper=[0, 0])
    with pytest.raises(ModelError, match=r"torque of joint 1 is negative \(-1\)"):
        chain.with_limits(torque=[-1, 1])
    with pytest.raises(ModelError, match=r"velocity\[1\] is nan"):
        chain.with_limits(velocity=[1, np.nan])


def test_foreign_documents_are_refused() -> None:
    document = planar().to_document()
    with pytest.raises(ModelError, match="not a serial-chain document of version 1: kind 'serial-chain', version 2"):
        SerialChain.from_document({**document, "version": 2})
    for broken in ({**document, "colour": "blue"}, {k: v for k, v in document.items() if k != "limits"}):
        with pytest.raises(ModelError, match="incomplete or foreign"):
            SerialChain.from_document(broken)


@pytest.mark.parametrize("name", ["ur10e", "coman_r5", "three_joint"])
def test_no_parameter_exceeds_its_size_and_none_is_without_one(name):
    chain = models.catalogue(name, rotor_inertia=True)
    assert np.all(chain.parameter_sizes > 0.0)
    assert np.all(np.abs(chain.parameters) <= chain.parameter_sizes * (1.0 + 1e-9))
    massless = replace(chain, inertial_parameters=np.zeros_like(chain.inertial_parameters), rotor_inertia=None)
    assert not massless.parameter_sizes.any()
