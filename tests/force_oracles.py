"""Fixman forces to compare with: complex steps of a dense determinant, and 40 digits.

Nothing here imports ``fixman``.
"""

from __future__ import annotations

import mpmath
import numpy as np

import oracles
from oracles import DIGITS, STEP, Spec


class Dual:
    """A complex function with its gradient; NumPy's functions call the methods of objects."""

    def __init__(self, f, f1=0.0):
        self.f, self.f1 = f, f1

    @staticmethod
    def of(a):
        return a if isinstance(a, Dual) else Dual(a)

    def __add__(self, other):
        o = Dual.of(other)
        return Dual(self.f + o.f, self.f1 + o.f1)

    def __sub__(self, other):
        o = Dual.of(other)
        return Dual(self.f - o.f, self.f1 - o.f1)

    def __rsub__(self, other):
        return Dual.of(other) - self

    def __mul__(self, other):
        o = Dual.of(other)
        return Dual(self.f * o.f, self.f1 * o.f + self.f * o.f1)

    __radd__, __rmul__ = __add__, __mul__

    def sqrt(self):
        f = np.sqrt(self.f)
        return Dual(f, self.f1 / (2 * f))

    def arctan2(self, x):
        """Return an angle, whose own value nobody wants."""
        return Dual(0.0, (x.f * self.f1 - self.f * x.f1) / (self.f**2 + x.f**2))


def fixman_force(spec: Spec, x: np.ndarray, kT: float = 1.0) -> tuple[np.ndarray, float]:
    """Return −∇ ½ kT ln det H^bb by complex steps of the determinant, and cond(H^bb).

    Wilson's B of each stepped configuration comes from dual numbers, the determinant from LU.
    """
    if not len(spec.hard):
        return np.zeros(x.shape), 1.0
    size = spec.n * spec.dim
    z = (x.reshape(size) + 1j * STEP * np.eye(size)).reshape(size, spec.n, spec.dim)
    units = np.eye(size).reshape(spec.n, spec.dim, size)
    beads = [
        [Dual(z[:, k, c, None], units[k, c][None]) for c in range(spec.dim)] for k in range(spec.n)
    ]
    rows = [oracles._value(spec.rows[i], beads, spec.dim, spec.base).f1 for i in spec.hard]
    b = np.stack(rows, axis=1)  # (steps, hard, n·d)
    h = (b / spec.mm) @ b.swapaxes(1, 2)
    sign, _ = np.linalg.slogdet(h)
    # ln det H is real but for the step: its imaginary part is the phase.
    gradient = (sign.imag / STEP).reshape(x.shape)
    return -kT / 2 * gradient, float(np.linalg.cond(h[0].real))


def mp_fixman_force(spec: Spec, x: np.ndarray) -> np.ndarray:
    """Return the force on a freely jointed chain (kT = 1), rounded to float at the very end."""
    dim, fixed = spec.dim, spec.base == "fixed"
    with mpmath.workdps(DIGITS):
        lengths, units = oracles._mp_bonds(spec, x)
        weights = oracles._mp_weights(spec)
        pivots, coupling = oracles._mp_pivots(weights, units)
        count = len(units)
        on_bonds = [[mpmath.mpf(0)] * dim for _ in range(count)]
        inverse = 1 / pivots[-1]  # S_kk, backwards
        for k in reversed(range(count - 1)):
            ratio = -coupling[k] / pivots[k]
            pull = weights[k + 1] * ratio * inverse  # w S_{k,k+1}
            inverse = 1 / pivots[k] + ratio * ratio * inverse
            u, v = units[k], units[k + 1]
            c = oracles.dot(u, v)
            for a in range(dim):
                on_bonds[k][a] += pull * (v[a] - c * u[a]) / lengths[k]
                on_bonds[k + 1][a] += pull * (u[a] - c * v[a]) / lengths[k + 1]
        beads = [[mpmath.mpf(0)] * dim for _ in range(count + 1)]
        for k, pull in enumerate(on_bonds):
            for a in range(dim):
                beads[k][a] -= pull[a]
                beads[k + 1][a] += pull[a]
        return np.array([[float(c) for c in bead] for bead in beads[fixed:]])
