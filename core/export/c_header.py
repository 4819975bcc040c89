"""An identified model as a C header: the torque function, self-contained C99 without allocation."""

from __future__ import annotations

import re
from string import Template

import numpy as np
from numpy.typing import NDArray

from core.export.c_friction import FrictionSource, friction_source
from core.models import SerialChain, serial_chain
from core.pipelines.identification import Identification

Array = NDArray[np.float64]

_HEADER = Template("""\
/*
 * Torque of the robot $name, identified by dynid $version.
 * Model digest $digest.
 * Friction: $friction.
 *
 * C99, no allocation; needs <math.h> only. Joints, in this order:
$joints
 * q, qd, qdd in rad, rad/s, rad/s^2 (m, ... for prismatic joints); torque in $unit.
 * Dry friction changes its sign smoothly, so that the torque does not jump at a reversal.
 */
#ifndef ${guard}_TORQUE_H
#define ${guard}_TORQUE_H

#include <math.h>

#define ${guard}_JOINTS $n

/* Torque of links and rotors, gravity included, without friction. */
static inline void ${prefix}_rigid_body_torque(const double q[$n], const double qd[$n], const double qdd[$n],
                                               double torque[$n])
{
    /* pose of joint frame j in joint frame j-1: constant + sin(q) sine + cos(q) cosine, offset + q slide */
$tables
    /* m, mx, my, mz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz of each link about the origin of its joint frame */
    double r[$n][9], p[$n][3], force[$n][3], moment[$n][3];
    double w[3] = {0.0, 0.0, 0.0}, dw[3] = {0.0, 0.0, 0.0};
    double a[3] = {$gravity};

    for (int j = 0; j < $n; ++j) {
        const double s = sin(q[j]), c = cos(q[j]);
        for (int i = 0; i < 9; ++i) r[j][i] = constant[j][i] + s * sine[j][i] + c * cosine[j][i];
        for (int i = 0; i < 3; ++i) p[j][i] = offset[j][i] + q[j] * slide[j][i];
        const double *R = r[j], *P = p[j], *z = turning[j], *l = sliding[j], *m = inertial[j];
        /* acceleration of the frame's origin as a point of the link before */
        const double wp[3] = {w[1] * P[2] - w[2] * P[1], w[2] * P[0] - w[0] * P[2], w[0] * P[1] - w[1] * P[0]};
        const double b[3] = {a[0] + dw[1] * P[2] - dw[2] * P[1] + w[1] * wp[2] - w[2] * wp[1],
                             a[1] + dw[2] * P[0] - dw[0] * P[2] + w[2] * wp[0] - w[0] * wp[2],
                             a[2] + dw[0] * P[1] - dw[1] * P[0] + w[0] * wp[1] - w[1] * wp[0]};
        double v[3], dv[3];
        for (int i = 0; i < 3; ++i) {
            v[i] = R[i] * w[0] + R[3 + i] * w[1] + R[6 + i] * w[2];
            dv[i] = R[i] * dw[0] + R[3 + i] * dw[1] + R[6 + i] * dw[2];
            a[i] = R[i] * b[0] + R[3 + i] * b[1] + R[6 + i] * b[2];
        }
        for (int i = 0; i < 3; ++i) {
            const int k = (i + 1) % 3, h = (i + 2) % 3;
            dw[i] = dv[i] + (v[k] * z[h] - v[h] * z[k]) * qd[j] + z[i] * qdd[j];
            a[i] += 2.0 * (v[k] * l[h] - v[h] * l[k]) * qd[j] + l[i] * qdd[j];
        }
        for (int i = 0; i < 3; ++i) w[i] = v[i] + z[i] * qd[j];
        /* force and moment about the frame's origin that the link's motion takes */
        const double iw[3] = {m[4] * w[0] + m[5] * w[1] + m[7] * w[2], m[5] * w[0] + m[6] * w[1] + m[8] * w[2],
                              m[7] * w[0] + m[8] * w[1] + m[9] * w[2]};
        const double idw[3] = {m[4] * dw[0] + m[5] * dw[1] + m[7] * dw[2], m[5] * dw[0] + m[6] * dw[1] + m[8] * dw[2],
                               m[7] * dw[0] + m[8] * dw[1] + m[9] * dw[2]};
        const double wm[3] = {w[1] * m[3] - w[2] * m[2], w[2] * m[1] - w[0] * m[3], w[0] * m[2] - w[1] * m[1]};
        for (int i = 0; i < 3; ++i) {
            const int k = (i + 1) % 3, h = (i + 2) % 3;
            force[j][i] = m[0] * a[i] + dw[k] * m[1 + h] - dw[h] * m[1 + k] + w[k] * wm[h] - w[h] * wm[k];
            moment[j][i] = idw[i] + w[k] * iw[h] - w[h] * iw[k] + m[1 + k] * a[h] - m[1 + h] * a[k];
        }
    }
    for (int j = $n - 1; j >= 0; --j) {
        const double *R = r[j], *P = p[j], *f = force[j], *t = moment[j];
        torque[j] = rotor[j] * qdd[j];
        for (int i = 0; i < 3; ++i) torque[j] += turning[j][i] * t[i] + sliding[j][i] * f[i];
        if (j > 0) {
            double g[3];
            for (int i = 0; i < 3; ++i) g[i] = R[3 * i] * f[0] + R[3 * i + 1] * f[1] + R[3 * i + 2] * f[2];
            for (int i = 0; i < 3; ++i) {
                const int k = (i + 1) % 3, h = (i + 2) % 3;
                force[j - 1][i] += g[i];
                moment[j - 1][i] += R[3 * i] * t[0] + R[3 * i + 1] * t[1] + R[3 * i + 2] * t[2];
                moment[j - 1][i] += P[k] * g[h] - P[h] * g[k];
            }
        }
    }
}

$torque_function
#endif
""")


