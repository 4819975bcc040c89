"""URDF of a serial chain, for simulators and planners."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import quoteattr

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.dynamics.physical_consistency import inconsistent_links
from core.errors import ModelError
from core.models import SerialChain
from core.models.frames import com_from_inertial, rpy_from_rotation

Array = NDArray[np.float64]

UNLIMITED = 1e9
"""Written for a limit that URDF demands and the model does not have."""
_GRAVITY = 9.81
_GRAVITY_TOLERANCE = 0.02
"""m/s² around 9.81 that is a matter of latitude and height."""
_UPRIGHT = 1e-12


def urdf_text(chain: SerialChain, notes: Sequence[str] = ()) -> str:
    """Return the URDF document of a chain, with ``notes`` as comments.

    Joints keep their names; links are called after them. Gravity in URDF is along -z of the root link: a chain that
    is mounted otherwise gets a root link ``world`` in which it stands as it does. Rotor inertias have no place in
    URDF; a comment gives them, and a simulator needs them as armature.

    Raises
    ------
    ModelError
        The inertial parameters of a link are no body's (code ``not-consistent``), or gravity is other than the Earth's
        (``gravity-not-expressible``).
    """
    check_consistent(chain)
    lines = ['<?xml version="1.0"?>', f"<robot name={quoteattr(chain.name)}>"]
    if chain.rotor_inertia is not None:
        notes = [*notes, f"rotor inertias at the joints, kg m^2, for armature: {_row(chain.rotor_inertia)}"]
    lines += [f"  <!-- {note.replace('--', '- -')} -->" for note in notes]
    lines += _base(chain)
    parent = "base_link"
    for j, name in enumerate(chain.joint_names):
        child = f"{name}_link"
        lines += [*_link(child, chain.inertial_parameters[j]), *_joint(chain, j, parent, child)]
        parent = child
    tool_origin = _origin(chain.tool[:3, :3], chain.tool[:3, 3])
    lines += ['  <link name="tool0"/>', *_fixed("tool0_fixed", parent, "tool0", tool_origin), "</robot>", ""]
    return "\n".join(lines)


def check_consistent(chain: SerialChain) -> None:
    """Refuse a chain with a link whose inertial parameters no distribution of mass can have.

    Raises
    ------
    ModelError
        Code ``not-consistent``; the context names the links' joints.
    """
    wrong = [chain.joint_names[j] for j in inconsistent_links(chain.inertial_parameters)]
    if wrong:
        raise ModelError(
            f"{chain.name}: the inertial parameters of the links moved by {', '.join(wrong)} are those of no body "
            "(their pseudo-inertia matrix is not positive definite), and no simulator would take them",
            code="not-consistent",
            joints=wrong,
        )


def _base(chain: SerialChain) -> list[str]:
    size = float(np.linalg.norm(chain.gravity))
    if abs(size - _GRAVITY) > _GRAVITY_TOLERANCE:
        raise ModelError(
            f"{chain.name}: gravity is {size:g} m/s² in this model; URDF knows none but the Earth's",
            code="gravity-not-expressible",
        )
    if chain.gravity[2] < 0.0 and np.linalg.norm(chain.gravity[:2]) < _UPRIGHT * size:
        return ['  <link name="base_link"/>']
    mounting = _origin(_turn(chain.gravity / size), np.zeros(3))
    return ['  <link name="world"/>', '  <link name="base_link"/>', *_fixed("mounting", "world", "base_link", mounting)]


def _turn(down: Array) -> Array:
    """Return the smallest rotation that turns the unit vector ``down`` to -z."""
    target = np.array([0.0, 0.0, -1.0])
    axis, cosine = np.cross(down, target), float(down @ target)
    if cosine < -1.0 + 1e-9:
        return np.diag([1.0, -1.0, -1.0])
    x, y, z = axis
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.asarray(np.eye(3) + cross + cross @ cross / (1.0 + cosine))


def _link(name: str, parameters: Array) -> list[str]:
    mass, com, inertia = com_from_inertial(parameters)
    pairs = ("xx", "xy", "xz", "yy", "yz", "zz")
    tensor = " ".join(f'i{p}="{inertia["xyz".index(p[0]), "xyz".index(p[1])].item()!r}"' for p in pairs)
    return [
        f"  <link name={quoteattr(name)}>",
        "    <inertial>",
        f'      <origin xyz="{_row(com)}" rpy="0 0 0"/>',
        f'      <mass value="{mass!r}"/>',
        f"      <inertia {tensor}/>",
        "    </inertial>",
        "  </link>",
    ]


def _joint(chain: SerialChain, j: int, parent: str, child: str) -> list[str]:
    limits = chain.limits
    lower, upper, velocity, torque = (
        float(values[j]) for values in (limits.position_lower, limits.position_upper, limits.velocity, limits.torque)
    )
    kind = chain.joint_types[j]
    turning_freely = kind == "revolute" and np.isinf(lower) and np.isinf(upper)
    bounds: Sequence[tuple[str, float]] = [("velocity", velocity), ("effort", torque)]
    if not turning_freely:
        bounds = [("lower", lower), ("upper", upper), *bounds]
    limit = " ".join(f'{name}="{_finite(value)!r}"' for name, value in bounds)
    origin = _origin(chain.placement_rotation[j], chain.placement_translation[j])
    return [
        f'  <joint name={quoteattr(chain.joint_names[j])} type="{"continuous" if turning_freely else kind}">',
        f"    <parent link={quoteattr(parent)}/>",
        f"    <child link={quoteattr(child)}/>",
        f"    {origin}",
        f'    <axis xyz="{_row(chain.axis[j])}"/>',
        f"    <limit {limit}/>",
        "  </joint>",
    ]


def _fixed(name: str, parent: str, child: str, origin: str) -> list[str]:
    return [
        f'  <joint name="{name}" type="fixed">',
        f"    <parent link={quoteattr(parent)}/>",
        f"    <child link={quoteattr(child)}/>",
        f"    {origin}",
        "  </joint>",
    ]


def _origin(rotation: ArrayLike, translation: Array) -> str:
    return f'<origin xyz="{_row(translation)}" rpy="{_row(rpy_from_rotation(rotation))}"/>'


def _row(values: Array) -> str:
    return " ".join(map(repr, values.tolist()))


def _finite(value: float) -> float:
    return value if np.isfinite(value) else float(np.copysign(UNLIMITED, value))
