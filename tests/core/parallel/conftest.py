"""A 6-UPRU robot body by body, straight from equations (1) to (34) of the source: slow, plain, independent.

Nothing of the project is used but the geometry and the bodies that a test gives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from core.models import JointLimits, SixUPRU, load
from core.models.upru_parameters import leg_parameters, platform_parameters

Array = NDArray[np.float64]


@dataclass(frozen=True)
class UpruOracle:
    """Bodies and geometry; m, lc, Ia, In are of L1 to L4."""

    B: Array
    b_p: Array
    rb1: Array
    rp1_p: Array
    m: Array
    lc: Array
    Ia: Array
    In: Array
    mp: float
    rc_p: Array
    Ic_p: Array
    gravity: Array
    home: Array

    def model(self) -> SixUPRU:
        return SixUPRU(
            name="random",
            joint_names=tuple(f"leg{i}" for i in range(1, 7)),
            base_joints=self.B,
            platform_joints=self.b_p,
            base_axes=self.rb1,
            platform_axes=self.rp1_p,
            parameters=np.concatenate(
                [
                    leg_parameters(self.m, self.lc, self.Ia, self.In),
                    platform_parameters(self.mp, self.rc_p, self.Ic_p),
                ]
            ),
            home=self.home,
            limits=JointLimits.unlimited(6),
            gravity=self.gravity,
        )

    @classmethod
    def random(cls, seed: int) -> UpruOracle:
        """Any size, layout, axes, bodies and gravity, as long as the home pose is far from singular."""
        rng = np.random.default_rng(seed)
        size = rng.uniform(0.2, 3.0)
        while True:
            angle = np.radians([-45, 45, 75, 165, 195, 285]) + rng.uniform(-0.25, 0.25, 6)
            below = np.column_stack([np.cos(angle), np.sin(angle), np.zeros(6)]) * rng.uniform(0.5, 1.0)
            above = np.radians([-12, 12, 108, 132, 228, 252]) + rng.uniform(-0.15, 0.15, 6)
            top = np.column_stack([np.cos(above), np.sin(above), np.zeros(6)]) * rng.uniform(0.3, 0.6)
            below += rng.uniform(-0.1, 0.1, (6, 3))
            top += rng.uniform(-0.1, 0.1, (6, 3))
            axes = rng.normal(size=(2, 6, 3))
            axes /= np.linalg.norm(axes, axis=2, keepdims=True)
            n = top - below
            n[:, 2] += 1.0
            n /= np.linalg.norm(n, axis=1, keepdims=True)
            J = np.hstack([n, np.cross(top, n)])
            if np.linalg.cond(J) < 12.0 and np.abs(np.sum(axes * n, axis=2)).max() < 0.8:
                break
        factor = rng.normal(size=(3, 3))
        spread = factor @ factor.T + 0.2 * np.eye(3)
        return cls(
            B=size * below,
            b_p=size * top,
            rb1=axes[0],
            rp1_p=axes[1],
            m=rng.uniform(0.5, 9.0, 4),
            lc=size * rng.uniform(0.05, 0.5, 4),
            Ia=rng.uniform(0.001, 0.1, 4),
            In=rng.uniform(0.01, 0.5, 4),
            mp=float(rng.uniform(5.0, 100.0)),
            rc_p=size * rng.uniform(-0.1, 0.1, 3),
            Ic_p=np.trace(spread) * np.eye(3) - spread,
            gravity=rng.uniform(-9.81, 9.81, 3),
            home=np.array([0.0, 0.0, size, 0.0, 0.0, 0.0]),
        )

    def states(self, seed: int, samples: int) -> Array:
        """Return q, qd, qdd (3, samples, 6) around home."""
        rng = np.random.default_rng(seed)
        size = self.home[2]
        scale = np.array([size, size, size, 1.0, 1.0, 1.0])
        q = self.home + rng.uniform(-0.1, 0.1, (samples, 6)) * scale
        return np.array([q, *(rng.uniform(-2.0, 2.0, (2, samples, 6)) * scale)])

    def forces(self, q: Array, qd: Array, qdd: Array, wrench: Array) -> tuple[Array, Array]:
        """Return sensor and motor forces (6,) of one sample."""
        R, v, w, a, eps = self.platform(q, qd, qdd)
        g = self.gravity
        J, known = np.zeros((6, 6)), np.zeros(6)
        rod = np.zeros(6)
        rc = R @ self.rc_p
        ac = a + np.cross(eps, rc) + np.cross(w, np.cross(w, rc))
        Ic = R @ self.Ic_p @ R.T
        known[:3] = self.mp * (ac - g) - wrench[:3]
        known[3:] = Ic @ eps + np.cross(w, Ic @ w) + np.cross(rc, self.mp * (ac - g)) - wrench[3:]
        for i in range(6):
            leg = self._leg(i, q, R, v, w, a, eps)
            e, n, length = leg["e"], leg["n"], leg["l"]
            accelerations = leg["centres"]
            inertia = [self.Ia[k] * np.outer(n, n) + self.In[k] * (np.eye(3) - np.outer(n, n)) for k in range(4)]
            arm = [length - self.lc[0], length - self.lc[1], length - self.lc[2], self.lc[3]]
            N = np.zeros(3)
            for k in range(4):
                turn, turn_rate = (leg["wp"], leg["ep"]) if k == 0 else (leg["wb"], leg["eb"])
                N += inertia[k] @ turn_rate + np.cross(turn, inertia[k] @ turn)
                N += np.cross(arm[k] * n, self.m[k] * (accelerations[k] - g))
            mp_i = self.Ia[0] * (leg["ep"] @ n) / (leg["rpc"] @ n)
            mb_i = self.Ia[1:].sum() * (leg["eb"] @ n) / (leg["rbc"] @ n)
            across = np.cross(N - mp_i * leg["rpc"] - mb_i * leg["rbc"], n) / length
            own = sum(self.m[k] * (accelerations[k] - g) @ n for k in (0, 1))
            force = across + own * n  # and -f_s n, which is unknown
            known[:3] += force
            known[3:] += np.cross(e, force) + mp_i * leg["rpc"]
            J[i] = [*n, *np.cross(e, n)]
            rod[i] = self.m[2] * (accelerations[2] - g) @ n
        sensor = np.linalg.solve(J.T, known)
        return sensor, sensor + rod

    def energy(self, q: Array, qd: Array) -> float:
        """Return kinetic plus potential energy, J."""
        R, v, w, a, eps = self.platform(q, qd, np.zeros(6))
        rc = R @ self.rc_p
        vc = v + np.cross(w, rc)
        wp = R.T @ w
        total = 0.5 * self.mp * vc @ vc + 0.5 * wp @ self.Ic_p @ wp - self.mp * self.gravity @ (q[:3] + rc)
        for i in range(6):
            leg = self._leg(i, q, R, v, w, a, eps)
            n, b, bd, nd = leg["n"], leg["b"], leg["bd"], leg["nd"]
            for k in range(4):
                centre, speed = b - self.lc[k] * n, bd - self.lc[k] * nd
                if k == 3:
                    centre, speed = self.B[i] + self.lc[3] * n, self.lc[3] * nd
                spin = (leg["wp"] if k == 0 else leg["wb"]) @ n
                total += 0.5 * self.m[k] * speed @ speed - self.m[k] * self.gravity @ centre
                total += 0.5 * (self.Ia[k] * spin**2 + self.In[k] * nd @ nd)
        return float(total)

    def platform(self, q: Array, qd: Array, qdd: Array) -> tuple[Array, ...]:
        (sa, sb, sc), (ca, cb, cc) = np.sin(q[3:]), np.cos(q[3:])
        Rz = np.array([[ca, -sa, 0], [sa, ca, 0], [0, 0, 1]])
        Ry = np.array([[cb, 0, sb], [0, 1, 0], [-sb, 0, cb]])
        Rx = np.array([[1, 0, 0], [0, cc, -sc], [0, sc, cc]])
        J = np.array([[0, -sa, ca * cb], [0, ca, sa * cb], [1, 0, -sb]])
        da, db = qd[3], qd[4]
        Jd = np.array(
            [
                [0, -ca * da, -sa * cb * da - ca * sb * db],
                [0, -sa * da, ca * cb * da - sa * sb * db],
                [0, 0, -cb * db],
            ]
        )
        return Rz @ Ry @ Rx, qd[:3], J @ qd[3:], qdd[:3], Jd @ qd[3:] + J @ qdd[3:]

    def _leg(self, i: int, q: Array, R: Array, v: Array, w: Array, a: Array, eps: Array) -> dict[str, Any]:
        e = R @ self.b_p[i]
        L = q[:3] + e - self.B[i]
        length = float(np.linalg.norm(L))
        n = L / length
        bd = v + np.cross(w, e)
        bdd = a + np.cross(eps, e) + np.cross(w, np.cross(w, e))
        ld = bd @ n
        nd = (bd - ld * n) / length
        ldd = bdd @ n + bd @ nd
        r1 = self.rb1[i]
        r2 = np.cross(r1, n) / np.linalg.norm(np.cross(r1, n))
        rbc = np.cross(r1, r2)
        wb = np.cross(rbc, bd - ld * n) / (length * n @ rbc)  # (14)
        theta = wb @ r1
        eb = (
            np.cross(rbc, bdd - ldd * n - ld * np.cross(wb, n))
            - theta * np.cross(r2, bd - ld * n)
            - ((ld * n + length * np.cross(wb, n)) @ rbc) * wb
        )
        eb /= length * n @ rbc  # (16)
        p1 = R @ self.rp1_p[i]
        p2 = np.cross(p1, n) / np.linalg.norm(np.cross(p1, n))
        rpc = np.cross(p1, p2)
        off, across, along = w - wb, np.cross(p2, n), rpc @ n
        t1, t2 = off @ across / along, off @ p2  # (19), (20)
        wp = w - t1 * p1 - t2 * p2  # (17)
        e1 = ((eps - eb) @ across + t2 * (wp @ n) - (wb @ p2) * (off @ n)) / along
        e1 -= (p1 @ n) * (off @ across) * (off @ p2) / along**2  # (22)
        e2 = (eps - eb) @ p2 + off @ np.cross(wp, p2)
        ep = eps - e1 * p1 - e2 * p2 + np.cross(w, wp) + t1 * t2 * rpc  # (21)
        bend = np.cross(eb, n) + np.cross(wb, np.cross(wb, n))  # (24)
        centres = [bdd - self.lc[k] * bend for k in range(3)] + [self.lc[3] * bend]  # (23)
        return {
            **{"e": e, "l": length, "n": n, "b": q[:3] + e, "bd": bd, "nd": nd, "centres": centres},
            **{"wb": wb, "eb": eb, "rbc": rbc, "wp": wp, "ep": ep, "rpc": rpc},
        }


class Reference(NamedTuple):
    """A robot and what two multibody engines make of a trajectory of it, see tests/data/upru/README.md."""

    robot: SixUPRU
    data: dict[str, Array]

    @property
    def states(self) -> tuple[Array, Array, Array]:
        return self.data["q"], self.data["qd"], self.data["qdd"]


def _reference(name: str) -> Reference:
    folder = Path(__file__).parents[2] / "data" / "upru"
    robot = load(folder / f"{name}.json")
    assert isinstance(robot, SixUPRU)
    with np.load(folder / f"{name}.npz") as file:
        return Reference(robot, dict(file))


@pytest.fixture(scope="session", params=["A_cos", "A_fourier"])
def reference(request: pytest.FixtureRequest) -> Reference:
    return _reference(request.param)


@pytest.fixture(scope="session")
def fourier() -> Reference:
    return _reference("A_fourier")


@pytest.fixture(scope="session")
def cosine() -> Reference:
    return _reference("A_cos")


@pytest.fixture(scope="session")
def upru() -> SixUPRU:
    return _reference("A_fourier").robot


@pytest.fixture(scope="session")
def random_upru() -> Callable[[int], UpruOracle]:
    """Return the bodies of a random robot, by seed."""
    return UpruOracle.random