_PLAIN = Template("""\
/* Torque with friction: what the drives have to deliver. */
static inline void ${prefix}_torque(const double q[$n], const double qd[$n], const double qdd[$n], double torque[$n])
{
    ${prefix}_rigid_body_torque(q, qd, qdd, torque);
$adds
}
""")
_REMEMBERING = Template("""\
/* What friction remembers of the motion so far. */
typedef struct {
    int started;
    double period; /* s between calls */
$fields
} ${prefix}_state;

/* Forget the motion so far; ${prefix}_torque is then called every period (s). */
static inline void ${prefix}_start(${prefix}_state *state, double period)
{
    state->started = 0;
    state->period = period;
}

/* Torque with friction: what the drives have to deliver. Call it once per period, sample after sample. */
static inline void ${prefix}_torque(${prefix}_state *state, const double q[$n], const double qd[$n],
                                    const double qdd[$n], double torque[$n])
{
    ${prefix}_rigid_body_torque(q, qd, qdd, torque);
    if (!state->started) {
$starts
        state->started = 1;
    } else {
$steps
    }
$adds
$ends
}
""")


def c_header(identification: Identification) -> str:
    """Return a C header with the torque of an identified robot.

    Functions ``NAME_torque`` and ``NAME_rigid_body_torque`` take ``q, qd, qdd`` and write ``torque``; NAME is the
    model's name in characters that C allows. Friction that remembers makes ``NAME_torque`` take a ``NAME_state`` first,
    which ``NAME_start`` begins; it is then called once per period along the motion. The torque is that of
    ``Identification.predict(..., smooth=True)``. The link parameters in it are any that have the identified base
    parameters, not those of bodies.

    Raises
    ------
    InputError
        A friction term has no form in C (code ``export-unsupported``).
    IdentificationError
        The friction of a joint drives it (``friction-drives``).
    """
    identification.require_braking()
    model, base = identification.model, identification.base
    links = identification.parameters_[: base.count]
    chain_parameters = base.standard(links, model.parameters)
    friction = friction_source(identification.friction, identification.parameters_[base.count :].tolist())
    prefix = _identifier(model.name)
    names = identification.friction.specification
    return _HEADER.substitute(
        name=_comment(model.name),
        version=identification.provenance.get("software", {}).get("dynid", "(unknown version)"),
        digest=model.digest(),
        friction=names[0] if len(set(names)) == 1 else "; ".join(names),
        joints="\n".join(f" *   {j}  {_comment(name)}" for j, name in enumerate(model.joint_names)),
        unit=identification.unit.replace("·", " "),
        guard=prefix.upper(),
        prefix=prefix,
        n=model.n_joints,
        tables=_tables(serial_chain(model, "a C header"), chain_parameters),
        gravity=", ".join(map(repr, (-model.gravity).tolist())),
        torque_function=_torque_function(friction, prefix, model.n_joints),
    )


def _torque_function(friction: FrictionSource, prefix: str, n: int) -> str:
    if not friction.fields:
        return _PLAIN.substitute(prefix=prefix, n=n, adds=_indented(friction.adds, 1))
    positions = any(field.startswith("double q[") for field in friction.fields)
    return _REMEMBERING.substitute(
        prefix=prefix,
        n=n,
        fields=_indented(friction.fields, 1),
        starts=_indented(friction.starts, 2),
        steps=_indented(friction.steps, 2),
        adds=_indented(friction.adds, 1),
        ends=f"    for (int j = 0; j < {n}; ++j) state->q[j] = q[j];" if positions else "",
    )


def _indented(lines: list[str], levels: int) -> str:
    return "\n".join(f"{'    ' * levels}{line}" for line in lines)


def _tables(model: SerialChain, parameters: Array) -> str:
    arrays, n = model.arrays, model.n_joints
    rotors = parameters[10 * n :] if model.rotor_inertia is not None else np.zeros(n)
    tables = {
        "constant": arrays.rotation_constant.reshape(n, 9),
        "sine": arrays.rotation_sin.reshape(n, 9),
        "cosine": arrays.rotation_cos.reshape(n, 9),
        "offset": arrays.offset,
        "slide": arrays.slide,
        "turning": arrays.axis_angular,
        "sliding": arrays.axis_linear,
        "inertial": parameters[: 10 * n].reshape(n, 10),
    }
    lines = [
        f"    static const double {name}[{n}][{values.shape[1]}] = {{\n{_rows(values)}\n    }};"
        for name, values in tables.items()
    ]
    lines.append(f"    static const double rotor[{n}] = {{{', '.join(map(repr, rotors.tolist()))}}};")
    return "\n".join(lines)


def _rows(values: Array) -> str:
    return ",\n".join(f"        {{{', '.join(map(repr, row))}}}" for row in values.tolist())


def _identifier(name: str) -> str:
    plain = re.sub(r"\W", "_", name, flags=re.ASCII).lower()
    return plain if re.match(r"[a-z]", plain) else f"robot_{plain}"


def _comment(text: str) -> str:
    return text.replace("*/", "* /").replace("\\", "/")
